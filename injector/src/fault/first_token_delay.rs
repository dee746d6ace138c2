//! `firstTokenDelay`: headers come in time, the first token does not.

use super::{About, Layer};
use crate::effect::Meaning;
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
        meaning: "",
        certifies: "",
        does_not_certify: "",
        example: "",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for FirstTokenDelay {}
