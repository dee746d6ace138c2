//! `toolCallFault`: tool calls in the answer are broken.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tool calls in the answer are broken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCallFault {
    /// How.
    #[serde(default)]
    pub how: ToolCallBreak,
}

/// How tool calls are broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolCallBreak {
    /// The arguments are no JSON.
    #[default]
    BadArguments,
    /// The tool called is none that was offered.
    UnknownTool,
}

impl ToolCallFault {
    pub(super) const ABOUT: About = About {
        kind: "toolCallFault",
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

impl Meaning for ToolCallFault {}
