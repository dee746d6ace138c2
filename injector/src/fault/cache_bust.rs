//! `cacheBust`: each prompt begins with a text of its own, so that the server's prefix cache never hits.

use super::{About, Layer};
use crate::draw::Draw;
use crate::effect::{Before, Meaning};
use crate::facts::Facts;
use crate::wire::Api;
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

/// Puts `prefix` in front of every prompt in a request body: in front of the system prompt where there is one, else of
/// the first message or of the text. Prompts given as token ids get the prefix's bytes as ids, which every vocabulary
/// of at least 256 tokens knows. Nothing where the body holds no prompt of `api`; all else in it stays.
#[must_use]
pub fn prefix_prompt(api: Api, body: &[u8], prefix: &str) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    let fields = value.as_object_mut()?;
    let done = match api {
        Api::OpenaiChat => in_first_message(fields.get_mut("messages")?, prefix),
        Api::OpenaiResponses => {
            fields.get_mut("instructions").is_some_and(|system| in_content(system, prefix))
                || fields.get_mut("input").is_some_and(|input| in_text(input, prefix) || in_first_message(input, prefix))
        }
        Api::AnthropicMessages => {
            fields.get_mut("system").is_some_and(|system| in_content(system, prefix))
                || in_first_message(fields.get_mut("messages")?, prefix)
        }
        Api::OpenaiCompletions => in_prompts(fields.get_mut("prompt")?, prefix),
        Api::OpenaiEmbeddings => in_prompts(fields.get_mut("input")?, prefix),
        Api::TgiGenerate => in_text(fields.get_mut("inputs")?, prefix),
        Api::TritonGenerate => in_prompts(fields.get_mut("text_input")?, prefix),
        Api::Other => false,
    };
    done.then(|| value.to_string().into_bytes())
}

fn in_text(value: &mut Value, prefix: &str) -> bool {
    let Value::String(text) = value else { return false };
    text.insert_str(0, prefix);
    true
}

fn in_first_message(messages: &mut Value, prefix: &str) -> bool {
    let messages = messages.as_array_mut().into_iter().flatten();
    // A message may have no text (a tool call's): the first that has some is where prompts begin to differ.
    messages.filter_map(|message| message.get_mut("content")).any(|content| in_content(content, prefix))
}

/// Content is a text, or a list of parts of which some are texts.
fn in_content(content: &mut Value, prefix: &str) -> bool {
    if in_text(content, prefix) {
        return true;
    }
    let parts = content.as_array_mut().into_iter().flatten();
    parts.filter_map(|part| part.get_mut("text")).any(|text| in_text(text, prefix))
}

/// A text, a list of texts, a list of token ids, or a list of such lists.
fn in_prompts(value: &mut Value, prefix: &str) -> bool {
    if in_text(value, prefix) {
        return true;
    }
    let Value::Array(list) = value else { return false };
    if list.first().is_some_and(Value::is_number) {
        list.splice(0..0, prefix.bytes().map(Value::from));
        return true;
    }
    list.iter_mut().fold(false, |any, prompt| in_prompts(prompt, prefix) | any)
}
