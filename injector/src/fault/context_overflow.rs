//! `contextOverflow`: the prompt is said to be longer than the context window.

use super::{About, Acts, Layer};
use crate::draw::Draw;
use crate::effect::{Answer, AnswerBody, Before, Meaning};
use crate::facts::Facts;
use crate::wire::{Api, ProviderError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The prompt is said to be longer than the context window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextOverflow {
    /// Prompts of more tokens than this are refused; all where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
}

impl ContextOverflow {
    pub(super) const ABOUT: About = About {
        kind: "contextOverflow",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "Prompts of more than limit tokens (all, where limit is left out) are refused in the provider's \
                  own words and with its own status and code: OpenAI and vLLM 400 context_length_exceeded, \
                  Anthropic 400, TGI 422, Triton 400. Prompt tokens are a quarter of the prompt's characters. \
                  The server never sees the request.",
        certifies: "Clients tell a prompt that is too long from other errors: they shorten it, or tell the user, \
                  and do not retry it as it is.",
        does_not_certify: "No tokenizer is at hand, so a prompt near the limit may fall on the other side of it than at \
                  the server. Where limit is left out, the maximum that the message names is made up: the \
                  largest power of two below the prompt's length.",
        example: "\
- name: prompts-too-long
  contextOverflow: {limit: 1024}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        if self.limit == Some(0) {
            return vec![("limit", "at least 1 token, or nothing to refuse all prompts".to_owned())];
        }
        Vec::new()
    }
}

impl Meaning for ContextOverflow {
    fn before(&self, facts: &Facts<'_>, _: Draw) -> Before {
        let asked = u64::from(facts.prompt_tokens);
        let limit = match self.limit {
            Some(limit) if asked <= u64::from(limit) => return Before::Forward,
            Some(limit) => u64::from(limit),
            None => asked.max(2).next_power_of_two() / 2,
        };
        let error = refusal(facts, asked.max(2), limit);
        Before::Answer(Answer { status: error.status, headers: Vec::new(), body: AnswerBody::Error(error) })
    }
}

/// What the provider says. Its words as seen in public reports of vLLM (its chat, completions and embeddings servers),
/// Anthropic, TGI and TensorRT-LLM.
fn refusal(facts: &Facts<'_>, asked: u64, limit: u64) -> ProviderError {
    let output = u64::from(facts.max_tokens.unwrap_or(0));
    let openai = |rest: String| {
        let message = format!("This model's maximum context length is {limit} tokens. However, {rest}");
        ProviderError { status: 400, code: "context_length_exceeded".to_owned(), message }
    };
    let other = |status: u16, message: String| ProviderError { status, code: String::new(), message };
    match facts.api {
        Api::AnthropicMessages => other(400, format!("prompt is too long: {asked} tokens > {limit} maximum")),
        Api::TgiGenerate => other(
            422,
            format!(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {limit}. Given: {asked} \
                 `inputs` tokens and {output} `max_new_tokens`"
            ),
        ),
        Api::TritonGenerate => {
            other(400, format!("Prompt length ({asked}) exceeds maximum input length ({limit})"))
        }
        Api::OpenaiEmbeddings => openai(format!(
            "you requested {asked} tokens in the input for embedding generation. Please reduce the length of the \
             input."
        )),
        Api::OpenaiCompletions => openai(format!(
            "you requested {} tokens ({asked} in the prompt, {output} in the completion). Please reduce the length \
             of the prompt or completion.",
            asked + output
        )),
        _ => openai(format!(
            "you requested {} tokens ({asked} in the messages, {output} in the completion). Please reduce the length \
             of the messages or completion.",
            asked + output
        )),
    }
}
