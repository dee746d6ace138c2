//! Numbers of a few made-up requests, such as anybody can count by hand: from single requests to phases, proofs, lines
//! and guards.

mod changes;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod good;
mod guards;
mod lines;
mod phases;
mod recovery;
mod statistics;

use brownout_injector::sla::{self, Line};
use brownout_runner::record::{Outcome, Phase, RequestRecord};
use brownout_runner::summary::data::PhaseData;
use common::{complete_request, failed_request};

/// A complete request of five tokens: the first after `ttft`, the others 20 ms apart.
fn ok(number: u64, phase: Phase, at: f64, ttft: f64) -> RequestRecord {
    complete_request(number, phase, at, ttft, vec![0.02; 4])
}

/// The same, sent `lag` too late.
fn late(number: u64, phase: Phase, at: f64, ttft: f64, lag: f64) -> RequestRecord {
    let request = ok(number, phase, at, ttft);
    RequestRecord { sent: request.sent + lag, ended: request.ended + lag, ..request }
}

/// A request that got an error.
fn error(number: u64, phase: Phase, at: f64) -> RequestRecord {
    failed_request(number, phase, at, Outcome::Http5xx)
}

/// A request each 100 ms from `from` to `until`, as `make` makes it of its number and time.
fn steady(from: f64, until: f64, make: impl Fn(u64, f64) -> RequestRecord) -> Vec<RequestRecord> {
    let n = ((until - from) * 10.0).round() as u64;
    (0..n).map(|i| make(i, from + 0.05 + 0.1 * i as f64)).collect()
}

/// The phase that those of `all` make that were scheduled in it.
fn phase(phase: Phase, span: (f64, f64), all: &[RequestRecord]) -> PhaseData<'_> {
    let own = all.iter().filter(|request| request.phase == phase).collect();
    PhaseData::new(phase, span, own, all, 1)
}

/// A line of an SLA.
fn line(text: &str) -> Line {
    sla::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Whether two numbers are the same but for rounding.
fn close(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() < 1e-6)
}
