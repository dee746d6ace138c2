//! When a guard ends a run.

use crate::{error, late, line, ok};
use brownout_runner::record::{Outcome, Phase, RequestRecord};
use brownout_runner::sla::AbortGuard;

/// When the guard of this line fires, asked after each request and at `end`.
fn fires(text: &str, requests: &[RequestRecord], end: f64) -> Option<f64> {
    let mut guard = AbortGuard::new(&[line(text)]);
    for request in requests {
        guard.observe(request);
        if guard.check(request.ended).is_some() {
            return Some(request.ended);
        }
    }
    guard.check(end).map(|_| end)
}

/// Requests that end at these times, failed or not.
fn ends(at: impl IntoIterator<Item = f64>, failed: impl Fn(f64) -> bool) -> Vec<RequestRecord> {
    let make = |(i, at)| match failed(at) {
        true => RequestRecord { ended: at, ..error(i, Phase::Fault, at - 0.5) },
        false => RequestRecord { ended: at, ..ok(i, Phase::Fault, at - 0.5, 0.1) },
    };
    (0..).zip(at).map(make).collect()
}

fn each_half_second(from: u32, until: u32) -> impl Iterator<Item = f64> {
    (2 * from..2 * until).map(|i| f64::from(i) / 2.0)
}

#[test]
fn two_requests_say_nothing_and_three_do() {
    for text in ["error rate > 50%", "truncation rate < 1%", "ttft max > 1ms", "itl mean > 1ms"] {
        let one_token = |request| RequestRecord { gaps: vec![0.02], ..request };
        let failed = text.starts_with("error");
        let three: Vec<RequestRecord> =
            ends([1.0, 1.1, 1.2], |_| failed).into_iter().map(one_token).collect();
        assert_eq!(fires(text, &three[..2], 1.2), None, "{text}");
        assert_eq!(fires(text, &three, 1.2), Some(1.2), "{text}");
    }
}

#[test]
fn what_the_run_cut_off_and_what_ended_long_ago_say_nothing() {
    let mut cut = ends([1.0, 1.1, 1.2, 1.3], |_| true);
    cut.iter_mut().for_each(|request| request.outcome = Outcome::RunEnded);
    assert_eq!(fires("error rate > 50%", &cut, 1.3), None);
    let failed = ends([1.5, 1.6, 1.7], |_| true);
    assert_eq!(fires("error rate > 50%", &[cut, failed].concat(), 1.7), Some(1.7));
    // Three failed at 1 s; whoever asks late sees them no more.
    let mut guard = AbortGuard::new(&[line("error rate > 50%")]);
    ends([1.0, 1.0, 1.0], |_| true).iter().for_each(|request| guard.observe(request));
    assert!(guard.check(6.1).is_none());
}

#[test]
fn a_condition_must_hold_without_a_break() {
    let text = "error rate > 50% for 3s";
    // From the third request on, at 2 s.
    assert_eq!(fires(text, &ends(each_half_second(1, 9), |_| true), 9.0), Some(5.0));
    // Good requests from 3 s to 5 s: at 4.5 s most of the last three seconds' are, and at 6.5 s no more.
    let pause = |at: f64| !(3.0..5.0).contains(&at);
    assert_eq!(fires(text, &ends(each_half_second(1, 15), pause), 15.0), Some(9.5));
    // A line's own time bounds the look-back: two good seconds hide no second of errors.
    let lately = fires("error rate > 50% for 1s", &ends(each_half_second(1, 9), |at| at >= 4.0), 9.0);
    assert_eq!(lately, Some(5.5));
}

#[test]
fn rates_a_second_say_nothing_before_a_whole_look_back_has_passed() {
    let two_a_second = ends(each_half_second(1, 9), |_| false);
    assert_eq!(fires("request rate < 1/s", &two_a_second, 9.0), None);
    assert_eq!(fires("goodput < 1/s", &two_a_second, 9.0), None);
    assert!(fires("request rate < 3/s", &two_a_second, 9.0).is_some_and(|at| at >= 5.5));
    assert!(fires("throughput > 9/s", &two_a_second, 9.0).is_some(), "ten tokens a second");
}

#[test]
fn times_count_from_the_scheduled_send() {
    let waited: Vec<RequestRecord> = (0..3).map(|i| late(i, Phase::Fault, 1.0, 0.1, 0.5)).collect();
    assert!(fires("ttft mean > 500ms", &waited, 2.0).is_some());
    assert!(fires("e2e mean > 600ms", &waited, 2.0).is_some());
    assert!(fires("tpot mean > 21ms", &waited, 2.0).is_none());
}

#[test]
fn a_baseline_is_made_of_its_own_phase_alone() {
    let in_phase = |phase, n: u64, at: f64, ttft: f64| {
        (0..n).map(move |i| ok(i, phase, at + 0.1 * i as f64, ttft)).collect::<Vec<_>>()
    };
    let all = |fault_ttft| {
        let warm_up = in_phase(Phase::Warmup, 50, 0.0, 1.0);
        [warm_up, in_phase(Phase::Baseline, 50, 5.0, 0.1), in_phase(Phase::Fault, 50, 10.0, fault_ttft)]
            .concat()
    };
    assert!(fires("ttft mean > 3x baseline", &all(0.9), 15.0).is_some_and(|at| at > 10.0));
    assert_eq!(fires("ttft mean > 3x baseline", &all(0.2), 15.0), None);
    // Ten requests a second in the baseline and ever after.
    assert_eq!(fires("request rate > 1.5x baseline", &all(0.1), 15.0), None);
    assert!(fires("request rate > 0.5x baseline", &all(0.1), 15.0).is_some());
}
