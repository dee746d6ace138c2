//! `queue`: only so many requests are in flight at a time; the others wait or get 503.

use super::{About, Layer};
use crate::effect::Meaning;
use crate::units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Only so many requests are in flight at a time; the others wait or get 503.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Queue {
    /// Requests in flight.
    #[schemars(range(min = 1))]
    pub max_in_flight: u32,
    /// Requests that may wait; any number where left out, none with 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u32>,
    /// The longest wait, then 503; for ever where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
}

impl Queue {
    pub(super) const ABOUT: About = About {
        kind: "queue",
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

impl Meaning for Queue {}
