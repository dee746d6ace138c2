//! A stream held once, before one token: what `firstTokenDelay` and `stall` have in common.

use super::shape;
use crate::effect::{Done, Effect, Step};
use crate::wire::{Api, Event};
use std::time::Duration;

/// Holds the token event with number `at` (from 0), or a whole answer that has it.
pub(super) struct HeldOnce {
    pub(super) at: u32,
    pub(super) wait: Duration,
    pub(super) api: Api,
    pub(super) done: Done,
}

impl HeldOnce {
    fn hold(&mut self) -> Step {
        self.done.touched += 1;
        self.done.asked += self.wait;
        self.done.note = format!("held before token {}", u64::from(self.at) + 1);
        Step::hold(self.wait)
    }
}

impl Effect for HeldOnce {
    fn event(&mut self, event: &Event<'_>) -> Step {
        let here = event.class.is_token() && event.token == self.at;
        if here { self.hold() } else { Step::PASS }
    }

    fn body(&mut self, body: &[u8], tokens: u32) -> Step {
        let tokens =
            shape::object(body).map_or(0, |mut body| shape::body_tokens(self.api, &mut body, tokens));
        if tokens > self.at { self.hold() } else { Step::PASS }
    }

    fn done(&self) -> Done {
        self.done.clone()
    }
}
