//! `corruptTokens`: the text of tokens is wrong, the events around it stay valid.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The text of tokens is wrong, the events around it stay valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CorruptTokens {
    /// How.
    pub how: Corruption,
    /// The share of tokens, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
}

/// How text is corrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Corruption {
    /// The text is replaced by the text of an earlier token of the same answer.
    #[default]
    Swap,
    /// The text comes twice.
    Repeat,
    /// The text is left out.
    Drop,
    /// Letters are replaced by other letters.
    Garble,
}

impl CorruptTokens {
    pub(super) const ABOUT: About = About {
        kind: "corruptTokens",
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

impl Meaning for CorruptTokens {}
