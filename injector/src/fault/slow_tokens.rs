//! `slowTokens`: every token is held: `delay` is added to each, or tokens are paced to `tokensPerSecond`. Give one of the two.

use super::{About, Layer};
use crate::effect::Meaning;
use crate::units::DelayDist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every token is held: `delay` is added to each, or tokens are paced to `tokensPerSecond`. Give one of the two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowTokens {
    /// Added to each token, drawn for each anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayDist>,
    /// Tokens leave at most this fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
}

impl SlowTokens {
    pub(super) const ABOUT: About = About {
        kind: "slowTokens",
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

impl Meaning for SlowTokens {}
