//! How soon the damage showed, and how soon it was over.

use super::data::PhaseData;
use super::good::GoodRule;
use super::{failed, token_gaps};
use crate::record::RequestRecord;
use crate::report::text;
use crate::stats::rate::wilson;
use crate::stats::{Interval, Sides, mean};
use serde::{Deserialize, Serialize};

/// Requests that a window should hold at the baseline's rate.
const REQUESTS_A_WINDOW: f64 = 10.0;
/// A window is at least this long, in seconds.
const SHORTEST_WINDOW: f64 = 0.5;
/// Recovery must hold for this many windows in a row.
pub const WINDOWS_TO_HOLD: usize = 3;
/// Detection needs this many windows of baseline, to know how far healthy windows stray.
const BASELINE_WINDOWS: usize = 5;
/// Damage is seen in the first of this many windows in a row outside the baseline's band.
const WINDOWS_TO_DETECT: usize = 2;

/// When the damage showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Detection {
    /// Whether the baseline was long enough to know what is usual.
    pub watched: bool,
    /// What showed it first: `ttft`, `itl`, `error rate`.
    pub metric: Option<String>,
    /// Seconds from when the first fault could act (armed, and its own window begun) to the end of the window that
    /// showed it; none where nothing did.
    pub seconds: Option<f64>,
    /// Width of the windows in seconds: the resolution of the number.
    pub window_seconds: f64,
    /// In words.
    pub note: String,
}

/// When the damage was over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// Whether it was.
    pub state: RecoveryState,
    /// Seconds from the end of the faults to the end of the first window that is as good as the baseline; only when
    /// recovered.
    pub within_seconds: Option<f64>,
    /// How long recovery was watched, in seconds.
    pub watched_seconds: f64,
    /// Width of the windows in seconds: the resolution of the number.
    pub window_seconds: f64,
    /// In words.
    pub note: String,
}

impl Recovery {
    /// Whether it was over in the first window already, so that the time is only the resolution of the answer.
    #[must_use]
    pub fn at_once(&self) -> bool {
        self.within_seconds.is_some_and(|within| within <= self.window_seconds)
    }

    /// The time as a number: `4.17 s`, or `≤ 500 ms` where it was over in the first window already.
    #[must_use]
    pub fn in_short(&self) -> Option<String> {
        self.within_seconds.map(|within| text::at_most(self.at_once(), text::seconds(within)))
    }
}

/// Whether the damage was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecoveryState {
    /// As good as before.
    Recovered,
    /// Watched, and never as good as before for long enough.
    NotRecovered,
    /// There was not enough to see it by.
    Unknown,
}

/// What one window of time looked like.
#[derive(Clone, Debug, Default)]
struct Window {
    counted: u64,
    good: u64,
    failed: u64,
    ttfts: Vec<f64>,
    gaps: (f64, u64),
}

fn windows(
    requests: &[&RequestRecord],
    (start, end): (f64, f64),
    width: f64,
    good: &GoodRule,
) -> Vec<Window> {
    let n = ((end - start) / width + 1e-9).floor().max(0.0) as usize;
    let mut windows = vec![Window::default(); n];
    for request in requests.iter().filter(|r| r.outcome.counts() && r.scheduled >= start) {
        let Some(window) = windows.get_mut(((request.scheduled - start) / width) as usize) else { continue };
        window.counted += 1;
        window.good += u64::from(good.is_good(request));
        window.failed += u64::from(failed(request.outcome));
        window.ttfts.extend(request.response_ttft());
        for gap in token_gaps(request) {
            window.gaps = (window.gaps.0 + gap, window.gaps.1 + 1);
        }
    }
    windows
}

fn window_seconds(baseline: &PhaseData<'_>) -> f64 {
    let rate = baseline.counted as f64 / baseline.duration().max(1e-9);
    if rate > 0.0 { (REQUESTS_A_WINDOW / rate).max(SHORTEST_WINDOW) } else { SHORTEST_WINDOW }
}

/// Finds the first window after `from` (when a fault could first act, in seconds since the run began) in which a metric
/// leaves the band of the baseline's windows, and stays out for the next.
#[must_use]
pub fn detect(baseline: &PhaseData<'_>, fault: &PhaseData<'_>, from: f64, good: &GoodRule) -> Detection {
    let width = window_seconds(baseline);
    let none = |watched: bool, note: String| Detection {
        watched,
        metric: None,
        seconds: None,
        window_seconds: width,
        note,
    };
    let healthy = windows(&baseline.requests, (baseline.start, baseline.end), width, good);
    if healthy.len() < BASELINE_WINDOWS {
        return none(
            false,
            format!("the baseline is shorter than {BASELINE_WINDOWS} windows of {width:.1} s"),
        );
    }
    if fault.duration() <= 0.0 {
        return none(false, "the run ended before any fault could act".to_owned());
    }
    let sick = windows(&fault.requests, (from, fault.end), width, good);
    if sick.len() < WINDOWS_TO_DETECT {
        return none(
            false,
            format!("faults could act for less than {WINDOWS_TO_DETECT} windows of {width:.1} s"),
        );
    }
    type Reading = fn(&Window) -> Option<f64>;
    let readings: [(&str, Reading); 3] = [
        ("ttft", |w| mean::mean(&w.ttfts)),
        ("itl", |w| (w.gaps.1 > 0).then(|| w.gaps.0 / w.gaps.1 as f64)),
        ("error rate", |w| (w.counted > 0).then(|| w.failed as f64 / w.counted as f64)),
    ];
    let first = readings
        .into_iter()
        .filter_map(|(metric, read)| {
            let values: Vec<f64> = healthy.iter().filter_map(read).collect();
            let (low, high) =
                values.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
            // Half the spread of the healthy windows, and at least a twentieth, is left as room for chance.
            let limit = high + (0.5 * (high - low)).max(0.05 * high);
            let out: Vec<bool> = sick.iter().map(|w| read(w).is_some_and(|v| v > limit)).collect();
            let at = out.windows(WINDOWS_TO_DETECT).position(|run| run.iter().all(|out| *out))?;
            (!values.is_empty()).then_some((at, metric))
        })
        .min_by_key(|(at, _)| *at);
    match first {
        Some((at, metric)) => Detection {
            watched: true,
            metric: Some(metric.to_owned()),
            seconds: Some((at + 1) as f64 * width),
            window_seconds: width,
            note: format!("{metric} left the baseline's band"),
        },
        None => none(true, "no metric left the baseline's band for two windows in a row".to_owned()),
    }
}

/// Finds the first window after `healed` (in seconds since the run began) whose share of good requests is not below
/// the baseline's beyond doubt, and that is followed by more such windows.
#[must_use]
pub fn recover(
    baseline: &PhaseData<'_>,
    after: Option<&PhaseData<'_>>,
    healed: f64,
    good: &GoodRule,
) -> Recovery {
    let width = window_seconds(baseline);
    let unknown = |watched: f64, note: &str| Recovery {
        state: RecoveryState::Unknown,
        within_seconds: None,
        watched_seconds: watched,
        window_seconds: width,
        note: note.to_owned(),
    };
    let Some(after) = after.filter(|after| after.end > healed) else {
        return unknown(0.0, "there was no recovery phase to watch");
    };
    let watched = after.end - healed;
    let counted = baseline.requests.iter().filter(|r| r.outcome.counts()).count() as u64;
    let fine = baseline.requests.iter().filter(|r| good.is_good(r)).count() as u64;
    let Some(usual) = wilson(fine, counted, Sides::Two) else {
        return unknown(watched, "the baseline has no finished request to compare with");
    };
    if fine == 0 {
        return unknown(
            watched,
            "not one request of the baseline was good, so there is nothing to get back to",
        );
    }
    let windows = windows(&after.requests, (healed, after.end), width, good);
    let as_good = |window: &Window| {
        wilson(window.good, window.counted, Sides::Two).is_some_and(|share: Interval| !share.is_below(&usual))
    };
    let alike: Vec<bool> = windows.iter().map(as_good).collect();
    if alike.len() < WINDOWS_TO_HOLD {
        return unknown(watched, &format!("recovery was watched for less than {WINDOWS_TO_HOLD} windows"));
    }
    match alike.windows(WINDOWS_TO_HOLD).position(|run| run.iter().all(|alike| *alike)) {
        Some(at) => Recovery {
            state: RecoveryState::Recovered,
            within_seconds: Some((at + 1) as f64 * width),
            watched_seconds: watched,
            window_seconds: width,
            note: format!("as good as the baseline for {WINDOWS_TO_HOLD} windows in a row"),
        },
        None => Recovery {
            state: RecoveryState::NotRecovered,
            within_seconds: None,
            watched_seconds: watched,
            window_seconds: width,
            note: format!("never as good as the baseline for {WINDOWS_TO_HOLD} windows in a row"),
        },
    }
}
