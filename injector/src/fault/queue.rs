//! `queue`: only so many requests are in flight at a time; the others wait or get 503.

use super::{About, Acts, Layer, http_error::usual_message};
use crate::draw::Draw;
use crate::effect::{Answer, AnswerBody, Before, Meaning};
use crate::facts::Facts;
use crate::wire::ProviderError;
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
        acts: Acts::OnTheWire,
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
