//! What the faults changed: every metric against the baseline.

use super::data::PhaseData;
use super::{hangs_on_bursts, more_is_better, statistic_name};
use crate::stats::bootstrap::Contrast;
use crate::stats::shift::{cliffs_delta, hodges_lehmann, holm};
use crate::stats::{Interval, Sides, rate};
use brownout_injector::sla::{Metric, Statistic};
use serde::{Deserialize, Serialize};

/// One metric in two phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The metric as SLA lines write it, such as `ttft p99`.
    pub metric: String,
    /// In the phase that is compared with.
    pub before: Option<f64>,
    /// In the phase that is compared.
    pub after: Option<f64>,
    /// after / before.
    pub ratio: Option<f64>,
    /// Its 95 % block-bootstrap interval.
    pub ratio_interval: Option<Interval>,
    /// after - before, in the metric's own unit (seconds, share, per second).
    pub difference: Option<f64>,
    /// Its 95 % interval: Newcombe's for shares of requests, block bootstrap for all else.
    pub difference_interval: Option<Interval>,
    /// What that says.
    pub finding: Finding,
    /// Whether the metric hangs on it that tokens came in bursts in either phase, and so says less of the server than
    /// of how its tokens were bundled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bursts: bool,
}

/// What a change says, with 95 % confidence for the whole table (Holm), and only if it is large enough to matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Finding {
    /// Worse, beyond doubt and by enough to matter.
    Worse,
    /// Better, beyond doubt and by enough to matter.
    Better,
    /// No difference that is beyond doubt and matters.
    Same,
    /// Too few samples to say.
    Unknown,
}

/// How the two distributions of one latency lie to each other. A description, no test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shift {
    /// `ttft`, `itl`, ...
    pub metric: String,
    /// Hodges-Lehmann shift in seconds: the median difference of a request after from one before.
    pub hodges_lehmann: Option<f64>,
    /// Cliff's delta, from -1 (all before are longer) to 1 (all after are longer).
    pub cliffs_delta: Option<f64>,
}

/// A smaller relative change than this is not worth a word, however sure.
pub const SMALLEST_RATIO: f64 = 0.05;
/// A smaller difference of shares than this is not worth a word.
pub const SMALLEST_SHARE: f64 = 0.005;

/// What is compared, in the order of the report.
#[must_use]
pub fn rows() -> Vec<(Metric, Option<Statistic>)> {
    let at = |p: f64| Some(Statistic::Percentile(p));
    let mut rows = Vec::new();
    for metric in [Metric::Ttft, Metric::Itl, Metric::Tpot, Metric::E2e] {
        rows.extend([
            (metric, at(50.0)),
            (metric, at(95.0)),
            (metric, at(99.0)),
            (metric, Some(Statistic::Mean)),
        ]);
    }
    rows.insert(4, (Metric::Ttfo, at(50.0)));
    rows.extend(
        [
            Metric::ErrorRate,
            Metric::TruncationRate,
            Metric::StallRate,
            Metric::Goodput,
            Metric::Throughput,
            Metric::RequestRate,
        ]
        .map(|metric| (metric, None)),
    );
    rows
}

/// The metric and its statistic as SLA lines write them.
#[must_use]
pub fn full_name(metric: Metric, statistic: Option<Statistic>) -> String {
    match statistic {
        Some(statistic) => format!("{} {}", metric.name(), statistic_name(statistic)),
        None => metric.name().to_owned(),
    }
}

/// Compares all of [`rows`] between two phases.
#[must_use]
pub fn changes(before: &PhaseData<'_>, after: &PhaseData<'_>) -> Vec<Change> {
    let mut doubts = Vec::new();
    let bursts = before.bursts().is_some() || after.bursts().is_some();
    let mut changes: Vec<(Metric, Change)> = Vec::new();
    for (metric, statistic) in rows() {
        let (old, new) = (before.resampled(metric, statistic), after.resampled(metric, statistic));
        let contrast = Contrast::new(&old, &new);
        let shares = match metric {
            Metric::ErrorRate => Some(((before.failed, before.counted), (after.failed, after.counted))),
            Metric::TruncationRate => {
                Some(((before.truncated, before.counted), (after.truncated, after.counted)))
            }
            _ => None,
        };
        let difference_interval = match shares {
            Some((a, b)) => rate::newcombe(a, b, Sides::Two),
            None => contrast.difference_interval(Sides::Two),
        };
        let doubt = match shares {
            Some((a, b)) => rate::p_same(a, b),
            None => contrast.p_unchanged(),
        };
        doubts.push(doubt.filter(|_| contrast.difference.is_some()));
        changes.push((
            metric,
            Change {
                metric: full_name(metric, statistic),
                before: old.value,
                after: new.value,
                ratio: contrast.ratio,
                ratio_interval: contrast.ratio_interval(Sides::Two),
                difference: contrast.difference,
                difference_interval,
                finding: Finding::Unknown,
                bursts: bursts && hangs_on_bursts(metric),
            },
        ));
    }
    let known: Vec<f64> = doubts.iter().flatten().copied().collect();
    let mut adjusted = holm(&known).into_iter();
    for ((metric, change), doubt) in changes.iter_mut().zip(&doubts) {
        if doubt.is_some() {
            let sure = adjusted.next().is_some_and(|p| p <= 0.05);
            change.finding = finding(*metric, change, sure);
        }
    }
    changes.into_iter().map(|(_, change)| change).collect()
}

fn finding(metric: Metric, change: &Change, sure: bool) -> Finding {
    let matters = match (super::unit(metric), change.ratio, change.difference) {
        (super::Unit::Share, _, Some(difference)) => difference.abs() >= SMALLEST_SHARE,
        // On the scale of factors, so that it is the same from the other side: 1.05 times, or 1 / 1.05.
        (_, Some(ratio), _) => ratio.max(1.0 / ratio) >= 1.0 + SMALLEST_RATIO,
        (_, None, difference) => difference.is_some_and(|d| d != 0.0),
    };
    if !sure || !matters {
        return Finding::Same;
    }
    let more = change.difference.is_some_and(|difference| difference > 0.0);
    if more == more_is_better(metric) { Finding::Better } else { Finding::Worse }
}

/// Describes how latencies moved as a whole.
#[must_use]
pub fn shifts(before: &PhaseData<'_>, after: &PhaseData<'_>) -> Vec<Shift> {
    [
        (Metric::Ttft, &before.ttft, &after.ttft),
        (Metric::Itl, &before.itl, &after.itl),
        (Metric::Tpot, &before.tpot, &after.tpot),
        (Metric::E2e, &before.e2e, &after.e2e),
    ]
    .into_iter()
    .map(|(metric, old, new)| Shift {
        metric: metric.name().to_owned(),
        hodges_lehmann: hodges_lehmann(&old.sorted, &new.sorted),
        cliffs_delta: cliffs_delta(&old.sorted, &new.sorted),
    })
    .collect()
}
