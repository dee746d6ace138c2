//! `stall`: the stream stands still before one token, then goes on.

use super::{About, Layer};
use crate::effect::Meaning;
use crate::units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stream stands still before one token, then goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stall {
    /// The token before which it stands still; the first token has number 1.
    pub at_token: u32,
    /// How long it stands still.
    pub r#for: TimeSpan,
}

impl Stall {
    pub(super) const ABOUT: About = About {
        kind: "stall",
        layer: Layer::InferenceEngine,
        meaning: "",
        certifies: "",
        does_not_certify: "",
        example: "",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for Stall {}
