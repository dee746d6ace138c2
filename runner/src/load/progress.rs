//! How a run stands, for people who watch it.

use super::worker::Live;
use crate::record::{Outcome, Phase, RequestRecord};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How a run stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The phase; none before the first and after the last.
    pub phase: Option<Phase>,
    /// Since the phase began.
    pub phase_elapsed: Duration,
    /// How long the phase is to last.
    pub phase_length: Duration,
    /// Since the run began.
    pub elapsed: Duration,
    /// How long all phases are to last.
    pub total: Duration,
    /// Requests sent.
    pub sent: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// Requests that ended well.
    pub ok: u64,
    /// Requests that ended otherwise.
    pub failed: BTreeMap<&'static str, u64>,
    /// Median time to first token of the last [`ROLLING_WINDOW`], in seconds.
    pub ttft_p50: Option<f64>,
    /// Its 99th percentile.
    pub ttft_p99: Option<f64>,
    /// Median gap between tokens of the last [`ROLLING_WINDOW`], in seconds.
    pub itl_p50: Option<f64>,
    /// Token events a second over the last [`ROLLING_WINDOW`].
    pub tokens_per_second: f64,
}

/// How far back the rolling figures look.
pub const ROLLING_WINDOW: Duration = Duration::from_secs(5);

/// The most samples that a rolling figure is made of.
const SAMPLES: usize = 8192;

/// Gathers what the threads tell.
#[derive(Default)]
pub(super) struct Board {
    sent: u64,
    ended: u64,
    ok: u64,
    failed: BTreeMap<&'static str, u64>,
    ttfts: Rolling,
    gaps: Rolling,
    tokens: VecDeque<(Instant, u64)>,
}

#[derive(Default)]
struct Rolling(VecDeque<(Instant, f32)>);

impl Rolling {
    fn extend(&mut self, now: Instant, samples: &[f32]) {
        self.0.extend(samples.iter().map(|sample| (now, *sample)));
        let surplus = self.0.len().saturating_sub(SAMPLES);
        self.0.drain(..surplus);
    }

    fn forget(&mut self, now: Instant) {
        while self.0.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > ROLLING_WINDOW) {
            self.0.pop_front();
        }
    }

    /// The sample at each share of the way from the smallest to the largest; nearest rank.
    fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Option<f64>; N] {
        let mut samples: Vec<f32> = self.0.iter().map(|(_, sample)| *sample).collect();
        samples.sort_unstable_by(f32::total_cmp);
        shares.map(|share| {
            let rank = (share * samples.len() as f64).ceil() as usize;
            samples.get(rank.saturating_sub(1)).map(|sample| f64::from(*sample))
        })
    }
}

impl Board {
    pub(super) fn live(&mut self, now: Instant, live: &Live) {
        self.sent += live.sent;
        self.ttfts.extend(now, &live.ttfts);
        self.gaps.extend(now, &live.gaps);
        self.tokens.push_back((now, live.tokens));
    }

    pub(super) fn request(&mut self, record: &RequestRecord) {
        self.ended += 1;
        if record.outcome == Outcome::Ok {
            self.ok += 1;
        } else {
            *self.failed.entry(record.outcome.name()).or_default() += 1;
        }
    }

    /// The counts and rolling figures at `now`; `started` is when the run began.
    pub(super) fn progress(&mut self, now: Instant, started: Instant) -> Progress {
        self.ttfts.forget(now);
        self.gaps.forget(now);
        while self.tokens.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > ROLLING_WINDOW) {
            self.tokens.pop_front();
        }
        let elapsed = now.saturating_duration_since(started);
        let tokens: u64 = self.tokens.iter().map(|(_, count)| count).sum();
        let [ttft_p50, ttft_p99] = self.ttfts.quantiles([0.5, 0.99]);
        let [itl_p50] = self.gaps.quantiles([0.5]);
        // Ends are told at once and sends with the next report: for a moment more may have ended than were sent.
        let sent = self.sent.max(self.ended);
        Progress {
            elapsed,
            sent,
            in_flight: sent - self.ended,
            ok: self.ok,
            failed: self.failed.clone(),
            ttft_p50,
            ttft_p99,
            itl_p50,
            tokens_per_second: tokens as f64 / elapsed.min(ROLLING_WINDOW).as_secs_f64().max(0.1),
            ..Progress::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rolling_figures_forget_what_is_old() {
        let start = Instant::now();
        let mut board = Board::default();
        let live = |ttfts: &[f32], tokens| Live { sent: 2, tokens, ttfts: ttfts.to_vec(), gaps: Vec::new() };
        board.live(start, &live(&[1.0, 1.0], 500));
        let later = start + ROLLING_WINDOW + Duration::from_millis(1);
        board.live(later, &live(&[3.0, 4.0, 5.0], 50));
        let progress = board.progress(later, start);
        assert_eq!((progress.ttft_p50, progress.ttft_p99, progress.itl_p50), (Some(4.0), Some(5.0), None));
        assert_eq!((progress.sent, progress.in_flight), (4, 4));
        assert!((progress.tokens_per_second - 10.0).abs() < 1e-9, "{}", progress.tokens_per_second);
    }
}
