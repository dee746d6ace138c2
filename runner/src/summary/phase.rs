//! What one phase was like.

use super::data::{PhaseData, Series};
use super::{pauses, token_gaps, tokens_per_event};
use crate::record::{Outcome, RequestRecord};
use crate::stats::{Estimate, jitter, mean, quantile, rate};
use brownout_injector::sla::{Metric, Statistic};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// One phase in numbers. Times are seconds; what no data supports is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseSummary {
    /// `baseline`, `fault`, `recovery`; `load` in a run of load alone.
    pub phase: String,
    /// When it began, in seconds since the run began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// Requests scheduled in it.
    pub requests: u64,
    /// Those that count for availability: all but those that the client or the end of the run cut off.
    pub counted: u64,
    /// How requests ended, most frequent first.
    pub outcomes: Vec<OutcomeCount>,
    /// Response times, from the scheduled send.
    pub latencies: BTreeMap<String, LatencySummary>,
    /// Service times, from the real send: what the server did, whatever waited in the client.
    pub service_times: BTreeMap<String, LatencySummary>,
    /// Failed / counted.
    pub error_rate: Estimate,
    /// Ended orderly but short / counted.
    pub truncation_rate: Estimate,
    /// Token gaps over three times the usual one / all gaps.
    pub stall_rate: Estimate,
    /// Good requests a second, by the time at which they were scheduled.
    pub goodput: Estimate,
    /// Good requests / counted.
    pub good_share: Estimate,
    /// Output tokens a second.
    pub throughput: Estimate,
    /// Finished requests a second.
    pub request_rate: Estimate,
    /// How unsteady the streams were.
    pub jitter: Jitter,
}

/// Requests that ended one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeCount {
    /// How they ended.
    pub outcome: String,
    /// With a fault that had fired on them.
    pub injected: u64,
    /// With none.
    pub organic: u64,
    /// What was said most often of those with none, the first 200 characters of it: an error's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// A latency in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Values that it is made of (for `itl`: gaps).
    pub n: u64,
    /// Arithmetic mean.
    pub mean: Estimate,
    /// Median.
    pub p50: Estimate,
    /// 90th percentile.
    pub p90: Estimate,
    /// 95th percentile.
    pub p95: Estimate,
    /// 99th percentile.
    pub p99: Estimate,
    /// Largest.
    pub max: Option<f64>,
}

/// How unsteady streams of tokens were; complete requests only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Jitter {
    /// Mean |change from one gap to the next| within a request, in seconds.
    pub mean_change: Option<f64>,
    /// p99 - p50 of all gaps, in seconds.
    pub spread: Option<f64>,
    /// Token events that came in one read with the one before / all events: they add no gap.
    pub coalesced_share: Option<f64>,
    /// Tokens in an event, by the server's own count.
    pub tokens_per_event: Option<f64>,
}

impl PhaseSummary {
    /// Sums up `data` of the phase that is called `name`. `injected` are the numbers of the requests on which a fault fired.
    #[must_use]
    pub fn new(data: &PhaseData<'_>, name: &str, injected: &HashSet<u64>) -> Self {
        let lag_free = |value: fn(&RequestRecord) -> Option<f64>, complete: bool| {
            let taken = data.requests.iter().filter(|r| !complete || r.outcome == Outcome::Ok);
            let values: Vec<f64> =
                taken.filter_map(|r| value(r)).filter(|v| v.is_finite() && *v >= 0.0).collect();
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            of_series(&Series { values, ends: Vec::new(), sorted })
        };
        let metrics = [
            ("ttft", Metric::Ttft),
            ("ttfo", Metric::Ttfo),
            ("itl", Metric::Itl),
            ("tpot", Metric::Tpot),
            ("e2e", Metric::E2e),
        ];
        Self {
            phase: name.to_owned(),
            start: data.start,
            end: data.end,
            requests: data.requests.len() as u64,
            counted: data.counted,
            outcomes: outcomes(&data.requests, injected),
            latencies: metrics.iter().map(|(name, m)| ((*name).to_owned(), of_metric(data, *m))).collect(),
            service_times: [
                ("ttft".to_owned(), lag_free(|r| r.ttft, false)),
                ("e2e".to_owned(), lag_free(|r| r.last_token, true)),
            ]
            .into(),
            error_rate: data.estimate(Metric::ErrorRate, None),
            truncation_rate: data.estimate(Metric::TruncationRate, None),
            stall_rate: data.estimate(Metric::StallRate, None),
            goodput: data.estimate(Metric::Goodput, None),
            good_share: rate::estimate(data.good_share().0, data.good_share().1),
            throughput: data.estimate(Metric::Throughput, None),
            request_rate: data.estimate(Metric::RequestRate, None),
            jitter: jitter_of(data),
        }
    }
}

fn of_metric(data: &PhaseData<'_>, metric: Metric) -> LatencySummary {
    let at = |p: f64| data.estimate(metric, Some(Statistic::Percentile(p)));
    let mean = data.estimate(metric, Some(Statistic::Mean));
    let max = data.observed(metric, Statistic::Max);
    LatencySummary { n: mean.n, mean, p50: at(50.0), p90: at(90.0), p95: at(95.0), p99: at(99.0), max }
}

fn of_series(series: &Series) -> LatencySummary {
    let at = |p: f64| quantile::estimate(&series.sorted, p);
    LatencySummary {
        n: series.values.len() as u64,
        mean: mean::estimate(&series.values),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        max: series.sorted.last().copied(),
    }
}

/// The most characters that are shown of an error's text.
const LONGEST_TEXT: usize = 200;

/// How `requests` ended, most frequent first.
#[must_use]
pub fn outcomes(requests: &[&RequestRecord], injected: &HashSet<u64>) -> Vec<OutcomeCount> {
    let mut counts: BTreeMap<Outcome, (u64, u64)> = BTreeMap::new();
    let mut texts: BTreeMap<(Outcome, &str), u64> = BTreeMap::new();
    for request in requests {
        if let Some(error) = request.error.as_deref().filter(|_| !injected.contains(&request.number)) {
            *texts.entry((request.outcome, error)).or_default() += 1;
        }
        let count = counts.entry(request.outcome).or_default();
        if injected.contains(&request.number) {
            count.0 += 1;
        } else {
            count.1 += 1;
        }
    }
    let said = |outcome: Outcome| {
        let texts = texts.iter().filter(|((of, _), _)| *of == outcome);
        // The first of equals in the order of the alphabet, so that a report made again is the same.
        let most = texts.max_by(|(a, n), (b, m)| n.cmp(m).then(b.cmp(a)));
        most.map(|((_, text), _)| text.chars().take(LONGEST_TEXT).collect())
    };
    let mut counts: Vec<OutcomeCount> = counts
        .into_iter()
        .map(|(outcome, (injected, organic))| OutcomeCount {
            outcome: outcome.name().to_owned(),
            injected,
            organic,
            said: said(outcome),
        })
        .collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.injected + count.organic));
    counts
}

fn jitter_of(data: &PhaseData<'_>) -> Jitter {
    let complete = || data.requests.iter().filter(|r| r.outcome == Outcome::Ok);
    let (mut sum, mut changes, mut chunks, mut tokens) = (0.0, 0, 0_u64, 0.0);
    for request in complete() {
        // Scaled gaps change by as much as the raw ones, scaled.
        let pauses: Vec<f32> = pauses(request).collect();
        let scale = token_gaps(request).next().zip(pauses.first());
        let scale = scale.map_or(1.0, |(token, event)| token / f64::from(*event));
        let (change, n) = jitter::changes(&pauses);
        if change.is_finite() {
            sum += change * scale;
            changes += n;
        }
        chunks += u64::from(request.chunks);
        tokens += tokens_per_event(request) * f64::from(request.chunks);
    }
    let gaps = data.itl.values.len() as u64;
    let at = |p: f64| quantile::of_sorted(&data.itl.sorted, p).filter(|_| gaps >= quantile::least_samples(p));
    Jitter {
        mean_change: (changes > 0).then(|| sum / changes as f64),
        spread: at(0.99).zip(at(0.5)).map(|(high, middle)| high - middle),
        coalesced_share: data.coalesced_share(),
        tokens_per_event: (chunks > 0).then(|| tokens / chunks as f64),
    }
}
