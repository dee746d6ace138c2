//! Where the generated text is.

use super::{answers, generates, list, string};
use crate::wire::{Api, Class};
use serde_json::{Value, json};

/// Calls `with` for every generated text (answer or reasoning) in an event or in a whole answer, in order. Texts that
/// a final event states again are not among them; [`super::Restate`] keeps those true.
pub(in super::super) fn each_text(api: Api, value: &mut Value, with: &mut dyn FnMut(Class, &mut String)) {
    for answer in answers(value) {
        match api {
            Api::OpenaiChat => {
                for choice in list(answer, "choices") {
                    for key in ["delta", "message"] {
                        let Some(part) = choice.get_mut(key) else { continue };
                        for (class, key) in [
                            (Class::Reasoning, "reasoning_content"),
                            (Class::Reasoning, "reasoning"),
                            (Class::Content, "content"),
                            (Class::Content, "refusal"),
                        ] {
                            call(part, key, class, with);
                        }
                    }
                }
            }
            Api::OpenaiCompletions => {
                list(answer, "choices").for_each(|choice| call(choice, "text", Class::Content, with));
            }
            Api::OpenaiResponses => match answer.get("type").and_then(Value::as_str).unwrap_or_default() {
                "response.output_text.delta" | "response.refusal.delta" => {
                    call(answer, "delta", Class::Content, with);
                }
                "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                    call(answer, "delta", Class::Reasoning, with);
                }
                _ => {
                    for item in list(answer, "output") {
                        let reasoning = item.get("type").is_some_and(|kind| kind == "reasoning");
                        let class = if reasoning { Class::Reasoning } else { Class::Content };
                        for key in ["summary", "content"] {
                            list(item, key).for_each(|part| call(part, "text", class, with));
                        }
                    }
                }
            },
            Api::AnthropicMessages => {
                if let Some(delta) = answer.get_mut("delta") {
                    call(delta, "thinking", Class::Reasoning, with);
                    call(delta, "text", Class::Content, with);
                }
                for part in list(answer, "content") {
                    call(part, "thinking", Class::Reasoning, with);
                    call(part, "text", Class::Content, with);
                }
            }
            Api::TgiGenerate => match answer.get_mut("token") {
                Some(token) if token.get("special") != Some(&Value::Bool(true)) => {
                    call(token, "text", Class::Content, with);
                }
                Some(_) => {}
                None => call(answer, "generated_text", Class::Content, with),
            },
            Api::TritonGenerate => call(answer, "text_output", Class::Content, with),
            Api::OpenaiEmbeddings | Api::Other => {}
        }
    }
}

fn call(value: &mut Value, key: &str, class: Class, with: &mut dyn FnMut(Class, &mut String)) {
    if let Some(text) = string(value, key) {
        with(class, text);
    }
}

/// Calls `with` for every object that holds a tool call's `name` or arguments. The text tells which call of the answer
/// it belongs to, and is the same for all events of that call.
pub(in super::super) fn each_call(api: Api, value: &mut Value, with: &mut dyn FnMut(&str, &mut Value)) {
    let number = |value: &Value, key: &str, otherwise: usize| {
        value.get(key).and_then(Value::as_u64).unwrap_or(otherwise as u64)
    };
    match api {
        Api::OpenaiChat => {
            for (i, choice) in list(value, "choices").enumerate() {
                let choice_index = number(choice, "index", i);
                for key in ["delta", "message"] {
                    let Some(part) = choice.get_mut(key) else { continue };
                    for (k, tool) in list(part, "tool_calls").enumerate() {
                        let address = format!("{choice_index}/{}", number(tool, "index", k));
                        if let Some(function) = tool.get_mut("function") {
                            with(&address, function);
                        }
                    }
                    if let Some(function) = part.get_mut("function_call").filter(|call| call.is_object()) {
                        with(&choice_index.to_string(), function);
                    }
                }
            }
        }
        Api::OpenaiResponses => {
            let address = number(value, "output_index", 0).to_string();
            if value
                .get("type")
                .and_then(Value::as_str)
                .is_some_and(|kind| kind.contains("function_call_arguments"))
            {
                with(&address, value);
            }
            if let Some(item) = value.get_mut("item").filter(|item| item["type"] == "function_call") {
                with(&address, item);
            }
            let whole = match value.get("response") {
                Some(_) => value.get_mut("response"),
                None => Some(value),
            };
            for (i, item) in whole.into_iter().flat_map(|response| list(response, "output")).enumerate() {
                if item["type"] == "function_call" {
                    with(&i.to_string(), item);
                }
            }
        }
        Api::AnthropicMessages => {
            let address = number(value, "index", 0).to_string();
            if let Some(block) = value.get_mut("content_block").filter(|block| block["type"] == "tool_use") {
                with(&address, block);
            }
            if let Some(delta) = value.get_mut("delta").filter(|delta| delta["partial_json"].is_string()) {
                with(&address, delta);
            }
            for (i, part) in list(value, "content").enumerate() {
                if part["type"] == "tool_use" {
                    with(&i.to_string(), part);
                }
            }
        }
        _ => {}
    }
}

/// Takes the tool calls out of a whole answer; true where there were any.
pub(in super::super) fn drop_calls(api: Api, value: &mut Value) -> bool {
    let mut dropped = false;
    match api {
        Api::OpenaiChat => {
            for message in list(value, "choices").filter_map(|choice| choice.get_mut("message")) {
                let Some(fields) = message.as_object_mut() else { continue };
                for key in ["tool_calls", "function_call"] {
                    dropped |=
                        fields.shift_remove(key).is_some_and(|calls| !calls.is_null() && calls != json!([]));
                }
            }
        }
        Api::OpenaiResponses | Api::AnthropicMessages => {
            let (key, kind) = match api {
                Api::OpenaiResponses => ("output", "function_call"),
                _ => ("content", "tool_use"),
            };
            if let Some(parts) = value.get_mut(key).and_then(Value::as_array_mut) {
                let before = parts.len();
                parts.retain(|part| part["type"] != kind);
                dropped = parts.len() < before;
            }
        }
        _ => {}
    }
    dropped
}

/// Text cut into pieces that stand for tokens where no tokenizer is at hand: a run of characters that are no blanks,
/// together with the blanks before it. Put together again, they are the text.
pub(in super::super) fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut in_word) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c.is_whitespace() && in_word {
            pieces.push(&text[start..at]);
            start = at;
        }
        in_word = !c.is_whitespace();
    }
    if start < text.len() {
        pieces.push(&text[start..]);
    }
    pieces
}

/// The output tokens of a whole answer: by its usage, else the pieces of its text.
pub(in super::super) fn body_tokens(api: Api, body: &mut Value, by_usage: u32) -> u32 {
    if by_usage > 0 || !generates(api) {
        return if generates(api) { by_usage } else { 0 };
    }
    let mut count = 0;
    each_text(api, body, &mut |_, text| count += pieces(text).len());
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Cuts the answer's text to the first `keep` of its `tokens` tokens: of every text, the same share of its pieces,
/// rounded down, so that an answer that had more never keeps all. True where text was cut.
pub(in super::super) fn cut(api: Api, body: &mut Value, keep: u32, tokens: u32) -> bool {
    let mut changed = false;
    each_text(api, body, &mut |_, text| {
        let all = pieces(text);
        let kept = (all.len() as u64 * u64::from(keep) / u64::from(tokens.max(1))) as usize;
        let length = all.iter().take(kept).map(|piece| piece.len()).sum::<usize>();
        changed |= length < text.len();
        text.truncate(length);
    });
    changed
}

#[cfg(test)]
mod tests {
    use super::pieces;

    proptest::proptest! {
        #[test]
        fn pieces_put_together_are_the_text(text in "[ \\na-c\u{e9}\u{3000}]{0,30}") {
            let pieces = pieces(&text);
            proptest::prop_assert_eq!(pieces.concat(), text.clone());
            proptest::prop_assert!(pieces.len() <= text.split_whitespace().count() + 1);
        }
    }
}
