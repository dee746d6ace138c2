//! `checkpointCorrupt`: model files read as damaged, while on the disk they are whole.

use super::check::Problems;
use super::{About, Acts, Layer};
use crate::effect::Meaning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Model files read as damaged, while on the disk they are whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointCorrupt {
    /// What the damage is.
    pub how: FileDamage,
    /// How many bits are flipped (64 where left out), or how many pages are zeroed (1 where left out); with `bitFlip` and
    /// `zeroPage` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub count: Option<u32>,
    /// The share of the file that is left, to a thousandth, from 0 to less than 1 (0.5 where left out); with `truncate`
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub keep: Option<f64>,
}

/// The most places in one file that are damaged.
const MAX_COUNT: u32 = 1_000_000;

/// How a model file is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileDamage {
    /// `count` bits are flipped, of safetensors and GGUF files in the tensors' data: it loads in silence.
    BitFlip,
    /// `count` pages of 4 KiB read as zeros, as a block that was never written; of safetensors and GGUF files in the
    /// tensors' data: it loads in silence.
    ZeroPage,
    /// The first bytes are wrong: loaders refuse the file (safetensors: the length of its header, "header too large";
    /// GGUF: its magic number; any other: a bit of its first byte).
    Header,
    /// The file ends after the share `keep` of its bytes: loaders refuse it (safetensors: "file not fully covered").
    Truncate,
    /// The header gives one tensor another data type of the same size, as I32 for F32: it loads in silence. Only
    /// safetensors and GGUF files have such a header; others stay whole.
    Dtype,
    /// The header gives one tensor another shape: loaders refuse it (safetensors: "invalid shape, data type, or offset").
    /// Only safetensors and GGUF files have such a header; others stay whole.
    Shape,
}

impl CheckpointCorrupt {
    pub(super) const ABOUT: About = About {
        kind: "checkpointCorrupt",
        layer: Layer::Artifact,
        acts: Acts::InTheProcess,
        meaning: "The model files that when.file names read as damaged: flipped bits, zeroed pages, a broken header, \
                  a missing end, a tensor of another data type or shape (these two only in safetensors and GGUF \
                  files). Where the damage lies is chosen by the seed and the file's path, so that every process, \
                  rank and run sees the same. Readers by read, pread, readv, fread and mmap see it alike; the file \
                  on disk never changes, and maps read as the file is again when the fault ends. bitFlip, zeroPage \
                  and dtype load without a word in most loaders, since formats of weights have no checksums; \
                  header, truncate and shape are refused by loaders that check. probability, every, maxHits and afterCalls count files that \
                  are opened or mapped.",
        certifies: "A checkpoint that is not what was published is noticed before users do: by the loader, by a \
                  checksum at load, by an evaluation before traffic, or by answers that drift. A load that is \
                  refused ends in another try, another replica or an alarm, never in a server that says it is ready.",
        does_not_certify: "The disk's contents and the page cache are whole: a checksum made by a process without the \
                  shim finds nothing. Readers by direct I/O, io_uring and cuFile are not covered yet, nor are \
                  programs that are statically linked or setuid: they read the true bytes. What a loader has copied \
                  by the time the fault ends (to the GPU, say) stays wrong until the process ends.",
        example: "\
- name: bad-shard
  checkpointCorrupt: {how: bitFlip, count: 64}
  when: {file: \"*.safetensors\"}
",
    };

    /// How many bits or pages are damaged; 0 where that is no number.
    #[must_use]
    pub fn places(&self) -> u32 {
        match self.how {
            FileDamage::BitFlip => self.count.unwrap_or(64),
            FileDamage::ZeroPage => self.count.unwrap_or(1),
            FileDamage::Header | FileDamage::Truncate | FileDamage::Dtype | FileDamage::Shape => 0,
        }
    }

    /// The share of the file that is left.
    #[must_use]
    pub fn kept(&self) -> f64 {
        match self.how {
            FileDamage::Truncate => self.keep.unwrap_or(0.5),
            _ => 1.0,
        }
    }

    pub(super) fn problems(&self) -> Problems {
        let counts = matches!(self.how, FileDamage::BitFlip | FileDamage::ZeroPage);
        let mut problems = Vec::new();
        match self.count {
            Some(_) if !counts => {
                problems.push(("count", "only with `how: bitFlip` or `how: zeroPage`: remove it".to_owned()));
            }
            Some(count) if !(1..=MAX_COUNT).contains(&count) => {
                problems.push(("count", format!("from 1 to {MAX_COUNT}")));
            }
            _ => {}
        }
        match self.keep {
            Some(_) if self.how != FileDamage::Truncate => {
                problems.push(("keep", "only with `how: truncate`: remove it".to_owned()));
            }
            Some(keep) if !(0.0..1.0).contains(&keep) => {
                problems.push(("keep", "a share from 0 to less than 1".to_owned()));
            }
            _ => {}
        }
        problems
    }
}

/// It acts in processes: requests pass.
impl Meaning for CheckpointCorrupt {}
