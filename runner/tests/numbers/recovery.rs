//! When damage showed, and when it was over: with ten requests a second, windows are a second long.

use crate::{error, ok, phase, steady};
use brownout_runner::record::{Outcome, Phase, RequestRecord};
use brownout_runner::summary::good::GoodRule;
use brownout_runner::summary::recovery::{Detection, Recovery, RecoveryState, detect, recover};

/// A healthy baseline of `seconds`, and a fault phase from 20 s on, whose requests are made by `make`.
fn detected(seconds: f64, from: f64, end: f64, make: impl Fn(u64, f64) -> RequestRecord) -> Detection {
    detected_after(steady(0.0, seconds, |i, at| ok(i, Phase::Baseline, at, 0.1)), from, end, make)
}

fn detected_after(
    healthy: Vec<RequestRecord>,
    from: f64,
    end: f64,
    make: impl Fn(u64, f64) -> RequestRecord,
) -> Detection {
    let seconds = healthy.len() as f64 / 10.0;
    let baseline = phase(Phase::Baseline, (0.0, seconds), &healthy);
    let sick = steady(20.0, end, make);
    let fault = phase(Phase::Fault, (20.0, end), &sick);
    detect(&baseline, &fault, from, &GoodRule::default())
}

fn after(ttft: f64) -> impl Fn(u64, f64) -> RequestRecord {
    move |i, at| ok(i, Phase::Fault, at, ttft)
}

/// What showed the damage, and when.
fn first(detection: &Detection) -> Option<(&str, f64)> {
    detection.metric.as_deref().zip(detection.seconds)
}

#[test]
fn damage_is_seen_at_the_end_of_its_first_window_counted_from_when_faults_could_act() {
    let from_23 = |i, at| ok(i, Phase::Fault, at, if at < 23.0 { 0.1 } else { 0.2 });
    assert_eq!(first(&detected(10.0, 20.0, 30.0, from_23)), Some(("ttft", 4.0)));
    assert_eq!(first(&detected(10.0, 22.0, 30.0, from_23)), Some(("ttft", 2.0)));
    // What came before faults could act is in no window.
    let until_22 = |i, at| ok(i, Phase::Fault, at, if at < 22.0 { 9.0 } else { 0.1 });
    assert_eq!(first(&detected(10.0, 22.0, 30.0, until_22)), None);
    assert_eq!(first(&detected(10.0, 20.0, 30.0, after(0.1))), None, "a baseline without errors is no error");
}

#[test]
fn gaps_are_the_pauses_between_reads() {
    let gaps =
        |gaps: [f32; 4]| move |i, at| RequestRecord { gaps: gaps.to_vec(), ..ok(i, Phase::Fault, at, 0.1) };
    // As much time in all, but two tokens a read.
    let bundled = detected(10.0, 20.0, 30.0, gaps([0.04, 0.0, 0.04, 0.0]));
    assert_eq!(first(&bundled), Some(("itl", 1.0)));
    assert_eq!(first(&detected(10.0, 20.0, 30.0, gaps([0.02, 0.0, 0.02, 0.0]))), None);
}

#[test]
fn what_shows_first_counts_and_one_window_alone_shows_nothing() {
    let slow_from_25_errors_from_22 = |i: u64, at| match at {
        at if at > 22.0 && i.is_multiple_of(3) => error(i, Phase::Fault, at),
        at => ok(i, Phase::Fault, at, if at < 25.0 { 0.1 } else { 0.2 }),
    };
    assert_eq!(first(&detected(10.0, 20.0, 30.0, slow_from_25_errors_from_22)), Some(("error rate", 3.0)));
    let each_other_second = |i, at: f64| ok(i, Phase::Fault, at, 0.1 + 0.1 * (at.floor() % 2.0));
    assert_eq!(first(&detected(10.0, 20.0, 30.0, each_other_second)), None);
    // What the run itself cut off is no error.
    let cut = |i, at| RequestRecord { outcome: Outcome::RunEnded, ..ok(i, Phase::Fault, at, 9.0) };
    assert_eq!(first(&detected(10.0, 20.0, 30.0, cut)), None);
}

#[test]
fn the_band_leaves_half_the_spread_and_at_least_a_twentieth() {
    assert_eq!(first(&detected(10.0, 20.0, 30.0, after(0.104))), None);
    assert_eq!(first(&detected(10.0, 20.0, 30.0, after(0.106))), Some(("ttft", 1.0)));
    // Windows of 100 and of 140 ms: 160 ms is the limit.
    let uneven = || steady(0.0, 10.0, |i, at| ok(i, Phase::Baseline, at, 0.1 + 0.04 * (at.floor() % 2.0)));
    assert_eq!(first(&detected_after(uneven(), 20.0, 30.0, after(0.159))), None);
    assert_eq!(first(&detected_after(uneven(), 20.0, 30.0, after(0.161))), Some(("ttft", 1.0)));
}

#[test]
fn damage_is_watched_for_from_five_windows_of_baseline_and_two_of_faults_on() {
    let watched = |seconds, end| detected(seconds, 20.0, end, after(0.2)).watched;
    assert!(watched(5.0, 22.0));
    assert!(!watched(4.9, 22.0), "a window less of baseline");
    assert!(!watched(5.0, 21.9), "a window less of faults");
    // Windows of many requests are no shorter than half a second.
    let dense: Vec<RequestRecord> =
        (0..1000).map(|i| ok(i, Phase::Baseline, i as f64 / 100.0, 0.1)).collect();
    let baseline = phase(Phase::Baseline, (0.0, 10.0), &dense);
    assert!((detect(&baseline, &baseline, 0.0, &GoodRule::default()).window_seconds - 0.5).abs() < 1e-9);
}

/// Which requests fail, by number and time.
trait Fails: Fn(u64, f64) -> bool {}

impl<F: Fn(u64, f64) -> bool> Fails for F {}

/// How recovery went from the end of the faults at 22 s, 2 s into the phase, to `end`; `fails` says which requests do.
fn recovered(end: f64, fails: impl Fn(u64, f64) -> bool) -> Recovery {
    recovered_to(|_| false, end, fails)
}

fn recovered_to(usual: impl Fn(u64) -> bool, end: f64, fails: impl Fn(u64, f64) -> bool) -> Recovery {
    let make = |phase: Phase, fails: bool, i, at| match fails {
        true => error(i, phase, at),
        false => ok(i, phase, at, 0.1),
    };
    let healthy = steady(0.0, 10.0, |i, at| make(Phase::Baseline, usual(i), i, at));
    let after = steady(20.0, end, |i, at| make(Phase::Recovery, fails(i, at), i, at));
    let baseline = phase(Phase::Baseline, (0.0, 10.0), &healthy);
    let data = phase(Phase::Recovery, (20.0, end), &after);
    recover(&baseline, Some(&data), 22.0, &GoodRule::default())
}

#[test]
fn recovery_is_the_first_of_three_good_windows_counted_from_the_end_of_the_faults() {
    use RecoveryState::{NotRecovered, Recovered, Unknown};
    let cases: [(f64, &dyn Fails, RecoveryState, Option<f64>); 7] = [
        (30.0, &|_, at| at < 24.0, Recovered, Some(3.0)),
        (30.0, &|_, at| at < 22.0, Recovered, Some(1.0)),
        // Bad again in the third window, and in each third from there on.
        (30.0, &|_, at| (at.floor() as u64).is_multiple_of(3), NotRecovered, None),
        (30.0, &|_, at| (24.0..25.0).contains(&at), Recovered, Some(4.0)),
        (30.0, &|i, _| i.is_multiple_of(2), NotRecovered, None),
        (25.0, &|_, _| false, Recovered, Some(1.0)),
        (24.9, &|_, _| false, Unknown, None),
    ];
    for (i, (end, fails, state, within)) in cases.into_iter().enumerate() {
        let recovery = recovered(end, fails);
        assert_eq!((recovery.state, recovery.within_seconds), (state, within), "case {i}: {recovery:?}");
        assert!((recovery.watched_seconds - (end - 22.0)).abs() < 1e-9, "case {i}: {recovery:?}");
    }
}

#[test]
fn recovery_is_measured_by_what_the_baseline_was() {
    // Half of all requests failed before, too.
    let half = recovered_to(|i| i.is_multiple_of(2), 30.0, |i, _| i.is_multiple_of(2));
    assert_eq!((half.state, half.within_seconds), (RecoveryState::Recovered, Some(1.0)));
    assert_eq!(recovered_to(|i| i.is_multiple_of(2), 30.0, |_, _| true).state, RecoveryState::NotRecovered);
    let better = recovered_to(|i| i.is_multiple_of(2), 120.0, |_, _| false);
    assert_eq!((better.state, better.within_seconds), (RecoveryState::Recovered, Some(1.0)));
    assert_eq!(recovered_to(|_| true, 30.0, |_, _| false).state, RecoveryState::Unknown);
    // What the run cut off of the baseline says nothing of how good it was.
    let cut = steady(0.0, 10.0, |i, at| match i % 10 {
        0 => ok(i, Phase::Baseline, at, 0.1),
        _ => RequestRecord { outcome: Outcome::RunEnded, ..error(i, Phase::Baseline, at) },
    });
    let well = steady(20.0, 120.0, |i, at| ok(i, Phase::Recovery, at, 0.1));
    let (baseline, after) =
        (phase(Phase::Baseline, (0.0, 10.0), &cut), phase(Phase::Recovery, (20.0, 120.0), &well));
    let recovery = recover(&baseline, Some(&after), 20.0, &GoodRule::default());
    assert_eq!(recovery.state, RecoveryState::Recovered, "{recovery:?}");
    assert_eq!(recovered(22.0, |_, _| false).state, RecoveryState::Unknown);
}
