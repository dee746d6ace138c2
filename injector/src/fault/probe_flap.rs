//! `probeFlap`: the named health checks fail, and no other request does.

use super::{About, Acts, Layer, check};
use crate::draw::Draw;
use crate::effect::{Answer, AnswerBody, Before, Meaning};
use crate::facts::Facts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The named health checks fail, and no other request does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProbeFlap {
    /// Paths of the probes; `*` stands for any characters.
    #[schemars(length(min = 1))]
    pub paths: Vec<String>,
    /// The status they answer, from 400 to 599.
    #[serde(default = "ProbeFlap::default_status")]
    #[schemars(range(min = 400, max = 599))]
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
        acts: Acts::OnTheWire,
        meaning: "Requests to the named paths are answered with an error status and no body, and no other \
                  request is touched. To make a probe flap rather than fail for good, give when a probability, \
                  every, or a repeat.",
        certifies: "Failure thresholds of liveness and readiness probes are what you think they are: a few failed \
                  checks do not restart a healthy engine or empty a load balancer, and many do.",
        does_not_certify: "The server is healthy all along and never sees these checks. Only checks that come through the \
                  proxy are touched: exec probes and checks on other ports are not.",
        example: "\
- name: flaky-probes
  probeFlap: {paths: [/health], status: 503}
  when: {every: 2}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = check::error_status("status", self.status);
        if self.paths.is_empty() {
            problems.push(("paths", "at least one path, such as /health".to_owned()));
        }
        if self.paths.iter().any(|path| !path.starts_with(['/', '*'])) {
            problems.push(("paths", "paths that begin with / (or with *)".to_owned()));
        }
        problems
    }
}

impl Meaning for ProbeFlap {
    fn before(&self, _: &Facts<'_>, _: Draw) -> Before {
        Before::Answer(Answer { status: self.status, headers: Vec::new(), body: AnswerBody::Empty })
    }
}
