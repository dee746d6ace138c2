//! `firstTokenDelay`: headers come in time, the first token does not.

use super::{About, Acts, Layer, HeldOnce, check};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning};
use crate::facts::Facts;
use crate::units::DelayDist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Headers come in time, the first token does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FirstTokenDelay {
    /// How long the first token is held.
    pub delay: DelayDist,
}

impl FirstTokenDelay {
    pub(super) const ABOUT: About = About {
        kind: "firstTokenDelay",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "Headers come in time; the first event that carries generated text (answer, reasoning or tool \
                  call) is held for a drawn delay, and what follows queues up behind it. An answer that is not \
                  streamed is held as a whole.",
        certifies: "Clients bear a long prefill: they wait on an open stream that says nothing yet, and their \
                  first-token timeout is what you think it is.",
        does_not_certify: "Does not occupy the engine: it has computed the token long ago, and its batch slot and KV \
                  cache are freed at its own pace. Tokens that pile up behind the delay come in a burst, which a \
                  real slow prefill does not cause.",
        example: "\
- name: long-prefill
  firstTokenDelay: {delay: {uniform: {min: 1s, max: 3s}}}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        check::delay("delay", &self.delay)
    }
}

impl Meaning for FirstTokenDelay {
    fn on_answer(&self, facts: &Facts<'_>, draw: Draw) -> Option<Box<dyn Effect>> {
        let wait = self.delay.sample(draw.fork("first token"), 0);
        Some(Box::new(HeldOnce { at: 0, wait, api: facts.api, done: Done::default() }))
    }
}
