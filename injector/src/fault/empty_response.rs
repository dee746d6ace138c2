//! `emptyResponse`: a successful answer with nothing in it.

use super::{About, Layer};
use crate::effect::Meaning;
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
        meaning: "",
        certifies: "",
        does_not_certify: "",
        example: "",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for EmptyResponse {}
