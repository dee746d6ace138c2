//! `cacheBust`: each prompt begins with a text of its own, so that the server's prefix cache never hits.

use super::{About, Acts, Layer};
use crate::draw::Draw;
use crate::effect::{Before, Meaning};
use crate::facts::Facts;
use crate::wire::Api;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Each prompt begins with a text of its own, so that the server's prefix cache never hits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CacheBust {
}

impl CacheBust {
    pub(super) const ABOUT: About = About {
        kind: "cacheBust",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "A text that no other request has, about ten tokens long, is put in front of each prompt on its \
                  way to the server: before the system prompt where there is one, else before the first message. \
                  KV blocks are found by the hash of all tokens before them, so no block of any prompt is found \
                  in the prefix cache.",
        certifies: "Capacity without prefix-cache hits: TTFT and throughput after a restart, a cache flush, a \
                  router that forgot its affinity, or a change of the system prompt.",
        does_not_certify: "The answer may change, since the prompt does. Prompts are about ten tokens longer. The cache \
                  is not emptied: blocks of other traffic stay, and the ones made by these requests take room.",
        example: "\
- name: cold-cache
  cacheBust: {}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for CacheBust {
    fn before(&self, _: &Facts<'_>, draw: Draw) -> Before {
        Before::PrefixPrompt(format!("[{:016x}] ", draw.fork("prefix").bits(0)))
    }
}

/// Puts `prefix` in front of every prompt in a request body, and says how many prompts that were: in front of the system
/// prompt where there is one, else of the first message with text, or of each text where there are several. Prompts
/// given as token ids get the prefix's bytes as ids, which every vocabulary of at least 256 tokens knows. Nothing where
/// the body holds no prompt of `api`; all else in it stays.
#[must_use]
pub fn prefix_prompt(api: Api, body: &[u8], prefix: &str) -> Option<(Bytes, usize)> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    let fields = value.as_object_mut()?;
    let mut at = |key: &str, how: fn(&mut Value, &str) -> usize| {
        fields.get_mut(key).map_or(0, |prompts| how(prompts, prefix))
    };
    let prompts = match api {
        Api::OpenaiChat => at("messages", in_first_message),
        Api::OpenaiResponses => match at("instructions", in_content) {
            0 => at("input", |input, prefix| in_text(input, prefix).max(in_first_message(input, prefix))),
            prompts => prompts,
        },
        Api::AnthropicMessages => match at("system", in_content) {
            0 => at("messages", in_first_message),
            prompts => prompts,
        },
        Api::OpenaiCompletions => at("prompt", in_prompts),
        Api::OpenaiEmbeddings => at("input", in_prompts),
        Api::TgiGenerate => at("inputs", in_prompts),
        Api::TritonGenerate => at("text_input", in_prompts),
        Api::Other => 0,
    };
    (prompts > 0).then(|| (value.to_string().into(), prompts))
}

fn in_text(value: &mut Value, prefix: &str) -> usize {
    let Value::String(text) = value else { return 0 };
    text.insert_str(0, prefix);
    1
}

fn in_first_message(messages: &mut Value, prefix: &str) -> usize {
    // A message may have no text (a tool call's): the first that has some is where prompts begin to differ.
    let contents =
        messages.as_array_mut().into_iter().flatten().filter_map(|message| message.get_mut("content"));
    first(contents, |content| in_content(content, prefix))
}

/// Content is a text, or a list of parts of which some are texts.
fn in_content(content: &mut Value, prefix: &str) -> usize {
    match content {
        Value::Array(parts) => {
            let texts = parts.iter_mut().filter_map(|part| part.get_mut("text"));
            first(texts, |text| in_text(text, prefix))
        }
        text => in_text(text, prefix),
    }
}

/// What `how` says of the first value of which it says something.
fn first<'v>(mut values: impl Iterator<Item = &'v mut Value>, how: impl Fn(&mut Value) -> usize) -> usize {
    values.find_map(|value| Some(how(value)).filter(|prompts| *prompts > 0)).unwrap_or(0)
}

/// A text, a list of texts, a list of token ids, or a list of such lists.
fn in_prompts(value: &mut Value, prefix: &str) -> usize {
    match value {
        Value::Array(list) if list.first().is_some_and(Value::is_number) => {
            list.splice(0..0, prefix.bytes().map(Value::from));
            1
        }
        Value::Array(list) => list.iter_mut().map(|prompt| in_prompts(prompt, prefix)).sum(),
        text => in_text(text, prefix),
    }
}
