//! Latency over percentile: where two phases part, and how far out.

use crate::stats::quantile::{least_samples, of_sorted};
use crate::summary::data::PhaseData;
use serde::{Deserialize, Serialize};

/// One latency of one phase over percentiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// `ttft`, `itl`, `e2e`.
    pub metric: String,
    /// The phase.
    pub phase: String,
    /// `(p, seconds)` with p from 0 to 1, ascending; as far out as the number of samples carries.
    pub points: Vec<(f64, f64)>,
}

/// Percentiles are spaced evenly on a scale of 1 / (1 - p), so many for each factor of ten.
const POINTS_A_DECADE: usize = 12;
/// As far out as four nines.
const DECADES: usize = 4;

/// The curves of a phase that is called `name`; empty ones are left out.
pub(super) fn of_phase(phase: &PhaseData<'_>, name: &str) -> Vec<Curve> {
    [("ttft", &phase.ttft), ("itl", &phase.itl), ("e2e", &phase.e2e)]
        .into_iter()
        .filter_map(|(metric, series)| {
            let n = series.sorted.len() as u64;
            let point = |i: usize| {
                let p = 1.0 - 10.0_f64.powf(-(i as f64) / POINTS_A_DECADE as f64);
                (n > 0 && (i == 0 || n >= least_samples(p)))
                    .then(|| of_sorted(&series.sorted, p).map(|value| (p, value)))?
            };
            let points: Vec<(f64, f64)> = (0..=POINTS_A_DECADE * DECADES).map_while(point).collect();
            (points.len() > 1).then(|| Curve { metric: metric.to_owned(), phase: name.to_owned(), points })
        })
        .collect()
}
