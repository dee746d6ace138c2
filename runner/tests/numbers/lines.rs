//! How single lines come out.

use crate::{close, error, line, ok, phase};
use brownout_injector::sla::{Bound, Demand, Line};
use brownout_runner::record::{Outcome, Phase, RequestRecord};
use brownout_runner::sla::LineOutcome::{self, Broken, Inconclusive, NotJudged, Pass};
use brownout_runner::sla::{Evidence, LineResult, judge};
use brownout_runner::stats::Sides;
use brownout_runner::stats::bootstrap::Contrast;
use brownout_runner::summary::data::PhaseData;
use brownout_runner::summary::recovery::{Recovery, RecoveryState};

const SPAN: (f64, f64) = (0.0, 10.0);

/// `n` requests over ten seconds, of which the first `failed` failed; TTFTs as `ttft` says.
fn requests(n: u64, failed: u64, ttft: impl Fn(u64) -> f64) -> Vec<RequestRecord> {
    let at = |i: u64| 10.0 * i as f64 / n as f64;
    let make = |i| match i < failed {
        true => error(i, Phase::Fault, at(i)),
        false => ok(i, Phase::Fault, at(i), ttft(i)),
    };
    (0..n).map(make).collect()
}

fn data(all: &[RequestRecord]) -> PhaseData<'_> {
    phase(Phase::Fault, SPAN, all)
}

fn judged(lines: &[Line], baseline: Option<&[RequestRecord]>, all: &[RequestRecord]) -> Vec<LineResult> {
    let baseline = baseline.map(data);
    judge(lines, &Evidence { judged: Some(&data(all)), baseline: baseline.as_ref(), recovery: None })
}

fn outcome(text: &str, baseline: Option<&[RequestRecord]>, all: &[RequestRecord]) -> LineOutcome {
    judged(&[line(text)], baseline, all)[0].outcome
}

#[test]
fn the_largest_and_none_at_all_are_facts_and_all_else_needs_evidence() {
    for (n, failed, text, want) in [
        (3, 0, "error rate <= 0%", Pass),
        (100, 1, "error rate <= 0%", Broken),
        (3, 0, "error rate < 1%", Inconclusive),
        (400, 0, "error rate < 1%", Pass),
        (100, 10, "error rate < 1%", Broken),
        (3, 0, "ttft max < 200ms", Pass),
        (3, 0, "ttft max < 50ms", Broken),
        // No rate is a share: ten bins with nothing in eight of them are no certain rate above 0.
        (2, 0, "goodput <= 0/s", Inconclusive),
    ] {
        assert_eq!(outcome(text, None, &requests(n, failed, |_| 0.1)), want, "{text} of {n}");
    }
}

#[test]
fn each_bound_has_five_percent_of_doubt_for_itself() {
    // 59 samples give an upper bound of p95 with 95 %, 58 none; both give a lower one.
    for (n, text, want) in [
        (59, "ttft p95 < 200ms", Pass),
        (58, "ttft p95 < 200ms", Inconclusive),
        (30, "ttft p95 > 1ms", Inconclusive),
        (59, "ttft p95 > 1ms", Pass),
        (30, "ttft p95 < 50ms", Broken),
        (30, "ttft p5 > 200ms", Broken),
    ] {
        assert_eq!(outcome(text, None, &requests(n, 0, |_| 0.1)), want, "{text} of {n}");
    }
}

#[test]
fn only_a_baseline_that_breaks_a_line_for_certain_takes_it_out() {
    let many = requests(400, 0, |_| 0.1);
    let (few, slow) = (requests(5, 0, |_| 0.1), requests(400, 0, |_| 0.3));
    for (baseline, all, want) in [(&few, &many, Pass), (&slow, &many, Inconclusive), (&many, &slow, Broken)] {
        assert_eq!(outcome("ttft p95 < 200ms", Some(baseline), all), want);
    }
}

/// A line on the mean TTFT with a factor that resamples stay above, but for 2.5 % of them.
fn barely_broken(before: &[RequestRecord], after: &[RequestRecord], text: &str, above: bool) -> Line {
    let mut line = line(text);
    let Demand::Threshold { metric, statistic, bound, .. } = &mut line.demand else { panic!("{text}") };
    let (before, after) = (data(before), data(after));
    let contrast =
        Contrast::new(&before.resampled(*metric, *statistic), &after.resampled(*metric, *statistic));
    let interval = contrast.ratio_interval(Sides::Two).expect("enough values");
    *bound = Bound::TimesBaseline(if above { interval.low } else { interval.high }.expect("a bound"));
    line
}

#[test]
fn relative_lines_are_held_to_holms_correction_together() {
    let spread = |i: u64| 0.1 + 0.01 * ((i * 37) % 11) as f64;
    let (before, after) = (requests(60, 0, spread), requests(60, 0, |i| 1.5 * spread(i * 5)));
    for (text, above) in [("ttft mean < 1x baseline", true), ("ttft mean > 1x baseline", false)] {
        let barely = barely_broken(&before, &after, text, above);
        let outcomes = |lines: &[Line]| {
            judged(lines, Some(&before), &after).into_iter().map(|line| line.outcome).collect::<Vec<_>>()
        };
        assert_eq!(outcomes(std::slice::from_ref(&barely)), [Broken], "{text}");
        let clear = line("ttft mean < 1.01x baseline");
        assert_eq!(
            outcomes(&[barely.clone(), clear, barely.clone()]),
            [Inconclusive, Broken, Inconclusive],
            "{text}: 2.5 % of doubt about each of the two is more than 5 % about both"
        );
        // Absolute lines are not asked of resamples, and correct nothing.
        assert_eq!(outcomes(&[barely, line("ttft mean < 5s")]), [Broken, Pass], "{text}");
    }
}

#[test]
fn relative_lines_without_a_baseline_are_not_judged_and_without_requests_open() {
    let all = requests(100, 0, |_| 0.1);
    for text in ["ttft p50 < 2x baseline", "ttft p50 < 2x baseline for 3s"] {
        assert_eq!(outcome(text, None, &all), NotJudged, "{text}");
        assert_eq!(outcome(text, Some(&all), &[]), Inconclusive, "{text}");
        assert_eq!(outcome(text, Some(&all[..2]), &all), Inconclusive, "{text}");
    }
}

#[test]
fn of_a_baseline_of_nothing_no_factor_allows_anything() {
    let none = requests(100, 0, |_| 0.1);
    // Four of a hundred: Newcombe's lower bound of the difference is 0.6 % at one side and below 0 at two.
    for (text, failed, want) in [
        ("error rate < 2x baseline", 0, Pass),
        ("error rate < 2x baseline", 1, Inconclusive),
        ("error rate < 2x baseline", 4, Broken),
        ("error rate > 2x baseline", 0, Inconclusive),
        ("error rate > 2x baseline", 50, Inconclusive),
        ("truncation rate < 2x baseline", 50, Pass),
    ] {
        let all = requests(100, failed, |_| 0.1);
        assert_eq!(outcome(text, Some(&none), &all), want, "{text}: {failed} failed");
    }
    let mut cut = none.clone();
    cut.iter_mut().take(20).for_each(|request| request.outcome = Outcome::TruncatedClean);
    assert_eq!(outcome("truncation rate < 2x baseline", Some(&none), &cut), Broken);
}

#[test]
fn a_line_with_a_time_is_broken_only_when_it_is_broken_for_as_long() {
    // Slow from 3 s on; the last request ends at 10 s.
    let before = requests(100, 0, |_| 0.1);
    let slow = requests(100, 0, |i| if i < 30 { 0.1 } else { 0.4 });
    for (text, want) in [
        ("ttft mean < 200ms for 4s", Broken),
        ("ttft mean < 500ms for 4s", Pass),
        ("ttft mean > 200ms for 2s", Broken),
        ("ttft mean < 3x baseline for 4s", Broken),
        ("ttft mean < 5x baseline for 4s", Pass),
        ("ttft mean < 200ms for 9s", Pass),
        ("ttft mean < 200ms for 11s", Inconclusive),
    ] {
        assert_eq!(outcome(text, Some(&before), &slow), want, "{text}");
    }
}

#[test]
fn recovery_is_in_time_up_to_the_limit_and_open_where_it_was_watched_for_less() {
    use RecoveryState::{NotRecovered, Recovered, Unknown};
    for (state, within_seconds, watched_seconds, want) in [
        (Recovered, Some(10.0), 30.0, Pass),
        (Recovered, Some(10.5), 30.0, Broken),
        (NotRecovered, None, 10.0, Broken),
        (NotRecovered, None, 9.5, Inconclusive),
        (Unknown, None, 30.0, Inconclusive),
    ] {
        let recovery =
            Recovery { state, within_seconds, watched_seconds, window_seconds: 0.5, note: String::new() };
        let evidence = Evidence { judged: None, baseline: None, recovery: Some(&recovery) };
        let result = judge(&[line("recovers within 10s")], &evidence).remove(0);
        assert_eq!(result.outcome, want, "{state:?} within {within_seconds:?}");
        assert!(close(result.bound, 10.0) && result.measured == within_seconds);
    }
}
