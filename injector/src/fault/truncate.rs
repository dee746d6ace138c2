//! `truncate`: the answer ends early and orderly, as far as HTTP can tell.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer ends early and orderly, as far as HTTP can tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Truncate {
    /// Tokens that still get through.
    pub after_tokens: u32,
    /// How the answer says that it ends.
    #[serde(default)]
    pub finish: TruncateFinish,
}

/// How a truncated answer ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TruncateFinish {
    /// Without a finish reason and without the end marker: only the body ends.
    #[default]
    None,
    /// With finish reason `length` and the end marker, as if the token limit had been reached.
    Length,
}

impl Truncate {
    pub(super) const ABOUT: About = About {
        kind: "truncate",
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

impl Meaning for Truncate {}
