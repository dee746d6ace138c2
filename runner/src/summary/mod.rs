//! From single requests to the numbers of a run: phases, degradation, detection, recovery.

pub mod data;
pub mod degradation;
pub mod effect;
pub mod good;
pub mod phase;
pub mod recovery;
pub mod timeline;

use crate::record::{Outcome, RequestRecord};
use brownout_injector::sla::{Metric, Statistic};

/// Whether the request failed: it counts, and it is not complete.
#[must_use]
pub fn failed(outcome: Outcome) -> bool {
    outcome.counts() && outcome != Outcome::Ok
}

/// Whether the answer ended orderly but short of what was asked.
#[must_use]
pub fn truncated(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::TruncatedClean | Outcome::ShortVsMaxTokens)
}

/// The statistic as SLA lines write it.
#[must_use]
pub fn statistic_name(statistic: Statistic) -> String {
    match statistic {
        Statistic::Percentile(p) => format!("p{p}"),
        Statistic::Mean => "mean".to_owned(),
        Statistic::Max => "max".to_owned(),
    }
}

/// What a metric is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A share from 0 to 1.
    Share,
    /// Requests a second.
    RequestsPerSecond,
    /// Tokens a second.
    TokensPerSecond,
}

/// What `metric` is counted in.
#[must_use]
pub const fn unit(metric: Metric) -> Unit {
    match metric {
        Metric::Ttft | Metric::Ttfo | Metric::Itl | Metric::Tpot | Metric::E2e => Unit::Seconds,
        Metric::ErrorRate | Metric::TruncationRate | Metric::StallRate => Unit::Share,
        Metric::Goodput | Metric::RequestRate => Unit::RequestsPerSecond,
        Metric::Throughput => Unit::TokensPerSecond,
    }
}

/// Whether more of `metric` is better.
#[must_use]
pub const fn more_is_better(metric: Metric) -> bool {
    matches!(metric, Metric::Goodput | Metric::Throughput | Metric::RequestRate)
}

/// A request that carries more tokens in an event than this has its gaps counted per token. Below it, the surplus is
/// an end token that is counted but never sent.
const SEVERAL_TOKENS_AN_EVENT: f64 = 1.25;

/// Tokens in an event of this request, by the server's own count.
#[must_use]
pub fn tokens_per_event(request: &RequestRecord) -> f64 {
    if request.chunks == 0 { 1.0 } else { f64::from(request.output_tokens) / f64::from(request.chunks) }
}

/// The gaps between reads that brought token events: the pauses that a reader sees.
pub fn pauses(request: &RequestRecord) -> impl Iterator<Item = f32> + '_ {
    request.gaps.iter().copied().filter(|gap| *gap > 0.0)
}

/// The gaps between tokens of a request: its pauses, shared among the tokens of an event where the server says that
/// events carry several.
pub fn token_gaps(request: &RequestRecord) -> impl Iterator<Item = f64> + '_ {
    let several = request.tokens_from_usage.then(|| tokens_per_event(request));
    let share = several.filter(|tokens| *tokens > SEVERAL_TOKENS_AN_EVENT).unwrap_or(1.0);
    pauses(request).map(move |gap| f64::from(gap) / share)
}

/// Up to this share of token events that came in one read with the one before, bursts say nothing: a read brings two
/// events now and then.
pub const FEW_IN_BURSTS: f64 = 0.05;

/// Whether a metric counts tokens that came in one read with others at no time at all, so that bursts shorten it
/// without making anything faster. ITL and stalls go by the pauses between reads.
#[must_use]
pub const fn hangs_on_bursts(metric: Metric) -> bool {
    matches!(metric, Metric::Tpot)
}

/// Send to last token, from the scheduled send.
#[must_use]
pub fn response_e2e(request: &RequestRecord) -> Option<f64> {
    request.last_token.map(|last| last + request.lag())
}

/// When each token event of a request came, in seconds since the run began.
pub fn event_times(request: &RequestRecord) -> impl Iterator<Item = f64> + '_ {
    let first = request.ttft.map(|ttft| request.sent + ttft);
    first.into_iter().chain(request.gaps.iter().scan(first.unwrap_or(request.sent), |at, gap| {
        *at += f64::from(*gap);
        Some(*at)
    }))
}
