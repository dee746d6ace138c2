//! Load against a server that answers by script: phases, numbers, outcomes, limits.

mod loops;
mod outcomes;
mod server;
mod tls;

#[path = "../../../tests/common/tls.rs"]
mod front;

use brownout_injector::scenario::{Arrival, Load, OutputLength, PromptSource, Timeouts};
use brownout_injector::units::{LengthDist, TimeSpan};
use brownout_injector::wire::Api;
use brownout_runner::load::LoadRun;
use brownout_runner::record::Phase;
use std::time::Duration;

pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A stream of 4 tokens is asked for, from model `m`.
pub(crate) fn load(arrival: Arrival) -> Load {
    Load {
        api: Api::OpenaiChat,
        model: Some("m".to_owned()),
        arrival,
        prompt: PromptSource { tokens: Some(LengthDist::Constant(8)), shared_prefix: None, file: None },
        output: OutputLength { tokens: LengthDist::Constant(4) },
        stream: true,
        temperature: 0.0,
        timeouts: Timeouts {
            request: TimeSpan(millis(20_000)),
            first_token: TimeSpan(millis(10_000)),
            stall: TimeSpan(millis(10_000)),
        },
        headers: Default::default(),
        body: Default::default(),
    }
}

/// One phase of `length`.
pub(crate) fn baseline(load: Load, url: &str, length: Duration) -> LoadRun {
    LoadRun::new(load, url, 7, vec![(Phase::Baseline, length)])
}

/// So many requests, one every 2 ms.
pub(crate) fn requests(load: impl FnOnce(Arrival) -> Load, url: &str, count: u64) -> LoadRun {
    baseline(load(Arrival::Constant { rate: 500.0 }), url, millis(2 * count) - millis(1))
}
