//! `checkpointError`: model files cannot be opened or read.

use super::check::Problems;
use super::{About, Acts, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Model files cannot be opened or read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointError {
    /// What the reader is told.
    pub error: FileError,
}

/// What a reader is told of a file that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileError {
    /// A dying disk: reads fail with `EIO`, and touching a map raises `SIGBUS`.
    Eio,
    /// A file that is gone: opening it fails with `ENOENT`.
    Enoent,
    /// A share that lost the file: opening and reading it fail with `ESTALE`, and touching a map raises `SIGBUS`.
    Estale,
    /// Only touching a map fails, with `SIGBUS`, as where a file was cut short under it or its disk went away.
    Sigbus,
}

impl CheckpointError {
    pub(super) const ABOUT: About = About {
        kind: "checkpointError",
        layer: Layer::Artifact,
        acts: Acts::InTheProcess,
        meaning: "The model files that when.file names cannot be read, as on a dying disk (eio: reads fail), on a \
                  share that lost them (estale: opens and reads fail), after somebody removed them (enoent: opens \
                  fail) or when a mapped file loses its disk (sigbus). A map has no other way to tell of an error \
                  than SIGBUS where it is touched, which ends a process that does not handle it: so it is with \
                  eio and estale too. Each call that fires fails; the calls after it go on, so with a probability \
                  a reader that tries again gets through. Maps read as the file is when the fault ends.",
        certifies: "A load that fails is told as one: the server names the file, ends or tries again elsewhere, is \
                  restarted with back-off, and never says that it is ready. Other replicas bear the traffic \
                  meanwhile.",
        does_not_certify: "A real disk mostly fails after seconds of tries by the kernel: add checkpointSlow for those. \
                  Listings of folders still show the files, and what the page cache holds is refused as well. \
                  Readers by direct I/O, io_uring and cuFile are not covered yet, nor are programs that are \
                  statically linked or setuid: they read the file.",
        example: "\
- name: dying-disk
  checkpointError: {error: eio}
  when: {file: \"*.safetensors\", probability: 0.01}
",
    };

    pub(super) fn problems(&self) -> Problems {
        Vec::new()
    }
}

/// It acts in processes: requests pass.
impl Meaning for CheckpointError {}
