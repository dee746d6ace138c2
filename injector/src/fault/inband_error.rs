//! `inbandError`: an error event inside a stream that began with 200.

use super::{About, Acts, Layer, check, http_error::usual_message, shape};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning, Step, Then};
use crate::facts::Facts;
use crate::wire::{Api, Event, ProviderError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error event inside a stream that began with 200.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InbandError {
    /// The token in whose place it comes; the first token has number 1.
    #[schemars(range(min = 1))]
    pub at_token: u32,
    /// The status that the error speaks of, from 400 to 599.
    #[serde(default = "InbandError::default_status")]
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the end marker still follows.
    #[serde(default)]
    pub then_done: bool,
}

impl InbandError {
    const fn default_status() -> u16 {
        500
    }
}

impl InbandError {
    pub(super) const ABOUT: About = About {
        kind: "inbandError",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "In the place of one event that carries generated text, an error event in the provider's own \
                  shape ends a stream that began with 200; with thenDone the end marker follows. An answer that \
                  is not streamed and has that token is replaced by the provider's error object, still with \
                  status 200, as gateways that commit to the status too early send it.",
        certifies: "Clients look for errors inside a stream and do not count the request as a success because its \
                  status was 200.",
        does_not_certify: "The engine is well: it sees its client go away and aborts the request. The cause of a \
                  real one (out of memory, a worker that died) hits many requests at once; use when to \
                  imitate that.",
        example: "\
- name: error-in-stream
  inbandError: {atToken: 8, status: 500, thenDone: true}
  when: {probability: 0.2}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = check::token_number("atToken", self.at_token);
        problems.extend(check::error_status("status", self.status));
        problems
    }
}

impl Meaning for InbandError {
    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        Some(Box::new(Fail { how: self.clone(), api: facts.api, done: Done::default() }))
    }
}

struct Fail {
    how: InbandError,
    api: Api,
    done: Done,
}

impl Fail {
    fn error(&mut self) -> ProviderError {
        self.done.touched += 1;
        self.done.note = format!("error in the place of token {}", self.how.at_token);
        let status = self.how.status;
        let message = self.how.message.clone();
        let message = message.unwrap_or_else(|| usual_message(self.api, status).to_owned());
        ProviderError { status, code: String::new(), message }
    }
}

impl Effect for Fail {
    fn event(&mut self, event: &Event<'_>) -> Step {
        if !event.class.is_token() || u64::from(event.token) + 1 < u64::from(self.how.at_token) {
            return Step::PASS;
        }
        let next = shape::json(event).unwrap_or_default();
        let mut out = shape::error_event(self.api, &self.error(), &next);
        if self.how.then_done {
            shape::end_marker(self.api, &mut out);
        }
        Step::replace(out.into()).then(Then::End)
    }

    fn body(&mut self, body: &[u8], tokens: u32) -> Step {
        let tokens = shape::object(body).map_or(0, |mut body| shape::body_tokens(self.api, &mut body, tokens));
        if tokens == 0 || tokens < self.how.at_token {
            return Step::PASS;
        }
        Step::replace(self.error().body(self.api).into())
    }

    fn done(&self) -> Done {
        self.done.clone()
    }
}
