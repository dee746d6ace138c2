//! `slowTokens`: every token is held: each waits `delay`, or tokens are paced to `tokensPerSecond`. Give one of the two.

use super::{About, Acts, Layer, check, shape};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Hold, Meaning, Step};
use crate::facts::Facts;
use crate::wire::{Api, Event};
use std::time::Duration;
use crate::units::DelayDist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every token is held: each waits `delay`, or tokens are paced to `tokensPerSecond`. Give one of the two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowTokens {
    /// The time that each token is kept back, drawn for each anew, from when it has come and the token before it has
    /// left: the gap to the token before grows to this and no further, so it shows only where it is longer than the
    /// server's own gap. A server that sends a token each 30 ms sends one each 60 ms with `constant: 60ms`, and looks as
    /// ever with `constant: 20ms`, but for one delay at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayDist>,
    /// Tokens leave at most this fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub tokens_per_second: Option<f64>,
}

impl SlowTokens {
    pub(super) const ABOUT: About = About {
        kind: "slowTokens",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "Every event that carries generated text is held: by a delay drawn for each anew, or so that at \
                  most tokensPerSecond of them leave. The delay counts from when a token has come and the one \
                  before it has left, so the gap between two tokens becomes the longer of the server's own and the \
                  delay: with a server that sends a token each 30 ms, constant: 60ms makes each gap 60 ms, and \
                  constant: 20ms only makes the whole stream 20 ms late. Give delays that are longer than the \
                  server's own ITL. An answer that is not streamed is held by the sum over its tokens, or until its \
                  tokens are due at that rate.",
        certifies: "Clients and gateways bear slow decoding: ITL and end-to-end timeouts, concurrency limits sized \
                  by answer time, back-pressure of open streams.",
        does_not_certify: "Does not occupy the engine: KV cache and batch slots are freed at the engine's own pace, so a \
                  real slowdown's queueing, preemption and longer TTFT for others do not appear. An event counts \
                  as one token even where the server puts several into one.",
        example: "\
- name: slow-decode
  slowTokens: {delay: {lognormal: {median: 60ms, p99: 400ms}}}
  when: {probability: 0.5}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        match (&self.delay, self.tokens_per_second) {
            (Some(delay), None) => check::delay("delay", delay),
            (None, Some(rate)) if rate.is_finite() && rate > 0.0 => Vec::new(),
            (None, Some(_)) => vec![("tokensPerSecond", "a number above 0".to_owned())],
            (None, None) => vec![("delay", "either `delay` or `tokensPerSecond`: neither is given".to_owned())],
            (Some(_), Some(_)) => {
                vec![("tokensPerSecond", "either `delay` or `tokensPerSecond`: both are given".to_owned())]
            }
        }
    }
}

impl Meaning for SlowTokens {
    fn on_answer(&self, facts: &Facts<'_>, draw: Draw) -> Option<Box<dyn Effect>> {
        Some(Box::new(Slow { how: self.clone(), api: facts.api, draw: draw.fork("tokens"), done: Done::default() }))
    }
}

struct Slow {
    how: SlowTokens,
    api: Api,
    draw: Draw,
    done: Done,
}

impl Slow {
    /// What `tokens` tokens, of which the first has number `first`, are held by.
    fn hold(&mut self, first: u32, tokens: u32) -> Step {
        if tokens == 0 {
            return Step::PASS;
        }
        let mut hold = Hold::default();
        if let Some(dist) = &self.how.delay {
            hold.add = (0..tokens).map(|i| dist.sample(self.draw, u64::from(first) + u64::from(i))).sum();
            self.done.asked += hold.add;
        }
        if let Some(rate) = self.how.tokens_per_second {
            hold.space = Duration::try_from_secs_f64(f64::from(tokens) / rate).unwrap_or(Duration::MAX);
        }
        self.done.touched += u64::from(tokens);
        Step { hold, ..Step::PASS }
    }
}

impl Effect for Slow {
    fn event(&mut self, event: &Event<'_>) -> Step {
        self.hold(event.token, u32::from(event.class.is_token()))
    }

    fn body(&mut self, body: &[u8], tokens: u32) -> Step {
        let tokens = shape::object(body).map_or(0, |mut body| shape::body_tokens(self.api, &mut body, tokens));
        // What a hostile usage says is bounded: it is a loop of this length.
        self.hold(0, tokens.min(1_000_000))
    }

    fn done(&self) -> Done {
        let n = self.done.touched;
        let note = match self.how.tokens_per_second {
            Some(rate) => format!("paced {n} tokens to {rate}/s"),
            None => format!("held {n} tokens"),
        };
        Done { note, ..self.done.clone() }
    }
}
