//! Puts a text in front of every prompt of a request, as each protocol holds them.

use brownout_injector::wire::Api;
use bytes::Bytes;
use serde_json::Value;

/// The body with `text` in front of its prompts, and how many prompts that were; nothing where none was found.
///
/// In a conversation the very first text counts: a prefix cache knows nothing of what comes after a new beginning.
pub(crate) fn prefix(api: Api, body: &[u8], text: &str) -> Option<(Bytes, usize)> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    let mut at = |key: &str, how: fn(&mut Value, &str) -> usize| {
        value.get_mut(key).map_or(0, |prompts| how(prompts, text))
    };
    let prompts = match api {
        Api::OpenaiChat => at("messages", first_message),
        Api::OpenaiCompletions => at("prompt", all),
        Api::OpenaiEmbeddings => at("input", all),
        Api::OpenaiResponses => match at("instructions", content) {
            0 => at("input", |input, text| match input {
                Value::String(input) => insert(input, text),
                items => first_message(items, text),
            }),
            prompts => prompts,
        },
        Api::AnthropicMessages => match at("system", content) {
            0 => at("messages", first_message),
            prompts => prompts,
        },
        Api::TgiGenerate => at("inputs", all),
        Api::TritonGenerate => at("text_input", all),
        Api::Other => 0,
    };
    (prompts > 0).then(|| (value.to_string().into(), prompts))
}

fn insert(into: &mut String, text: &str) -> usize {
    into.insert_str(0, text);
    1
}

/// A prompt, or a list of prompts. Lists of token ids are left alone: no tokenizer is at hand.
fn all(value: &mut Value, text: &str) -> usize {
    match value {
        Value::String(prompt) => insert(prompt, text),
        Value::Array(prompts) => prompts.iter_mut().map(|prompt| all(prompt, text)).sum(),
        _ => 0,
    }
}

/// The first message with text in it.
fn first_message(messages: &mut Value, text: &str) -> usize {
    let Value::Array(messages) = messages else { return 0 };
    let mut contents = messages.iter_mut().filter_map(|message| message.get_mut("content"));
    contents.find_map(|each| Some(content(each, text)).filter(|prompts| *prompts > 0)).unwrap_or(0)
}

/// The content of a message: a text, or parts of which the first text counts.
fn content(value: &mut Value, text: &str) -> usize {
    match value {
        Value::String(content) => insert(content, text),
        Value::Array(parts) => parts
            .iter_mut()
            .find_map(|part| match part.get_mut("text") {
                Some(Value::String(content)) => Some(insert(content, text)),
                _ => None,
            })
            .unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_of_each_protocol_gets_the_prefix() {
        for (api, before, after) in [
            (
                Api::OpenaiChat,
                r#"{"messages":[{"role":"system","content":null},{"role":"user","content":"hi"},{"role":"user","content":"x"}]}"#,
                r#"{"messages":[{"role":"system","content":null},{"role":"user","content":"P hi"},{"role":"user","content":"x"}]}"#,
            ),
            (
                Api::OpenaiChat,
                r#"{"messages":[{"content":[{"type":"image_url"},{"text":"hi","type":"text"}]}]}"#,
                r#"{"messages":[{"content":[{"type":"image_url"},{"text":"P hi","type":"text"}]}]}"#,
            ),
            (Api::OpenaiCompletions, r#"{"prompt":["a","b"]}"#, r#"{"prompt":["P a","P b"]}"#),
            (Api::OpenaiEmbeddings, r#"{"input":"a"}"#, r#"{"input":"P a"}"#),
            (Api::OpenaiResponses, r#"{"input":"a"}"#, r#"{"input":"P a"}"#),
            (
                Api::OpenaiResponses,
                r#"{"input":[{"content":[{"text":"a"}]}]}"#,
                r#"{"input":[{"content":[{"text":"P a"}]}]}"#,
            ),
            (
                Api::AnthropicMessages,
                r#"{"messages":[{"content":"a"}]}"#,
                r#"{"messages":[{"content":"P a"}]}"#,
            ),
            (
                Api::AnthropicMessages,
                r#"{"messages":[{"content":"a"}],"system":"s"}"#,
                r#"{"messages":[{"content":"a"}],"system":"P s"}"#,
            ),
            (Api::TgiGenerate, r#"{"inputs":"a"}"#, r#"{"inputs":"P a"}"#),
            (Api::TritonGenerate, r#"{"text_input":"a"}"#, r#"{"text_input":"P a"}"#),
        ] {
            let (body, prompts) = prefix(api, before.as_bytes(), "P ").expect("there is a prompt");
            let (got, want): (Value, Value) = (
                serde_json::from_slice(&body).expect("still JSON"),
                serde_json::from_str(after).expect("JSON"),
            );
            assert_eq!(got, want);
            assert!(prompts >= 1);
        }
    }

    #[test]
    fn what_has_no_prompt_is_left_alone() {
        for body in ["", "{}", "[]", "null", r#"{"prompt":[1,2]}"#, r#"{"prompt":{}}"#] {
            assert_eq!(prefix(Api::OpenaiCompletions, body.as_bytes(), "P "), None, "{body}");
        }
    }
}
