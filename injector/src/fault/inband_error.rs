//! `inbandError`: an error event inside a stream that began with 200.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error event inside a stream that began with 200.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InbandError {
    /// The token in whose place it comes; the first token has number 1.
    pub at_token: u32,
    /// The status that the error speaks of.
    #[serde(default = "InbandError::default_status")]
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
        meaning: "",
        certifies: "",
        does_not_certify: "",
        example: "",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for InbandError {}
