//! `disconnect`: the connection is cut, before any header or after some tokens.

use super::{About, Layer};
use crate::effect::Meaning;
use crate::effect::Close;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The connection is cut, before any header or after some tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Disconnect {
    /// Tokens that still get through; before any header where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_tokens: Option<u32>,
    /// How it is cut.
    #[serde(default)]
    pub close: Close,
}

impl Disconnect {
    pub(super) const ABOUT: About = About {
        kind: "disconnect",
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

impl Meaning for Disconnect {}
