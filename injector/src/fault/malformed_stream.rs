//! `malformedStream`: the stream breaks its own format at one token.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stream breaks its own format at one token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MalformedStream {
    /// How.
    pub how: Malformation,
    /// The token at which it breaks; the first token has number 1.
    pub at_token: u32,
    /// Size of an oversized event in bytes; 1 MiB where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
}

/// How a stream breaks its format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Malformation {
    /// JSON that ends in the middle.
    #[default]
    BadJson,
    /// Bytes that are no UTF-8.
    BadUtf8,
    /// Two events with no blank line between them.
    MissingBlankLine,
    /// One very large event.
    OversizedEvent,
}

impl MalformedStream {
    pub(super) const ABOUT: About = About {
        kind: "malformedStream",
        layer: Layer::Router,
        meaning: "",
        certifies: "",
        does_not_certify: "",
        example: "",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for MalformedStream {}
