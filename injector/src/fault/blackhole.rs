//! `blackhole`: the request is taken and never answered.

use super::{About, Acts, Layer};
use crate::draw::Draw;
use crate::effect::{Before, Meaning};
use crate::facts::Facts;
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
        acts: Acts::OnTheWire,
        meaning: "The request is taken in full and nothing ever comes back: no header, no byte, no close, until \
                  the fault ends or the client gives up. When the fault ends the connection is closed.",
        certifies: "Clients have a response timeout at all, and their pools are not eaten up by requests that \
                  hang.",
        does_not_certify: "The TCP connection is accepted and acknowledged; a host that is gone (no SYN-ACK, no ACK) \
                  shows in connect timeouts and retransmissions instead. The server never sees the request.",
        example: "\
- name: silent-upstream
  blackhole: {}
  when: {probability: 0.05}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for Blackhole {
    fn before(&self, _: &Facts<'_>, _: Draw) -> Before {
        Before::Blackhole
    }
}
