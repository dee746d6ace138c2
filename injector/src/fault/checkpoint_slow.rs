//! `checkpointSlow`: model files are slow to read.

use super::check::{self, Problems};
use super::{About, Acts, Layer};
use crate::effect::Meaning;
use crate::units::DelayDist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Model files are slow to read: each read waits `delay`, or takes as long as its bytes do at `bytesPerSecond`, or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointSlow {
    /// How late each read is, and each map when it is made; drawn for each anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayDist>,
    /// Bytes a second, at least 1: a read is late by as long as its bytes take, and a map by as long as all of it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes_per_second: Option<u64>,
}

impl CheckpointSlow {
    pub(super) const ABOUT: About = About {
        kind: "checkpointSlow",
        layer: Layer::Artifact,
        acts: Acts::InTheProcess,
        meaning: "Each read of the model files that when.file names is late: by a drawn delay, by the time that its \
                  bytes take at bytesPerSecond, or by the sum of both. A map is late as a whole, when it is made: \
                  by a delay, and by the time that its length takes at bytesPerSecond. A loader that reads 4 KiB at \
                  a time pays the delay for each. At the fault's end every wait is over.",
        certifies: "Start-up bears slow storage: probes and their time-outs let a load that takes long come to its \
                  end, a rollout waits for it, ranks wait for the slowest of them, and autoscaling does not start \
                  ever more pods that load as slowly.",
        does_not_certify: "The rate holds for each call alone, not for a link that threads, ranks or pods share. Nothing \
                  is colder than it was: pages come from wherever they lie, and touching a map costs nothing more. \
                  Readers by direct I/O, io_uring and cuFile are not covered yet, nor are programs that are \
                  statically linked or setuid: they read at full speed.",
        example: "\
- name: slow-share
  checkpointSlow: {delay: {lognormal: {median: 2ms, p99: 80ms}}, bytesPerSecond: 50000000}
  when: {file: \"*.safetensors\"}
",
    };

    pub(super) fn problems(&self) -> Problems {
        let mut problems = Vec::new();
        if let Some(delay) = &self.delay {
            problems.extend(check::delay("delay", delay));
        }
        match (self.bytes_per_second, &self.delay) {
            (Some(0), _) => problems.push(("bytesPerSecond", "at least 1 byte a second".to_owned())),
            (None, None) => {
                problems.push(("delay", "`delay`, `bytesPerSecond` or both: neither is given".to_owned()));
            }
            _ => {}
        }
        problems
    }
}

/// It acts in processes: requests pass.
impl Meaning for CheckpointSlow {}
