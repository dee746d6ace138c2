//! What is worth a word of two phases.

use crate::{error, ok, phase};
use brownout_runner::record::{Phase, RequestRecord};
use brownout_runner::summary::degradation::{Change, Finding, changes};

fn change(metric: &str, before: &[RequestRecord], after: &[RequestRecord]) -> Change {
    let span = (0.0, 10.0);
    let changes = changes(&phase(Phase::Fault, span, before), &phase(Phase::Fault, span, after));
    changes.into_iter().find(|change| change.metric == metric).expect("is in the table")
}

fn with_ttft(ttft: impl Fn(u64) -> f64) -> Vec<RequestRecord> {
    (0..60).map(|i| ok(i, Phase::Fault, i as f64 / 6.0, ttft(i))).collect()
}

fn with_errors(n: u64, failed: u64) -> Vec<RequestRecord> {
    let make = |i| match i < failed {
        true => error(i, Phase::Fault, 10.0 * i as f64 / n as f64),
        false => ok(i, Phase::Fault, 10.0 * i as f64 / n as f64, 0.1),
    };
    (0..n).map(make).collect()
}

#[test]
fn a_change_must_matter() {
    for (ttft, finding) in
        [(0.104, Finding::Same), (0.106, Finding::Worse), (0.096, Finding::Same), (0.094, Finding::Better)]
    {
        let change = change("ttft mean", &with_ttft(|_| 0.1), &with_ttft(|_| ttft));
        assert_eq!(change.finding, finding, "{change:?}");
    }
    // Half a point of share, however sure.
    for (failed, finding) in [(32, Finding::Same), (48, Finding::Worse)] {
        let change = change("error rate", &with_errors(8000, 0), &with_errors(8000, failed));
        assert_eq!(change.finding, finding, "{change:?}");
    }
}

#[test]
fn a_change_must_be_beyond_doubt_with_all_rows_asked_at_once() {
    // 2 and 8 of 100: 5.2 % of doubt. 1 and 9: 0.9 %, which is little for one row and much for twenty.
    for (before, after, finding) in
        [(2, 8, Finding::Same), (1, 9, Finding::Same), (0, 20, Finding::Worse), (20, 0, Finding::Better)]
    {
        let change = change("error rate", &with_errors(100, before), &with_errors(100, after));
        assert_eq!(change.finding, finding, "{change:?}");
        // The interval of the difference, not of the difference the other way round.
        let difference = change.difference.expect("both are known");
        assert!(change.difference_interval.expect("both are known").contains(difference), "{change:?}");
    }
    let few: Vec<RequestRecord> = with_ttft(|_| 0.2).into_iter().take(10).collect();
    let unknown = change("ttft p95", &with_ttft(|_| 0.1), &few);
    assert_eq!((unknown.finding, unknown.difference), (Finding::Unknown, None), "{unknown:?}");
}
