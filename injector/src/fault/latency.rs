//! `latency`: the request is held before it goes upstream, so that headers come late.

use super::{About, Acts, Layer, check};
use crate::draw::Draw;
use crate::effect::{Before, Meaning};
use crate::facts::Facts;
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
        acts: Acts::OnTheWire,
        meaning: "Each request is held for a drawn delay before it goes upstream, so that status and headers \
                  come late by that much. Several of them add up.",
        certifies: "Clients and gateways bear a slow network or a slow gateway: their connect and response \
                  timeouts are long enough, and TTFT objectives hold with the delay added.",
        does_not_certify: "Nothing about the engine: it sees fewer requests at once, not slower ones. Packet loss, \
                  reordering and a delay of each packet (TCP slow start, handshakes) are not imitated; the delay \
                  is paid once a request.",
        example: "\
- name: slow-gateway
  latency: {delay: {lognormal: {median: 80ms, p99: 600ms}}}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        check::delay("delay", &self.delay)
    }
}

impl Meaning for Latency {
    fn before(&self, _: &Facts<'_>, draw: Draw) -> Before {
        Before::Wait(self.delay.sample(draw.fork("latency"), 0))
    }
}
