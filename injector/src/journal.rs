//! What happened, line by line: the journal is the proof that a fault was real and that it ended.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A time as lines of a journal have it: in seconds, to the microsecond. Finer is noise of the clock and of `f64`.
///
/// ```
/// use brownout_injector::journal::seconds;
/// use std::time::Duration;
///
/// assert_eq!(seconds(Duration::from_nanos(1_234_567_890)).to_string(), "1.234568");
/// ```
#[must_use]
pub fn seconds(span: Duration) -> f64 {
    // A division of whole numbers gives the one `f64` that prints as this decimal.
    micros(span) / 1e6
}

/// As [`seconds`], in milliseconds.
#[must_use]
pub fn millis(span: Duration) -> f64 {
    micros(span) / 1e3
}

fn micros(span: Duration) -> f64 {
    ((span.as_nanos() + 500) / 1000) as f64
}

/// One line of `journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Seconds since the journal began, on a monotonic clock, to the microsecond.
    pub at: f64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// The journal begins.
    Begin {
        /// The scenario's name.
        scenario: String,
        /// The seed of every decision.
        seed: u64,
        /// Wall-clock time in RFC 3339, for people to line up with other logs.
        time: String,
    },
    /// A phase of the run begins.
    Phase {
        /// `warmup`, `baseline`, `fault`, `recovery`.
        name: String,
    },
    /// A fault may fire from now on.
    Armed {
        /// The fault's name.
        fault: String,
        /// Its kind.
        kind: String,
        /// Seconds until it ends by itself, whatever happens to whoever armed it.
        ends_in: f64,
    },
    /// A fault did something to a request, or to a call in a process.
    Fired(Fired),
    /// No fault fires any more.
    Healed {
        /// Why: `ended`, `asked`, `lease lost`, `replaced`, `shutdown`.
        reason: String,
    },
}

/// A fault did something to one request, or to one call in a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fired {
    /// The fault's name.
    pub fault: String,
    /// Its kind.
    pub kind: String,
    /// The number of the decision: what the fault, the seed and this number say is always the same.
    pub n: u64,
    /// The request's own number, where the client gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// The process, where the fault acted in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// The request's path; in a process that of the file.
    pub path: String,
    /// Events, tokens or bodies that were touched; in a process bytes of the file, or calls where none of them changed.
    pub touched: u64,
    /// Milliseconds of waiting that the fault asked for.
    pub asked_ms: f64,
    /// Milliseconds of waiting that it got.
    pub given_ms: f64,
    /// In words.
    pub note: String,
}

/// The process that a fault acted in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its rank, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The name of its executable.
    pub exe: String,
}
