//! `bandwidth`: the answer comes no faster than so many bytes a second.

use super::{About, Acts, Layer};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Hold, Meaning, Step};
use crate::facts::Facts;
use crate::wire::Event;
use std::num::NonZeroU64;
use std::time::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer comes no faster than so many bytes a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bandwidth {
    /// Bytes a second, at least 1.
    #[schemars(range(min = 1))]
    pub bytes_per_second: u64,
}

impl Bandwidth {
    pub(super) const ABOUT: About = About {
        kind: "bandwidth",
        layer: Layer::Router,
        acts: Acts::OnTheWire,
        meaning: "The answer's bytes leave at no more than bytesPerSecond for each request, in small pieces as \
                  they become due. Streamed or not, text or not.",
        certifies: "Clients bear a trickling answer: read timeouts count from the last byte, not from the first; \
                  buffers and idle timers of gateways are long enough.",
        does_not_certify: "Only bytes of the body on their way to the client, and for each request alone: no link shared \
                  by many, no packet loss, no slow upload. The engine generates at its own pace meanwhile.",
        example: "\
- name: thin-line
  bandwidth: {bytesPerSecond: 4000}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        if self.bytes_per_second == 0 {
            return vec![("bytesPerSecond", "at least 1 byte a second (see blackhole for none)".to_owned())];
        }
        Vec::new()
    }
}

impl Meaning for Bandwidth {
    fn on_answer(&self, _: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        let rate = NonZeroU64::new(self.bytes_per_second)?;
        Some(Box::new(Thin { rate, bytes: 0, touched: 0 }))
    }
}

struct Thin {
    rate: NonZeroU64,
    bytes: u64,
    touched: u64,
}

impl Thin {
    fn slow(&mut self, bytes: usize) -> Step {
        self.bytes += bytes as u64;
        self.touched += 1;
        let hold = Hold { bytes_per_second: Some(self.rate), ..Hold::default() };
        Step { hold, ..Step::PASS }
    }
}

impl Effect for Thin {
    fn event(&mut self, event: &Event<'_>) -> Step {
        self.slow(event.raw.len())
    }

    fn body(&mut self, body: &[u8], _: u32) -> Step {
        self.slow(body.len())
    }

    fn done(&self) -> Done {
        let note = format!("{} bytes at {} bytes/s", self.bytes, self.rate);
        Done { touched: self.touched, asked: Duration::ZERO, note }
    }
}
