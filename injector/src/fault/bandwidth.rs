//! `bandwidth`: the answer comes no faster than so many bytes a second.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer comes no faster than so many bytes a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bandwidth {
    /// Bytes a second, at least 1.
    #[schemars(range(min = 1))]
    pub bytes_per_second: u64,
}

impl Bandwidth {
    pub(super) const ABOUT: About = About {
        kind: "bandwidth",
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

impl Meaning for Bandwidth {}
