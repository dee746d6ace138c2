//! `truncate`: the answer ends early and orderly, as far as HTTP can tell.

use super::{About, Acts, Layer, shape};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning, Step, Then};
use crate::facts::Facts;
use crate::wire::{Api, Event};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer ends early and orderly, as far as HTTP can tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Truncate {
    /// Tokens that still get through.
    pub after_tokens: u32,
    /// How the answer says that it ends.
    #[serde(default)]
    pub finish: TruncateFinish,
}

/// How a truncated answer ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TruncateFinish {
    /// Without a finish reason and without the end marker: only the body ends.
    #[default]
    None,
    /// With finish reason `length` and the end marker, as if the token limit had been reached.
    Length,
}

impl Truncate {
    pub(super) const ABOUT: About = About {
        kind: "truncate",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "After afterTokens events that carry generated text the answer ends as an orderly HTTP message. \
                  With finish: none there is no finish reason and no end marker; with finish: length the \
                  provider's own ending for a reached token limit follows. An answer of no more tokens passes \
                  untouched. Of an answer that is not streamed the text is cut to the same share of its words, \
                  and its finish reason is null or the provider's word for length.",
        certifies: "Clients notice a cut answer: they look for the finish reason or the end marker and do not take \
                  half an answer for a whole one.",
        does_not_certify: "The engine is well: it sees its client go away and aborts the request, where a crashed \
                  one would take its other streams and the KV cache along. No usage is reported for an \
                  OpenAI stream that was cut, because its real event never came. An event counts as one \
                  token even where the server puts several into one. Triton has no finish reason in its \
                  streams, so length looks like none there.",
        example: "\
- name: cut-answers
  truncate: {afterTokens: 12, finish: none}
  when: {probability: 0.3}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for Truncate {
    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        let ender = shape::Ender::new(facts.api);
        Some(Box::new(Cut { how: self.clone(), api: facts.api, ender, done: Done::default() }))
    }
}

struct Cut {
    how: Truncate,
    api: Api,
    ender: shape::Ender,
    done: Done,
}

impl Cut {
    fn reason(&self) -> Option<shape::Reason> {
        (self.how.finish == TruncateFinish::Length).then_some(shape::Reason::Length)
    }

    fn note(&mut self) {
        self.done.touched += 1;
        self.done.note = format!("cut after token {}", self.how.after_tokens);
    }
}

impl Effect for Cut {
    fn event(&mut self, event: &Event<'_>) -> Step {
        if !event.class.is_token() || event.token < self.how.after_tokens {
            if self.how.finish == TruncateFinish::Length {
                self.ender.see(event);
            }
            return Step::PASS;
        }
        self.note();
        let ending = match (self.reason(), shape::json(event)) {
            (Some(reason), Some(next)) => self.ender.end(next, reason, self.how.after_tokens),
            _ => Vec::new(),
        };
        Step::replace(ending.into()).then(Then::End)
    }

    fn body(&mut self, body: &[u8], tokens: u32) -> Step {
        let Some(mut value) = shape::object(body) else { return Step::PASS };
        let (keep, tokens) = (self.how.after_tokens, shape::body_tokens(self.api, &mut value, tokens));
        if tokens <= keep {
            return Step::PASS;
        }
        let cut = shape::cut(self.api, &mut value, keep, tokens);
        if !(shape::set_reason(self.api, &mut value, self.reason()) || cut) {
            return Step::PASS;
        }
        shape::set_output_tokens(self.api, &mut value, keep);
        self.note();
        Step::replace(value.to_string().into())
    }

    fn done(&self) -> Done {
        self.done.clone()
    }
}
