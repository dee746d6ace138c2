//! Reports of made-up runs: the numbers that must come out, and that something sensible comes out of anything.

#[path = "../common/mod.rs"]
mod common;
mod files_of_a_run;

use brownout_injector::journal::What;
use brownout_runner::compare::compare;
use brownout_runner::record::{Outcome, Phase};
use brownout_runner::report::{Mode, Report, html, markdown, picture, text, write_all};
use brownout_runner::sla::{AbortGuard, LineOutcome};
use brownout_runner::summary::Unit;
use brownout_runner::summary::degradation::Finding;
use brownout_runner::summary::recovery::RecoveryState;
use brownout_runner::verdict::{VerdictKind, cut_short_by_guard};
use common::{complete_request, failed_request, meta, scenario, story};
use std::path::PathBuf;

/// A fresh directory that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("brownout-report-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn outcome(report: &Report, line: &str) -> LineOutcome {
    report.sla.iter().find(|result| result.line == line).unwrap_or_else(|| panic!("no line {line}")).outcome
}

#[test]
fn a_harmful_story_is_broken_where_it_hurts() {
    let report = story(1.0).report();
    assert_eq!(report.verdict.kind, VerdictKind::Broken, "{:#?}", report.verdict);
    assert_eq!(outcome(&report, "itl p99 < 3x baseline"), LineOutcome::Broken);
    assert_eq!(outcome(&report, "recovers within 10s"), LineOutcome::Pass);
    let change = |name: &str| report.changes.iter().find(|c| c.metric == name).expect("is in the table");
    for worse in ["ttft p50", "itl p99", "e2e p95", "stall rate", "goodput"] {
        assert_eq!(change(worse).finding, Finding::Worse, "{:?}", change(worse));
    }
    let (first, output) = (change("ttft p50"), change("ttfo p50"));
    assert_eq!(first.ratio_interval, output.ratio_interval, "nobody reasons here, so both are the same");
    let slow = &report.faults[0];
    assert!(slow.odd.is_empty() && slow.fired > 200, "{slow:?}");
    let fewer = "did something to fewer requests than it chose";
    assert!(slow.chosen > Some(slow.fired) && markdown::render(&report).contains(fewer), "{slow:?}");
    assert!(html::render(&report).contains(fewer));
    let delay = slow.delay.as_ref().expect("it holds tokens");
    assert!(delay.error_max_ms <= 0.4001 && delay.given_mean_ms > delay.asked_mean_ms);
    let detection = report.detection.as_ref().expect("there were faults");
    assert!(detection.seconds.is_some_and(|s| s <= 6.0), "{detection:?}");
    let recovery = report.recovery.as_ref().expect("there were faults");
    assert_eq!(recovery.state, RecoveryState::Recovered, "{recovery:?}");
}

#[test]
fn a_harmless_story_passes_with_nothing_found_worse() {
    let mut run = story(0.0);
    run.counts.truncate(1);
    run.scenario.spec.faults.truncate(1);
    let report = run.report();
    assert_eq!(report.verdict.kind, VerdictKind::Pass, "{:#?}", report.verdict);
    assert!(report.changes.iter().all(|change| change.finding != Finding::Worse), "{:#?}", report.changes);
    assert_eq!(report.detection.as_ref().and_then(|d| d.seconds), None);
}

#[test]
fn markdown_shows_lines_and_names_as_they_were_written() {
    let mut run = story(1.0);
    run.scenario.metadata.name = "a<b> | *c*".to_owned();
    let md = markdown::render(&run.report());
    for shown in ["| `ttft p95 < 800ms` | ", "| `slow-decode` | `slowTokens` |", "# a&lt;b> \\| \\*c\\*: "] {
        assert!(md.contains(shown), "no {shown} in {md}");
    }
    let folder = Folder::new("markdown");
    write_all(&folder.0, &run.report(), &run.recording, &run.journal).expect("it can be written");
    let md = compare(&folder.0, &folder.0).expect("it can be read").to_markdown();
    assert!(md.contains("(a&lt;b> \\| \\*c\\*, broken)"), "{md}");
}

#[test]
fn injected_and_organic_errors_are_apart() {
    let report = story(1.0).report();
    let fault = report.phase("fault").expect("there is one");
    let of = |name: &str| fault.outcomes.iter().find(|o| o.outcome == name).expect("it happened");
    assert!(of("http_5xx").injected > 5 && of("http_5xx").organic == 0);
    let baseline = report.phase("baseline").expect("there is one");
    assert!(baseline.outcomes.iter().all(|outcome| outcome.injected == 0));
}

#[test]
fn detection_counts_from_when_faults_could_act_and_not_from_the_end_of_a_hold() {
    let prompt = story(1.0).report();
    let mut run = story(1.0);
    for entry in &mut run.journal {
        if let What::Fired(fired) = &mut entry.what {
            (entry.at, fired.given_ms) = (entry.at + 20.0, fired.given_ms + 20_000.0);
        }
    }
    let late = run.report();
    assert_eq!(late.detection, prompt.detection);
    let first = late.faults[0].first_fired_at.expect("it fired");
    assert!((45.0..47.0).contains(&first), "{first}");
    // A fault that begins 30 s after it was armed is detected from there.
    run.scenario.spec.faults.iter_mut().for_each(|fault| {
        fault.when.after = Some("30s".parse().expect("is a time"));
        fault.when.r#for = None;
    });
    let windows = &run.report().fault_windows;
    assert!(windows.iter().all(|window| (window.from - 75.0).abs() < 1e-9), "{windows:?}");
    run.recording.phases[2].2 = 75.5;
    run.recording.requests.retain(|request| request.scheduled < 75.5);
    let short = run.report().detection.expect("there were faults");
    assert!(!short.watched && short.note.contains("less than 2 windows"), "{short:?}");
}

#[test]
fn differences_of_shares_are_in_points_in_every_form() {
    let mut run = story(1.0);
    for request in run.recording.requests.iter_mut().filter(|r| r.outcome != Outcome::Ok) {
        *request = complete_request(request.number, request.phase, request.scheduled, 0.1, vec![0.02; 47]);
    }
    for request in run.recording.requests.iter_mut().filter(|r| r.phase == Phase::Fault && r.number % 2 == 0)
    {
        *request = failed_request(request.number, request.phase, request.scheduled, Outcome::Http5xx);
    }
    let report = run.report();
    let change = report.changes.iter().find(|c| c.metric == "error rate").expect("is in the table");
    let points = text::difference(change.difference.expect("both are known"), Unit::Share);
    assert!(points.starts_with('+') && points.ends_with(" points"), "{points}");
    let (calm, harmed) = (Folder::new("no-points"), Folder::new("points"));
    let quiet = story(0.0);
    write_all(&calm.0, &quiet.report(), &quiet.recording, &quiet.journal).expect("it can be written");
    write_all(&harmed.0, &report, &run.recording, &run.journal).expect("it can be written");
    for text in [markdown::render(&report), html::render(&report), picture::render(&report)] {
        assert!(text.contains(&points), "no {points} in {text}");
    }
    let compared = compare(&calm.0, &harmed.0).expect("both can be read");
    for text in [compared.to_text(), compared.to_markdown()] {
        assert!(text.lines().any(|l| l.contains("error rate") && l.contains(" points")), "{text}");
    }
}

#[test]
fn what_was_over_in_the_first_window_is_given_as_at_most_that() {
    let mut run = story(0.0);
    run.counts.truncate(1);
    run.scenario.spec.faults.truncate(1);
    let report = run.report();
    let recovery = report.recovery.as_ref().expect("there were faults");
    let short = format!("≤ {}", text::seconds(recovery.window_seconds));
    assert_eq!(recovery.in_short().as_ref(), Some(&short));
    for text in [markdown::render(&report), html::render(&report), picture::render(&report)] {
        assert!(text.contains(&short), "no {short} in {text}");
    }
}

#[test]
fn rates_have_no_bound_below_nothing() {
    let mut run = story(0.0);
    run.recording.requests.retain(|r| r.phase != Phase::Fault || r.scheduled < 48.0);
    let report = run.report();
    for rate in [report.phases[1].request_rate, report.phases[1].goodput, report.phases[1].throughput] {
        let interval = rate.interval.expect("there are bins enough");
        assert_eq!(interval.low, Some(0.0), "{interval:?}");
    }
}

#[test]
fn cut_requests_count_for_availability_and_never_for_gaps() {
    let mut run = story(1.0);
    let gaps_before = run.report().phase("fault").expect("there is one").latencies["itl"].n;
    let mut cut = 0;
    for request in
        run.recording.requests.iter_mut().filter(|r| r.phase == Phase::Fault && r.outcome == Outcome::Ok)
    {
        if cut < 10 {
            request.outcome = Outcome::TruncatedClean;
            cut += 1;
        }
    }
    let report = run.report();
    let fault = report.phase("fault").expect("there is one");
    assert_eq!(fault.latencies["itl"].n, gaps_before - 10 * 47);
    assert!(fault.truncation_rate.value > Some(0.0));
}

#[test]
fn a_fault_that_never_fired_proves_nothing() {
    let mut run = story(0.0);
    run.journal.retain(|entry| !matches!(&entry.what, What::Fired(fired) if fired.fault == "slow-decode"));
    let verdict = run.report().verdict;
    assert_eq!((verdict.kind, verdict.exit_code), (VerdictKind::Inconclusive, 3));
    assert!(
        verdict.reasons.iter().any(|reason| reason.starts_with("fault `slow-decode` proves nothing")
            && reason.contains("never fired")),
        "{verdict:?}"
    );
}

#[test]
fn a_baseline_that_breaks_the_line_is_said_so() {
    let mut run = story(1.0);
    run.scenario.spec.sla = vec!["ttft p95 < 20ms".to_owned()];
    let report = run.report();
    assert_eq!(report.verdict.kind, VerdictKind::Inconclusive);
    assert!(report.sla[0].reason.contains("baseline already breaks"), "{}", report.sla[0].reason);
}

/// A closed loop with a number of requests can spend them all before anything is measured.
#[test]
fn a_warm_up_that_took_all_requests_is_said_so() {
    let mut run = story(1.0);
    run.recording.requests.retain(|request| request.phase == Phase::Warmup);
    let sent = run.recording.requests.len();
    let verdict = run.report().verdict;
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    assert!(sent > 0 && verdict.reasons[0].contains(&format!("took all {sent} of them")), "{verdict:?}");
    run.recording.requests.clear();
    assert_eq!(run.report().verdict.reasons, ["no request was sent"]);
}

/// A wrong model, a wrong key: what the server says of it must not have to be looked for.
#[test]
fn what_failed_requests_were_told_stands_in_every_report() {
    let mut run = story(0.0);
    for (i, request) in run.recording.requests.iter_mut().enumerate() {
        request.outcome = Outcome::Http4xx;
        let why = if i % 3 == 0 { "try <later>" } else { "The model `nine` does not exist. <b>" };
        request.error = Some(why.to_owned());
    }
    let report = run.report();
    assert_eq!(report.verdict.kind, VerdictKind::Invalid);
    assert!(report.verdict.reasons[0].contains("The model `nine` does not exist"), "{:?}", report.verdict);
    let page = html::render(&report);
    assert!(page.contains("The model `nine` does not exist. &lt;b&gt;") && !page.contains("try &lt;later"));
    // In the verdict and in the table, where it stands as code.
    assert_eq!(markdown::render(&report).matches("does not exist. ").count(), 1 + report.phases.len());
}

/// A gate from which somebody deleted the faults must not turn green.
#[test]
fn a_run_without_faults_proves_nothing() {
    let mut run = story(0.0);
    run.scenario.spec.faults.clear();
    let verdict = run.report().verdict;
    assert_eq!((verdict.kind, verdict.exit_code), (VerdictKind::Inconclusive, 3), "{verdict:?}");
    assert!(verdict.reasons[0].contains("no faults"), "{verdict:?}");
}

#[test]
fn a_guard_that_fires_before_anything_was_armed_blames_no_fault() {
    let mut run = story(1.0);
    run.recording.cut_short = Some(cut_short_by_guard("error rate > 50% for 10s"));
    assert_eq!(run.report().verdict.kind, VerdictKind::Aborted);
    run.journal.retain(|entry| !matches!(entry.what, What::Armed { .. }));
    let verdict = run.report().verdict;
    assert_eq!((verdict.kind, verdict.exit_code), (VerdictKind::Invalid, 2), "{verdict:?}");
    assert!(
        verdict.headline.contains("before any fault was armed") && verdict.reasons[0].contains("error rate")
    );
}

#[test]
fn a_run_that_ends_before_its_faults_says_so_once() {
    let mut run = story(0.0);
    run.recording.cut_short = Some("interrupted".to_owned());
    run.journal.retain(|entry| !matches!(entry.what, What::Armed { .. } | What::Fired(_)));
    let verdict = run.report().verdict;
    assert_eq!(verdict.kind, VerdictKind::Inconclusive, "{verdict:?}");
    assert_eq!(
        verdict.reasons[..2],
        ["the run was cut short: interrupted", "it ended before any fault was armed"]
    );
    assert!(!verdict.reasons.iter().any(|reason| reason.contains("proves nothing")), "{verdict:?}");
}

#[test]
fn lines_that_were_not_judged_are_no_lines_that_hold() {
    let mut run = story(0.0);
    run.meta.mode = Mode::Load;
    run.scenario.spec.sla = ["ttft p95 < 5s", "recovers within 10s"].map(str::to_owned).into();
    let verdict = run.report().verdict;
    assert_eq!(
        (verdict.kind, verdict.headline.as_str()),
        (VerdictKind::Pass, "1 SLA line held, 1 not judged")
    );
    assert!(verdict.reasons[1].starts_with("not judged: recovers within 10s: "), "{verdict:?}");
}

/// What fails at once is over when a run is stopped, and what goes well is still on its way.
#[test]
fn a_run_that_is_stopped_breaks_no_line_by_that_alone() {
    for (failed, expected) in [(10, LineOutcome::Inconclusive), (200, LineOutcome::Broken)] {
        let mut run = story(0.0);
        run.scenario.spec.sla = vec!["error rate < 20%".to_owned()];
        run.recording.cut_short = Some("interrupted".to_owned());
        let fault = run.recording.requests.iter_mut().filter(|request| request.phase == Phase::Fault);
        for (i, request) in fault.enumerate() {
            request.outcome = match i {
                i if i < failed => Outcome::ResetMidstream,
                i if i < 250 => Outcome::RunEnded,
                _ => Outcome::ClientCancelled,
            };
        }
        let report = run.report();
        assert_eq!(outcome(&report, "error rate < 20%"), expected, "{:?}", report.sla);
        let said = report.sla[0].reason.contains("the end of the run cut 240 requests off");
        assert_eq!(said, expected == LineOutcome::Inconclusive, "{:?}", report.sla);
    }
}

/// Behind a hold all tokens come in one read: none is lost by that, and it is no better service.
#[test]
fn tokens_that_come_in_bursts_are_counted_and_said_so() {
    let mut run = story(0.0);
    run.scenario.spec.sla.push("tpot p95 < 5s".to_owned());
    let even = run.report();
    for request in run.recording.requests.iter_mut().filter(|request| request.phase == Phase::Fault) {
        if let (Some(_), Some(last)) = (request.ttft, request.last_token) {
            request.ttft = Some(last);
            request.coalesced = request.gaps.len() as u32;
            request.gaps.fill(0.0);
        }
    }
    let burst = run.report();
    let throughput = |report: &Report| {
        let phase = report.phases.iter().find(|phase| phase.phase == "fault").expect("there is one");
        phase.throughput.value.expect("tokens came")
    };
    let ratio = throughput(&burst) / throughput(&even);
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
    let tokens = |report: &Report| report.timeline.bins.iter().map(|bin| bin.tokens).sum::<f64>();
    assert!((tokens(&burst) / tokens(&even) - 1.0).abs() < 0.02);
    let change = |report: &Report, metric: &str| {
        report.changes.iter().find(|change| change.metric == metric).expect("is in the table").clone()
    };
    let per_token = change(&burst, "tpot mean");
    assert_eq!((per_token.finding, per_token.bursts), (Finding::Better, true), "{per_token:?}");
    assert!(!change(&burst, "ttft p95").bursts && !change(&even, "tpot mean").bursts);
    let line = |report: &Report| report.sla.iter().find(|line| line.line.starts_with("tpot")).cloned();
    let (line, before) = (line(&burst).expect("is a line"), line(&even).expect("is a line"));
    assert!(line.bursts && line.reason.contains("came in bursts") && !before.bursts, "{line:?}");
    let (md, page) = (markdown::render(&burst), html::render(&burst));
    assert!(md.contains("| pass, tokens in bursts |") && md.contains("| better, tokens in bursts |"), "{md}");
    assert!(!page.contains("finding better") && page.contains("better, tokens in bursts"));
    for (report, said) in [(&even, false), (&burst, true)] {
        assert_eq!(markdown::render(report).contains("Tokens came in bursts (fault: 97.9"), said);
        assert_eq!(html::render(report).contains("Tokens came in bursts"), said);
    }
}

#[test]
fn too_few_samples_are_no_pass_but_may_be_a_break() {
    let mut run = story(1.0);
    run.scenario.spec.sla =
        vec!["ttft p99.9 < 10s".to_owned(), "itl p99.9 < 1ms".to_owned(), "ttft p99.9 < 1s".to_owned()];
    let baseline_spared = |line: &str| line.contains("10s");
    let report = run.report();
    assert!(baseline_spared(&report.sla[0].line) && report.sla[0].outcome == LineOutcome::Inconclusive);
    assert!(report.sla[0].reason.contains("2,995"), "{}", report.sla[0].reason);
    assert_eq!(report.sla[0].measured, None);
}

#[test]
fn a_guard_aborts_and_an_interrupt_leaves_it_open() {
    let mut run = story(0.0);
    run.recording.cut_short = Some(cut_short_by_guard("error rate > 50% for 10s"));
    assert_eq!(run.report().verdict.exit_code, 4);
    run.recording.cut_short = Some("interrupted".to_owned());
    run.recording.requests.retain(|request| request.phase < Phase::Fault);
    run.recording.phases.truncate(2);
    assert_eq!(run.report().verdict.kind, VerdictKind::Inconclusive);
}

#[test]
fn a_line_that_must_break_for_a_while_does_so_only_then() {
    let mut run = story(1.0);
    run.scenario.spec.sla = vec!["ttft p50 < 200ms for 10s".to_owned(), "ttft p50 < 2s for 10s".to_owned()];
    let report = run.report();
    assert_eq!(
        [report.sla[0].outcome, report.sla[1].outcome],
        [LineOutcome::Broken, LineOutcome::Pass],
        "{:#?}",
        report.sla
    );
}

#[test]
fn a_run_of_load_alone_is_judged_on_absolute_lines() {
    let mut run = story(0.0);
    run.meta = meta(Mode::Load);
    run.journal.clear();
    run.counts.clear();
    let report = run.report();
    assert_eq!(report.verdict.kind, VerdictKind::Pass, "{:#?}", report.verdict);
    assert_eq!(outcome(&report, "itl p99 < 3x baseline"), LineOutcome::NotJudged);
    assert_eq!(outcome(&report, "recovers within 10s"), LineOutcome::NotJudged);
    assert_eq!(outcome(&report, "error rate < 5%"), LineOutcome::Pass);
    assert_eq!(report.good_request, "complete, ttft < 800 ms", "without a baseline its line bounds nothing");
    // What is measured has one name, in every form and picture.
    assert_eq!(report.phases.iter().map(|p| p.phase.as_str()).collect::<Vec<_>>(), ["load"]);
    assert_eq!(report.shown_phases(), [("warmup", 0.0, 5.0), ("load", 5.0, 110.0)]);
    for text in [markdown::render(&report), html::render(&report), picture::render(&report)] {
        assert!(text.contains("load") && !text.contains(">fault<") && !text.contains(">recovery<"), "{text}");
        assert!(!text.contains("| baseline") && !text.contains(">baseline<"), "{text}");
    }
}

#[test]
fn a_guard_fires_after_its_time_and_not_before() {
    let lines = [brownout_injector::sla::parse("error rate > 50% for 10s").expect("is a line")];
    let mut guard = AbortGuard::new(&lines);
    let mut fired = None;
    for second in 0..60_u64 {
        for i in 0..5 {
            let outcome = if second < 20 { Outcome::Ok } else { Outcome::Http5xx };
            guard.observe(&failed_request(second * 5 + i, Phase::Fault, second as f64, outcome));
        }
        if let Some(reason) = guard.check(second as f64 + 0.1) {
            fired = Some((second, reason));
            break;
        }
    }
    let (second, reason) = fired.expect("half of all requests failed for long");
    assert!((30..=34).contains(&second), "fired at {second}");
    assert!(reason.contains("error rate"), "{reason}");
}

#[test]
fn a_relative_guard_learns_the_baseline() {
    let lines = [brownout_injector::sla::parse("ttft p50 > 3x baseline for 2s").expect("is a line")];
    let mut guard = AbortGuard::new(&lines);
    for i in 0..200_u64 {
        let at = i as f64 * 0.1;
        let (phase, ttft) = if i < 100 { (Phase::Baseline, 0.1) } else { (Phase::Fault, 0.5) };
        let request = complete_request(i, phase, at, ttft, vec![0.01]);
        guard.observe(&request);
        if guard.check(request.ended).is_some() {
            assert!(i > 115, "fired at {i}");
            return;
        }
    }
    panic!("it never fired");
}

#[test]
fn a_scenario_without_faults_is_judged_without_proof_of_them() {
    let mut run = story(0.0);
    run.scenario = scenario(
        "apiVersion: brownout.dev/v1alpha1
kind: Scenario
metadata: {name: nothing}
spec:
  phases: {baseline: 40s, fault: 40s}
  load: {arrival: {poisson: {rate: 12}}, prompt: {tokens: {constant: 8}}}
  sla: ['itl p99 < 2x baseline']
",
    );
    run.journal.clear();
    run.counts.clear();
    let report = run.report();
    assert_eq!(outcome(&report, "itl p99 < 2x baseline"), LineOutcome::Pass);
    assert_eq!(report.verdict.kind, VerdictKind::Inconclusive, "{:#?}", report.verdict);
    assert!(report.detection.is_none() && report.faults.is_empty());
}
