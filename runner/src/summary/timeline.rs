//! The run in bins of time, for pictures. Bins hold what was observed, with no floor on the number of samples.

use super::good::GoodRule;
use super::{event_times, failed, tokens_per_event};
use crate::record::RequestRecord;
use crate::stats::quantile::of_sorted;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The run in bins of equal width.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// Width of a bin in seconds.
    pub bin_seconds: f64,
    /// The bins, from the start of the run.
    pub bins: Vec<Bin>,
}

/// What happened in one bin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bin {
    /// Requests scheduled in it.
    pub scheduled: u32,
    /// Of those, good.
    pub good: u32,
    /// Requests that failed in it (by the time at which they ended) with a fault that had fired on them.
    pub injected_errors: u32,
    /// Requests that failed in it with none.
    pub organic_errors: u32,
    /// Output tokens that came in it.
    pub tokens: f64,
    /// Median TTFT of the requests scheduled in it.
    pub ttft_p50: Option<f64>,
    /// 95th percentile of the same.
    pub ttft_p95: Option<f64>,
    /// Median gap between token events that ended in it.
    pub itl_p50: Option<f64>,
    /// 95th percentile of the same.
    pub itl_p95: Option<f64>,
}

/// Most bins: more than these no screen shows.
const MOST_BINS: f64 = 240.0;
/// Widths that people can read off an axis.
const WIDTHS: [f64; 12] = [0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0];
/// Requests that a bin should hold on average, so that lines do not fall apart into dots.
const REQUESTS_A_BIN: f64 = 4.0;
/// But this many bins a run has in any case.
const FEWEST_BINS: f64 = 16.0;
/// A run shorter than this is shown in bins of half a second.
const SHORT_RUN: f64 = 45.0;

impl Timeline {
    /// The timeline of `requests` over a run of `duration` seconds.
    #[must_use]
    pub fn new(requests: &[RequestRecord], duration: f64, good: &GoodRule, injected: &HashSet<u64>) -> Self {
        if duration <= 0.0 {
            return Self::default();
        }
        let most = (requests.len() as f64 / REQUESTS_A_BIN).clamp(FEWEST_BINS, MOST_BINS);
        let fits = |width: &&f64| duration / **width <= most && (**width >= 1.0 || duration < SHORT_RUN);
        let bin_seconds = WIDTHS.iter().find(fits).copied().unwrap_or((duration / MOST_BINS).ceil());
        let n = (duration / bin_seconds).ceil().max(1.0) as usize;
        let mut bins = vec![Bin::default(); n];
        let (mut ttfts, mut gaps) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        let index = |at: f64| {
            let bin = (at / bin_seconds).floor();
            (bin >= 0.0 && bin < n as f64).then_some(bin as usize)
        };
        for request in requests {
            if let Some(i) = index(request.scheduled) {
                bins[i].scheduled += 1;
                bins[i].good += u32::from(good.is_good(request));
                ttfts[i].extend(request.response_ttft().filter(|ttft| ttft.is_finite()));
            }
            if let Some(i) = index(request.ended).filter(|_| failed(request.outcome)) {
                if injected.contains(&request.number) {
                    bins[i].injected_errors += 1;
                } else {
                    bins[i].organic_errors += 1;
                }
            }
            let tokens = tokens_per_event(request).max(1.0);
            for (event, at) in event_times(request).enumerate() {
                let Some(i) = index(at) else { continue };
                bins[i].tokens += tokens;
                if let Some(gap) = event.checked_sub(1).and_then(|event| request.gaps.get(event)) {
                    gaps[i].extend(Some(f64::from(*gap)).filter(|gap| gap.is_finite() && *gap > 0.0));
                }
            }
        }
        for (bin, (mut ttft, mut gap)) in bins.iter_mut().zip(ttfts.into_iter().zip(gaps)) {
            ttft.sort_unstable_by(f64::total_cmp);
            gap.sort_unstable_by(f64::total_cmp);
            (bin.ttft_p50, bin.ttft_p95) = (of_sorted(&ttft, 0.5), of_sorted(&ttft, 0.95));
            (bin.itl_p50, bin.itl_p95) = (of_sorted(&gap, 0.5), of_sorted(&gap, 0.95));
        }
        Self { bin_seconds, bins }
    }

    /// When bin `i` begins, in seconds since the run began.
    #[must_use]
    pub fn start(&self, i: usize) -> f64 {
        self.bin_seconds * i as f64
    }
}
