//! `contextOverflow`: the prompt is said to be longer than the context window.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The prompt is said to be longer than the context window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextOverflow {
    /// Prompts of more tokens than this are refused; all where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl ContextOverflow {
    pub(super) const ABOUT: About = About {
        kind: "contextOverflow",
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

impl Meaning for ContextOverflow {}
