//! `emptyResponse`: a successful answer with nothing in it.

use super::{About, Acts, Layer, shape};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning, Step, Then};
use crate::facts::Facts;
use crate::wire::{Api, Class, Event};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A successful answer with nothing in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmptyResponse {
    /// What is empty.
    #[serde(default)]
    pub how: Emptiness,
}

/// What is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Emptiness {
    /// The text: the answer is well-formed, finishes with `stop`, and says nothing.
    #[default]
    Content,
    /// The whole body.
    Body,
}

impl EmptyResponse {
    pub(super) const ABOUT: About = About {
        kind: "emptyResponse",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "A successful answer with nothing in it. With how: content it is well-formed, says no text, \
                  calls no tool and finishes as a model does that had nothing to say; with how: body the status \
                  is 200 and not one byte follows.",
        certifies: "Clients do not take an empty success for an answer: they check, retry or tell the user.",
        does_not_certify: "The engine did generate an answer, up to where it sees its client go away. Usage of an \
                  answer that is not streamed says 0 output tokens; of a stream there is no usage event.",
        example: "\
- name: nothing-to-say
  emptyResponse: {how: content}
  when: {probability: 0.2}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for EmptyResponse {
    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        let ender = shape::Ender::new(facts.api);
        Some(Box::new(Hollow { how: self.how, api: facts.api, ender, done: Done::default() }))
    }
}

struct Hollow {
    how: Emptiness,
    api: Api,
    ender: shape::Ender,
    done: Done,
}

impl Hollow {
    fn note(&mut self) {
        self.done.touched += 1;
        self.done.note = match self.how {
            Emptiness::Content => "no text",
            Emptiness::Body => "no body",
        }
        .to_owned();
    }
}

impl Effect for Hollow {
    fn event(&mut self, event: &Event<'_>) -> Step {
        match self.how {
            Emptiness::Body => {
                self.note();
                Step::swallow().then(Then::End)
            }
            Emptiness::Content if event.class.is_token() => {
                self.note();
                let next = shape::json(event).unwrap_or_default();
                // Triton has no ending: its one event says nothing.
                let ending = if self.api == Api::TritonGenerate {
                    let mut hollow = next;
                    shape::each_text(self.api, &mut hollow, &mut |_, text| text.clear());
                    shape::with_json(event.raw, &hollow)
                } else {
                    self.ender.end(next, shape::Reason::Stop, 0).into()
                };
                Step::replace(ending).then(Then::End)
            }
            Emptiness::Content => {
                if event.class != Class::Raw {
                    self.ender.see(event);
                }
                Step::PASS
            }
        }
    }

    fn body(&mut self, body: &[u8], _: u32) -> Step {
        if self.how == Emptiness::Body {
            self.note();
            return Step::replace(Bytes::new());
        }
        let Some(mut value) = shape::object(body) else { return Step::PASS };
        let mut changed = false;
        shape::each_text(self.api, &mut value, &mut |_, text| {
            changed |= !text.is_empty();
            text.clear();
        });
        changed |= shape::drop_calls(self.api, &mut value);
        if !changed {
            return Step::PASS;
        }
        shape::set_reason(self.api, &mut value, Some(shape::Reason::Stop));
        shape::set_output_tokens(self.api, &mut value, 0);
        self.note();
        Step::replace(value.to_string().into())
    }

    fn done(&self) -> Done {
        self.done.clone()
    }
}
