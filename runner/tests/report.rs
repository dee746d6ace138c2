//! Reports of made-up runs: the numbers that must come out, and that something sensible comes out of anything.

mod common;

use brownout_injector::journal::What;
use brownout_runner::compare::compare;
use brownout_runner::record::{ClientHealth, Outcome, Phase, Recording};
use brownout_runner::report::{
    Mode, Report, files, html, junit, markdown, picture, read_report, render_again, text, write_all,
};
use brownout_runner::sla::{AbortGuard, LineOutcome};
use brownout_runner::summary::Unit;
use brownout_runner::summary::degradation::Finding;
use brownout_runner::summary::recovery::RecoveryState;
use brownout_runner::verdict::{VerdictKind, cut_short_by_guard};
use common::{Run, complete_request, failed_request, meta, scenario, story};
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
    let slow = &report.faults[0];
    assert!(slow.odd.is_empty() && slow.fired > 200, "{slow:?}");
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

/// Whatever was recorded, a report comes out: in all forms, with no NaN, and the same when it is made again.
fn comes_out(name: &str, run: &Run) -> Report {
    let report = run.report();
    let json = files::to_json(&report);
    let value: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert!(!json.contains("NaN") && value.get("verdict").is_some());
    let markdown = markdown::render(&report);
    let junit = junit::render(&report);
    let (page, picture) = (html::render(&report), picture::render(&report));
    for text in [&markdown, &junit, &page, &picture] {
        assert!(!text.contains("NaN") && !text.contains(" inf"), "{name}: {text}");
    }
    let folder = Folder::new(name);
    write_all(&folder.0, &report, &run.recording, &run.journal).expect("the folder can be written");
    let files = || {
        let mut files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(&folder.0)
            .expect("it is there")
            .map(|entry| entry.expect("it can be listed").path())
            .map(|path| (path.clone(), std::fs::read(&path).expect("it can be read")))
            .collect();
        files.sort();
        files
    };
    let before = files();
    render_again(&folder.0).expect("what was written can be read");
    let after = files();
    assert_eq!(before.len(), after.len());
    for ((path, old), (_, new)) in before.iter().zip(&after) {
        assert!(old == new, "{name}: {} came out differently", path.display());
    }
    assert_eq!(files::to_json(&read_report(&folder.0).expect("it can be read")), json);
    report
}

#[test]
fn a_report_is_written_and_made_again_the_same() {
    let report = comes_out("story", &story(1.0));
    assert_eq!(report.report_version, 1);
}

#[test]
fn every_edge_gives_a_report() {
    let edge = |name: &str, change: &dyn Fn(&mut Run)| {
        let mut run = story(1.0);
        change(&mut run);
        comes_out(name, &run).verdict.kind
    };
    let refuse = |run: &mut Run, from: Phase| {
        for request in run.recording.requests.iter_mut().filter(|r| r.phase >= from) {
            *request = failed_request(request.number, request.phase, request.scheduled, Outcome::Refused);
        }
    };
    assert_eq!(edge("nothing", &|run| run.recording = Recording::default()), VerdictKind::Invalid);
    assert_eq!(edge("no-requests", &|run| run.recording.requests.clear()), VerdictKind::Invalid);
    assert_eq!(edge("all-failed", &|run| refuse(run, Phase::Warmup)), VerdictKind::Invalid);
    assert_eq!(edge("down-in-fault", &|run| refuse(run, Phase::Fault)), VerdictKind::Broken);
    // One request in 40 s is no five a second, for certain.
    assert_eq!(
        edge("one-request", &|run| run.recording.requests.retain(|r| r.number == 600)),
        VerdictKind::Broken
    );
    assert_eq!(edge("no-journal", &|run| run.journal.clear()), VerdictKind::Inconclusive);
    assert_eq!(edge("no-counts", &|run| run.counts.clear()), VerdictKind::Broken);
    let mut dead = story(1.0);
    refuse(&mut dead, Phase::Warmup);
    let recovery = dead.report().recovery.expect("there were faults");
    assert_eq!((recovery.state, recovery.within_seconds), (RecoveryState::Unknown, None));
    let cut = edge("cut", &|run| {
        run.recording.requests.retain(|r| r.scheduled < 50.0);
        run.recording.phases.truncate(3);
        run.recording.phases[2].2 = 50.0;
        run.recording.cut_short = Some("interrupted".to_owned());
        for request in run.recording.requests.iter_mut().filter(|r| r.ended > 50.0) {
            request.outcome = Outcome::RunEnded;
            request.ended = 50.0;
        }
    });
    assert!(matches!(cut, VerdictKind::Broken | VerdictKind::Inconclusive), "{cut:?}");
    let unstreamed = edge("unstreamed", &|run| {
        for request in &mut run.recording.requests {
            (request.ttft, request.ttfo, request.chunks) = (None, None, 0);
            request.gaps.clear();
        }
    });
    assert!(matches!(unstreamed, VerdictKind::Inconclusive | VerdictKind::Broken), "{unstreamed:?}");
    edge("one-token", &|run| {
        for request in &mut run.recording.requests {
            request.gaps.clear();
            (request.chunks, request.output_tokens) = (1, 1);
        }
    });
    edge("no-lines", &|run| run.scenario.spec.sla.clear());
    edge("no-phases", &|run| run.recording.phases.clear());
    edge("bad-line", &|run| run.scenario.spec.sla.push("ttft is fine".to_owned()));
    edge("strange-numbers", &|run| {
        run.recording.client =
            ClientHealth { cpu: f64::NAN, send_lag_p99: f64::INFINITY, ..ClientHealth::default() };
    });
}

#[test]
fn what_is_no_number_never_reaches_a_report() {
    let mut run = story(1.0);
    run.recording.requests[500].ttft = Some(f64::NAN);
    run.recording.requests[501].gaps[3] = f32::INFINITY;
    run.recording.requests[502].last_token = Some(f64::NEG_INFINITY);
    let report = run.report();
    for text in
        [files::to_json(&report), markdown::render(&report), junit::render(&report), html::render(&report)]
    {
        assert!(!text.contains("NaN") && !text.contains(" inf"));
    }
}

#[test]
fn another_version_is_refused() {
    let folder = Folder::new("version");
    let run = story(0.0);
    write_all(&folder.0, &run.report(), &run.recording, &run.journal).expect("it can be written");
    let path = folder.0.join("report.json");
    let text = std::fs::read_to_string(&path).expect("it is there");
    std::fs::write(&path, text.replace("\"reportVersion\": 1", "\"reportVersion\": 99"))
        .expect("it can be written");
    let error = read_report(&folder.0).expect_err("it is of another version").to_string();
    assert!(error.contains("version 99"), "{error}");
}

#[test]
fn records_that_were_lost_are_missed_and_a_strange_folder_is_named() {
    let folder = Folder::new("lost");
    let run = story(0.0);
    write_all(&folder.0, &run.report(), &run.recording, &run.journal).expect("it can be written");
    let all = run.recording.requests.len();
    for file in [files::JOURNAL, files::REQUESTS] {
        let path = folder.0.join(file);
        let text = std::fs::read_to_string(&path).expect("it is there");
        let lines = text.lines().count();
        let short: String = text.split_inclusive('\n').take(lines - 1).collect();
        std::fs::write(&path, short).expect("it can be written");
        let error = render_again(&folder.0).expect_err("a line is missing").to_string();
        let (expected, found) = (format!("made of {lines} lines"), format!("has {}", lines - 1));
        assert!(error.contains(file) && error.contains(&expected) && error.ends_with(&found), "{error}");
        if file == files::REQUESTS {
            assert_eq!(lines, all);
            assert_eq!(compare(&folder.0, &folder.0).expect_err("a line is missing").to_string(), error);
        }
        std::fs::write(&path, text).expect("it can be written");
    }
    render_again(&folder.0).expect("it is whole again");
    let nowhere = folder.0.join("nowhere");
    for error in [render_again(&nowhere).err(), compare(&folder.0, &nowhere).err()] {
        let error = error.expect("there is no run");
        assert!(std::error::Error::source(&error).is_none(), "it would be said twice");
        let wanted = format!("{} is not a run's folder: it has no report.json", nowhere.display());
        assert_eq!(error.to_string(), wanted);
    }
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
    assert_eq!(report.verdict.kind, VerdictKind::Pass, "{:#?}", report.verdict);
    assert!(report.detection.is_none() && report.faults.is_empty());
}

#[test]
fn two_runs_are_compared_phase_by_phase() {
    let (calm, harmed) = (Folder::new("calm"), Folder::new("harmed"));
    for (folder, run) in [(&calm, story(0.0)), (&harmed, story(1.0))] {
        write_all(&folder.0, &run.report(), &run.recording, &run.journal).expect("it can be written");
    }
    let comparison = compare(&calm.0, &harmed.0).expect("both can be read");
    let finding = |phase: &str, metric: &str| {
        let phase = comparison.phases.iter().find(|p| p.phase == phase).expect("both have it");
        phase.changes.iter().find(|change| change.metric == metric).expect("is in the table").finding
    };
    assert_eq!(finding("baseline", "itl p95"), Finding::Same);
    assert_eq!(finding("fault", "itl p95"), Finding::Worse);
    let same = compare(&calm.0, &calm.0).expect("it can be read");
    assert!(same.phases.iter().flat_map(|p| &p.changes).all(|change| change.finding != Finding::Worse));
    let (text, md) = (comparison.to_text(), comparison.to_markdown());
    assert!(text.contains("\nfault\n") && md.contains("## fault") && md.contains("| itl p95 |"), "{text}");
    assert!(compare(&calm.0, &calm.0.join("nowhere")).is_err());
}
