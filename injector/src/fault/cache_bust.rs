//! `cacheBust`: each prompt begins with a text of its own, so that the server's prefix cache never hits.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Each prompt begins with a text of its own, so that the server's prefix cache never hits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CacheBust {
}

impl CacheBust {
    pub(super) const ABOUT: About = About {
        kind: "cacheBust",
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

impl Meaning for CacheBust {}
