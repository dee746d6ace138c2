//! `queue`: only so many requests are in flight at a time; the others wait or get 503.

use super::{About, Layer, http_error::usual_message};
use crate::draw::Draw;
use crate::effect::{Answer, AnswerBody, Before, Meaning};
use crate::facts::Facts;
use crate::wire::ProviderError;
use std::collections::VecDeque;
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
        meaning: "At most maxInFlight requests are at the server at a time, from when they go upstream to the \
                  last byte of their answer. Others wait in order of arrival; where maxWaiting are waiting \
                  already, or after timeout, the answer is 503 in the provider's shape.",
        certifies: "Clients and autoscalers bear a server with few slots: TTFT grows with the queue, and a full \
                  queue sheds load instead of losing it.",
        does_not_certify: "Places are counted in requests, not in KV-cache blocks or tokens, and one request never slows \
                  another that is in flight. The limit is that of one proxy; replicas have one each.",
        example: "\
- name: few-slots
  queue: {maxInFlight: 4, maxWaiting: 16, timeout: 5s}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if self.max_in_flight == 0 {
            problems.push(("maxInFlight", "at least 1 place (see blackhole or httpError for none)".to_owned()));
        }
        if self.timeout.is_some_and(|timeout| timeout.0.is_zero()) {
            problems.push(("timeout", "a time of more than 0s (maxWaiting: 0 lets nobody wait)".to_owned()));
        }
        problems
    }
}

impl Meaning for Queue {
    fn before(&self, facts: &Facts<'_>, _: Draw) -> Before {
        let message = usual_message(facts.api, 503).to_owned();
        let error = ProviderError { status: 503, code: String::new(), message };
        Before::Queue {
            max_in_flight: self.max_in_flight,
            max_waiting: self.max_waiting.unwrap_or(u32::MAX),
            timeout: self.timeout.map(|span| span.0),
            full: Answer { status: 503, headers: Vec::new(), body: AnswerBody::Error(error) },
        }
    }
}

/// The places of one `queue` rule, shared by all its requests: first come, first served.
#[derive(Debug, Default)]
pub struct Places {
    max_in_flight: usize,
    max_waiting: usize,
    in_flight: usize,
    waiting: VecDeque<u64>,
    next: u64,
}

/// What a request meets at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// There is a place; it must be given back by [`Places::leave`].
    Admitted,
    /// It waits under this number, until [`Places::leave`] names the number or [`Places::give_up`] takes it back.
    Waits(u64),
    /// There is no place to wait.
    Full,
}

impl Places {
    /// All places free.
    #[must_use]
    pub fn new(max_in_flight: u32, max_waiting: u32) -> Self {
        Self { max_in_flight: max_in_flight as usize, max_waiting: max_waiting as usize, ..Self::default() }
    }

    /// A request comes.
    pub fn arrive(&mut self) -> Arrival {
        if self.in_flight < self.max_in_flight {
            self.in_flight += 1;
            return Arrival::Admitted;
        }
        if self.waiting.len() >= self.max_waiting {
            return Arrival::Full;
        }
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(number);
        Arrival::Waits(number)
    }

    /// A request has its answer, or gave up while it had a place. Its place goes to the number returned, which is then
    /// admitted.
    pub fn leave(&mut self) -> Option<u64> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        next
    }

    /// A waiting request gives up. False where it was not waiting: then it has a place, which it must give back.
    pub fn give_up(&mut self, number: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| *waiting != number);
        self.waiting.len() < before
    }

    /// Requests at the server, and requests that wait.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.in_flight, self.waiting.len())
    }
}
