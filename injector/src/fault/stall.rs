//! `stall`: the stream stands still before one token, then goes on.

use super::{About, Acts, Layer, HeldOnce, check};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning};
use crate::facts::Facts;
use crate::units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stream stands still before one token, then goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stall {
    /// The token before which it stands still; the first token has number 1.
    #[schemars(range(min = 1))]
    pub at_token: u32,
    /// How long it stands still.
    pub r#for: TimeSpan,
}

impl Stall {
    pub(super) const ABOUT: About = About {
        kind: "stall",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "The stream stands still before one token for a fixed time and then goes on; the connection \
                  stays open and no byte comes, not even a comment. An answer that is not streamed and has that \
                  token is held as a whole.",
        certifies: "Clients have a timeout between tokens, not only one for the whole request, and give up or \
                  hedge when a stream falls silent.",
        does_not_certify: "Does not occupy the engine: it goes on generating, so the tokens after the stall come in a \
                  burst and the slot is freed on time. A stall by preemption or by a hung collective holds the \
                  slot and slows its neighbours too.",
        example: "\
- name: silent-in-the-middle
  stall: {atToken: 20, for: 5s}
  when: {probability: 0.3}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = check::token_number("atToken", self.at_token);
        if self.r#for.0.is_zero() {
            problems.push(("for", "a time of more than 0s".to_owned()));
        }
        problems
    }
}

impl Meaning for Stall {
    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        let at = self.at_token.saturating_sub(1);
        Some(Box::new(HeldOnce { at, wait: self.r#for.0, api: facts.api, done: Done::default() }))
    }
}
