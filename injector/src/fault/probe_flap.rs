//! `probeFlap`: the named health checks fail, and no other request does.

use super::{About, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The named health checks fail, and no other request does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProbeFlap {
    /// Paths of the probes; `*` stands for any characters.
    #[schemars(length(min = 1))]
    pub paths: Vec<String>,
    /// The status they answer.
    #[serde(default = "ProbeFlap::default_status")]
    pub status: u16,
}

impl ProbeFlap {
    const fn default_status() -> u16 {
        503
    }
}

impl ProbeFlap {
    pub(super) const ABOUT: About = About {
        kind: "probeFlap",
        layer: Layer::Orchestration,
        meaning: "",
        certifies: "",
        does_not_certify: "",
        example: "",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for ProbeFlap {}
