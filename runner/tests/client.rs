//! What a client that was not fit to measure spoils, and what it does not.

mod common;

use brownout_runner::record::{ClientHealth, Outcome, Phase};
use brownout_runner::report::Report;
use brownout_runner::sla::LineOutcome;
use brownout_runner::verdict::VerdictKind;
use common::story;

#[test]
fn a_saturated_client_proves_nothing() {
    let mut run = story(1.0);
    run.recording.client = ClientHealth { cpu: 0.99, ..run.recording.client };
    assert_eq!(run.report().verdict.kind, VerdictKind::Inconclusive);
}

#[test]
fn a_client_that_did_not_make_all_requests_proves_nothing() {
    let with_unmade = |share: f64| {
        let mut run = story(1.0);
        let count = (run.recording.requests.len() as f64 * share) as usize;
        for request in run.recording.requests.iter_mut().take(count) {
            request.outcome = Outcome::ClientCancelled;
            request.error = Some("no socket left".to_owned());
        }
        run.report()
    };
    assert!(with_unmade(0.009).client_findings.is_empty(), "a hundredth is bearable");
    let report = with_unmade(0.02);
    assert_eq!(report.verdict.kind, VerdictKind::Inconclusive);
    let told = &report.client_findings[0];
    assert!(told.contains("could not make") && told.ends_with("no socket left"), "{told}");
}

/// The story with every send outside or inside the baseline late by `lag` seconds.
fn late_story(lines: &[&str], late: impl Fn(Phase) -> bool, lag: f64) -> Report {
    let mut run = story(1.0);
    run.scenario.spec.sla = lines.iter().map(|line| (*line).to_owned()).collect();
    for request in run.recording.requests.iter_mut().filter(|r| late(r.phase)) {
        request.sent += lag;
        request.ended += lag;
    }
    run.recording.client.send_lag_p99 = lag;
    run.report()
}

#[test]
fn a_late_client_spoils_only_what_its_lateness_decides() {
    // With faults, TTFT p95 is some 680 ms by the server and 780 ms with the lateness.
    let lines = ["ttft p95 < 720ms", "ttft p95 < 500ms", "ttft p95 < 900ms", "itl p99 < 3x baseline"];
    let report = late_story(&lines, |phase| phase == Phase::Fault, 0.1);
    let outcomes: Vec<LineOutcome> = report.sla.iter().map(|line| line.outcome).collect();
    use LineOutcome::{Broken, Inconclusive, Pass};
    assert_eq!(outcomes, [Inconclusive, Broken, Pass, Broken], "{:#?}", report.sla);
    assert!(report.sla[0].reason.contains("the client was late"), "{}", report.sla[0].reason);
    assert_eq!(report.verdict.exit_code, 1);
    let note = "note: 1 % of requests were sent more than 100 ms late";
    assert!(report.verdict.reasons.iter().any(|reason| reason.starts_with(note)), "{:?}", report.verdict);
    assert!(report.client_findings.is_empty() && report.client_lateness.len() == 1);
    // Late in the baseline, the client flatters the faults: 680 ms are 2.9 times 231, and 5.2 times 131.
    let flattered = late_story(&["ttft p95 < 4x baseline"], |phase| phase == Phase::Baseline, 0.1);
    assert_eq!(flattered.sla[0].outcome, Inconclusive, "{:#?}", flattered.sla);
    // Errors are no question of lateness.
    let failing = late_story(&["error rate < 1%"], |_| true, 0.1);
    assert_eq!(failing.verdict.kind, VerdictKind::Broken, "{:#?}", failing.verdict);
}

#[test]
fn a_late_event_loop_spoils_gaps_that_it_could_have_made() {
    let outcome = |line: &str, lag: f64| {
        let mut run = story(1.0);
        run.scenario.spec.sla = vec![line.to_owned()];
        run.recording.client.loop_lag_p99 = lag;
        run.report().sla.remove(0).outcome
    };
    // Gaps go from 26 ms to 343 ms at p99.
    assert_eq!(outcome("itl p99 < 3x baseline", 0.023), LineOutcome::Broken);
    assert_eq!(outcome("itl p99 < 300ms", 0.001), LineOutcome::Broken);
    assert_eq!(outcome("itl p99 < 300ms", 0.1), LineOutcome::Inconclusive);
    assert_eq!(outcome("itl p99 < 500ms", 0.1), LineOutcome::Pass);
    // Time per token goes to 120 ms at p95, over 47 gaps.
    assert_eq!(outcome("tpot p95 < 115ms", 0.03), LineOutcome::Broken);
    assert_eq!(outcome("tpot p95 < 115ms", 0.4), LineOutcome::Inconclusive);
}
