//! `blackhole`: the request is taken and never answered.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The request is taken and never answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blackhole {
}

impl Blackhole {
    pub(super) const ABOUT: About = About {
        kind: "blackhole",
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

impl Meaning for Blackhole {}
