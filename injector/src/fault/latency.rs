//! `latency`: the request is held before it goes upstream, so that headers come late.

use super::{About, Layer};
use crate::effect::Meaning;
use crate::units::DelayDist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The request is held before it goes upstream, so that headers come late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Latency {
    /// How long.
    pub delay: DelayDist,
}

impl Latency {
    pub(super) const ABOUT: About = About {
        kind: "latency",
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

impl Meaning for Latency {}
