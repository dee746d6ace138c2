//! Whatever was recorded, a report comes out, in all its forms, and is read again.

use super::{Folder, common};
use brownout_injector::journal::What;
use brownout_runner::compare::compare;
use brownout_runner::record::{ClientHealth, Outcome, Phase, Recording, RequestRecord};
use brownout_runner::report::{
    Report, files, html, junit, markdown, picture, read_report, render_again, text, write_all,
};
use brownout_runner::summary::data::PhaseData;
use brownout_runner::summary::degradation::{Finding, changes};
use brownout_runner::summary::effect::RuleCount;
use brownout_runner::summary::recovery::RecoveryState;
use brownout_runner::verdict::VerdictKind;
use common::{Run, failed_request, story};
use std::path::PathBuf;

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

/// A file with very many faults: pages that stay small, and that miss none.
#[test]
fn ten_thousand_faults_make_no_page_of_megabytes() {
    let mut run = story(1.0);
    let [slow, refused] = &run.scenario.spec.faults[..] else { panic!("the story has two faults") };
    let (slow, refused) = (slow.clone(), refused.clone());
    let (armed, count) = (run.journal.clone(), run.counts.clone());
    for i in 0..10_000_u64 {
        let (like, number) = if i % 4 == 0 { (&slow, 0) } else { (&refused, 1) };
        let name = format!("fault-{i}");
        run.scenario
            .spec
            .faults
            .push(brownout_injector::scenario::FaultEntry { name: name.clone(), ..like.clone() });
        run.counts.push(RuleCount { fault: name.clone(), ..count[number].clone() });
        let of_like = |what: &What| matches!(what, What::Armed { fault, .. } if *fault == like.name);
        let mut entry = armed.iter().find(|entry| of_like(&entry.what)).expect("it was armed").clone();
        if let What::Armed { fault, .. } = &mut entry.what {
            *fault = name;
        }
        let at = run.journal.iter().position(|entry| of_like(&entry.what)).expect("it was armed");
        run.journal.insert(at, entry);
    }
    let report = run.report();
    assert_eq!(report.faults.len(), 10_002);
    let (page, md, picture) = (html::render(&report), markdown::render(&report), picture::render(&report));
    for (text, most) in [(&page, 400_000), (&md, 30_000), (&picture, 200_000)] {
        assert!(text.len() < most, "{} bytes", text.len());
    }
    let eligible = |kind: &str| {
        let rest = report.faults[50..].iter().filter(|fault| fault.kind == kind);
        (rest.clone().count() as u64, rest.map(|fault| fault.eligible.expect("it is known")).sum::<u64>())
    };
    for kind in ["slowTokens", "httpError"] {
        let (faults, eligible) = eligible(kind);
        let row = format!("| `{} more` | `{kind}` | {} |", text::count(faults), text::count(eligible));
        assert!(md.contains(&row), "no `{row}` in {md}");
        assert!(page.contains(&format!("{} more", text::count(faults))));
    }
    for said in ["The first 50 of 10,002 faults", "So are 9,950 more faults"] {
        assert!(md.contains(said) && page.contains(said), "no `{said}` in {md}");
    }
    assert!(page.contains("9,982 more faults") && picture.contains("9,982 more faults"));
    let named = report.verdict.reasons.iter().filter(|reason| reason.contains("proves nothing")).count();
    assert_eq!(named, 20, "{:?}", report.verdict.reasons);
    assert!(
        report.verdict.reasons.iter().any(|reason| reason.starts_with("9,980 more faults")),
        "{:?}",
        report.verdict
    );
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
    let file = folder.0.join(files::REPORT_JSON);
    for error in [render_again(&file).err(), compare(&folder.0, &file).err()] {
        let wanted = format!("{} is a file: give the run's folder, which holds it", file.display());
        assert_eq!(error.expect("it is no folder").to_string(), wanted);
    }
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
    let back = compare(&harmed.0, &calm.0).expect("both can be read");
    for (one, other) in comparison.phases.iter().zip(&back.phases) {
        for (one, other) in one.changes.iter().zip(&other.changes) {
            assert_eq!(one.finding, opposite(other.finding), "{one:?} {other:?}");
        }
    }
    let same = compare(&calm.0, &calm.0).expect("it can be read");
    assert!(same.phases.iter().flat_map(|p| &p.changes).all(|change| change.finding != Finding::Worse));
    let (text, md) = (comparison.to_text(), comparison.to_markdown());
    assert!(text.contains("\nfault\n") && md.contains("## fault") && md.contains("| itl p95 |"), "{text}");
    assert!(compare(&calm.0, &calm.0.join("nowhere")).is_err());
}

const fn opposite(finding: Finding) -> Finding {
    match finding {
        Finding::Worse => Finding::Better,
        Finding::Better => Finding::Worse,
        same => same,
    }
}

#[test]
fn what_makes_two_runs_hard_to_compare_is_said() {
    let (one, other) = (Folder::new("long"), Folder::new("short"));
    let (run, mut short) = (story(0.0), story(0.0));
    short.scenario.spec.sla.pop();
    for (phase, _, end) in &mut short.recording.phases {
        if *phase == Phase::Recovery {
            *end -= 10.0;
        }
    }
    short.recording.requests.iter_mut().for_each(|request| request.outcome = Outcome::Refused);
    for (folder, run) in [(&one, &run), (&other, &short)] {
        write_all(&folder.0, &run.report(), &run.recording, &run.journal).expect("it can be written");
    }
    let notes = compare(&one.0, &other.0).expect("both can be read").notes.join("\n");
    for note in
        ["the SLA lines differ", "the recovery phase was", "the second run is invalid: not one request"]
    {
        assert!(notes.contains(note), "{notes}");
    }
}

fn baseline(requests: &[RequestRecord], seed: u64) -> PhaseData<'_> {
    let of_phase = requests.iter().filter(|request| request.phase == Phase::Baseline).collect();
    PhaseData::new(Phase::Baseline, (5.0, 45.0), of_phase, requests, seed)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(8))]
    /// What is better one way round is worse the other, by the inverse ratio.
    #[test]
    fn a_change_reads_the_same_from_both_sides(factor in 0.9..1.12_f64, seeds in proptest::prelude::any::<(u64, u64)>()) {
        let before = story(0.0).recording.requests;
        let mut after = story(1.0).recording.requests;
        for request in &mut after {
            request.ttft = request.ttft.map(|ttft| ttft * factor);
        }
        let (before, after) = (baseline(&before, seeds.0), baseline(&after, seeds.1));
        let invert = |ratio: Option<f64>| ratio.filter(|ratio| *ratio > 0.0).map(|ratio| 1.0 / ratio);
        for (there, back) in changes(&before, &after).into_iter().zip(changes(&after, &before)) {
            proptest::prop_assert_eq!(there.finding, opposite(back.finding), "{:?} {:?}", there, back);
            if let (Some(one), Some(other)) = (there.ratio_interval, back.ratio_interval) {
                for (one, other) in [(one.low, invert(other.high)), (one.high, invert(other.low))] {
                    let apart = one.zip(other).map_or(0.0, |(one, other)| (one / other - 1.0).abs());
                    proptest::prop_assert!(apart < 1e-9, "{:?} {:?}", there, back);
                }
            }
        }
    }
}
