//! The server's own record of each request, to hold clients' measurements against.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::answer::Finish;

/// What happened to one request, by the engine's clock. Instants are comparable with the caller's in one process.
#[derive(Clone, Debug)]
pub struct RequestTruth {
    /// The client's `x-request-id`, or the id the server made up.
    pub id: Arc<str>,
    /// When the request's headers had been read.
    pub received: Instant,
    /// When it first got a slot.
    pub scheduled: Option<Instant>,
    /// When the engine emitted its first token.
    pub first_token: Option<Instant>,
    /// When the engine emitted its last token so far.
    pub last_token: Option<Instant>,
    /// Tokens emitted, each at its own time.
    pub tokens: u64,
    /// Tokens in the prompt.
    pub prompt_tokens: u64,
    /// Of those, tokens that the prefix cache spared.
    pub cached_tokens: u64,
    /// How often it was preempted.
    pub preemptions: u32,
    /// Why it ended.
    pub finish: Finish,
}

impl RequestTruth {
    /// Time to first token as the server saw it.
    pub fn ttft(&self) -> Option<Duration> {
        Some(self.first_token?.saturating_duration_since(self.received))
    }

    /// Mean time per output token after the first; `None` for fewer than two tokens.
    pub fn tpot(&self) -> Option<Duration> {
        let gaps = u32::try_from(self.tokens.checked_sub(1).filter(|&gaps| gaps > 0)?).ok()?;
        Some(self.last_token?.saturating_duration_since(self.first_token?) / gaps)
    }
}

/// The newest ended requests, bounded.
#[derive(Debug)]
pub(crate) struct TruthLog {
    records: VecDeque<RequestTruth>,
    capacity: usize,
}

impl TruthLog {
    pub(crate) fn new(capacity: usize) -> TruthLog {
        TruthLog { records: VecDeque::new(), capacity }
    }

    pub(crate) fn push(&mut self, record: RequestTruth) {
        if self.capacity == 0 {
            return;
        }
        if self.records.len() == self.capacity {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    pub(crate) fn snapshot(&self) -> Vec<RequestTruth> {
        self.records.iter().cloned().collect()
    }
}
