//! When a request is good.

use crate::{late, line, ok, phase, steady};
use brownout_runner::record::{Outcome, Phase, RequestRecord};
use brownout_runner::summary::good::GoodRule;

const BASELINE: Phase = Phase::Baseline;

fn rule(text: &str) -> GoodRule {
    GoodRule::of_lines(&[line(text)], None)
}

fn request(ttft: f64) -> RequestRecord {
    ok(1, Phase::Fault, 1.0, ttft)
}

#[test]
fn a_good_request_is_complete_and_within_each_line_from_its_scheduled_send() {
    let quick = rule("ttft p95 < 200ms");
    assert!(quick.is_good(&request(0.1)) && !quick.is_good(&request(0.3)));
    assert!(!quick.is_good(&RequestRecord { outcome: Outcome::TruncatedClean, ..request(0.1) }));
    // Sent 200 ms late, it had its first token after 300 ms and its last after 380 ms.
    let late = late(1, Phase::Fault, 1.0, 0.1, 0.2);
    for (text, good) in [
        ("ttft max < 290ms", false),
        ("ttft max < 310ms", true),
        ("ttfo max < 290ms", false),
        ("ttfo max < 310ms", true),
        ("e2e max < 370ms", false),
        ("e2e max < 390ms", true),
        ("tpot max < 19ms", false),
        ("tpot max < 21ms", true),
    ] {
        assert_eq!(rule(text).is_good(&late), good, "{text}");
    }
}

#[test]
fn a_line_on_gaps_holds_for_the_statistic_of_each_requests_own() {
    let mut uneven = request(0.1);
    uneven.gaps = [vec![0.01; 18], vec![0.07, 0.09]].concat();
    for (text, good) in [
        ("itl p90 < 20ms", true),
        ("itl p95 < 50ms", false),
        ("itl p95 < 80ms", true),
        ("itl p99 < 80ms", false),
        ("itl max < 80ms", false),
        ("itl max < 100ms", true),
    ] {
        assert_eq!(rule(text).is_good(&uneven), good, "{text}");
    }
    // One token has no gaps, and so none that is too long.
    let one = RequestRecord { gaps: Vec::new(), chunks: 1, output_tokens: 1, ..request(0.1) };
    assert!(rule("itl max < 50ms").is_good(&one) && rule("tpot max < 1us").is_good(&one));
}

#[test]
fn relative_lines_bound_by_what_the_baseline_had() {
    let all = steady(0.0, 10.0, |i, at| ok(i, BASELINE, at, 0.1));
    let baseline = phase(BASELINE, (0.0, 10.0), &all);
    let rule = GoodRule::of_lines(&[line("ttft p95 < 3x baseline")], Some(&baseline));
    assert!(rule.is_good(&request(0.29)) && !rule.is_good(&request(0.31)));
    assert!(GoodRule::of_lines(&[line("ttft p95 < 3x baseline")], None).is_empty());
    // Without any line: twice the baseline's p95.
    let like = GoodRule::like(&baseline);
    assert!(like.is_good(&request(0.19)) && !like.is_good(&request(0.21)));
    let slow = RequestRecord { last_token: Some(0.1 + 4.0 * 0.05), ..request(0.1) };
    assert!(!like.is_good(&slow), "50 ms a token where 20 were usual");
}
