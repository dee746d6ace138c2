//! What the journal proves of each fault.

use crate::common::scenario;
use crate::{close, ok};
use brownout_injector::Scenario;
use brownout_injector::journal::{Entry, Fired, Process, What};
use brownout_runner::record::{Phase, RequestRecord};
use brownout_runner::stats::Sides;
use brownout_runner::stats::rate::wilson;
use brownout_runner::summary::effect::{Aligned, FaultProof, RuleCount};

/// One fault called `f` with this trigger, in a fault phase of 40 s.
fn story(when: &str) -> Scenario {
    scenario(&format!(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: t}}\nspec:\n  \
         phases: {{fault: 40s}}\n  faults:\n    - {{name: f, stall: {{atToken: 1, for: 1s}}, when: {{{when}}}}}\n"
    ))
}

fn phase_begins(at: f64, name: &str) -> Entry {
    Entry { at, what: What::Phase { name: name.to_owned() } }
}

fn armed(at: f64) -> Entry {
    let what = What::Armed { fault: "f".to_owned(), kind: "stall".to_owned(), ends_in: 40.0 };
    Entry { at, what }
}

fn healed(at: f64) -> Entry {
    Entry { at, what: What::Healed { reason: "ended".to_owned() } }
}

fn fired(at: f64, request: Option<u64>, touched: u64, asked_ms: f64, given_ms: f64) -> Entry {
    let (fault, kind, path) = ("f".to_owned(), "stall".to_owned(), "/".to_owned());
    let (process, note) = (None, String::new());
    let fired = Fired { fault, kind, n: 0, request, process, path, touched, asked_ms, given_ms, note };
    let what = What::Fired(fired);
    Entry { at, what }
}

fn proof(when: &str, journal: &[Entry], counts: Option<(u64, u64)>) -> FaultProof {
    let count = counts.map(|(eligible, chosen)| RuleCount { fault: "f".to_owned(), eligible, chosen });
    let counts: Vec<RuleCount> = count.into_iter().collect();
    Aligned::new(journal, &[]).proofs(&story(when), &counts).remove(0)
}

#[test]
fn a_share_is_asked_only_where_it_is_one_number() {
    for (when, asked) in [
        ("", Some(1.0)),
        ("probability: 0.25", Some(0.25)),
        ("probability: 0.25, after: 5s, for: 20s", Some(0.25)),
        ("probability: 0.25, ramp: 10s", None),
        ("probability: 0.25, every: 2", None),
        ("probability: 0.25, maxHits: 7", None),
        ("probability: 0.25, afterCalls: 7", None),
    ] {
        assert_eq!(proof(when, &[armed(0.0)], None).asked_share, asked, "{when}");
    }
}

#[test]
fn a_share_is_odd_outside_its_interval_and_unknown_where_nothing_was_eligible() {
    let journal = [armed(0.0), fired(1.0, Some(1), 1, 0.0, 0.0)];
    for (chosen, odd) in [(18, true), (30, false), (52, true)] {
        let proof = proof("probability: 0.3", &journal, Some((100, chosen)));
        assert!(close(proof.share, chosen as f64 / 100.0));
        assert_eq!(proof.share_interval, wilson(chosen, 100, Sides::Two));
        assert_eq!(!proof.odd.is_empty(), odd, "{proof:?}");
    }
    let none = proof("probability: 0.3", &journal[..1], Some((0, 0)));
    assert_eq!((none.share, none.share_interval), (None, None));
    for (journal, counts, said) in [
        (&journal[..1], Some((0, 0)), "no request was eligible"),
        (&journal[..1], Some((9, 3)), "never fired"),
        (&journal[..0], Some((9, 3)), "does not show that it was armed"),
    ] {
        let odd = proof("probability: 0.3", journal, counts).odd;
        assert!(odd.len() == 1 && odd[0].contains(said), "{odd:?}");
    }
}

/// A fault in a process has no rule in the proxy's plan; the report tells of it by the journal, and by counts where
/// somebody has them.
#[test]
fn a_fault_in_a_process_is_told_of_without_a_rule() {
    let story = scenario(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  phases: {fault: 40s}\n  \
         faults:\n    - name: f\n      checkpointError: {error: eio}\n      when: {file: '*.gguf', after: 5s}\n",
    );
    let mut call = fired(7.0, None, 1, 0.0, 0.0);
    if let What::Fired(fired) = &mut call.what {
        fired.process = Some(Process { pid: 7, rank: Some(1), exe: "python3".to_owned() });
    }
    let line = serde_json::to_string(&call).expect("an entry can be written");
    assert_eq!(serde_json::from_str::<Entry>(&line).expect("and read"), call);
    let journal = [armed(1.0), call];
    let aligned = Aligned::new(&journal, &[]);
    let proof = aligned.proofs(&story, &[]).remove(0);
    assert_eq!((proof.layer.as_str(), proof.armed_at, proof.fired), ("artifact", Some(1.0), 1));
    assert_eq!((proof.eligible, proof.odd), (None, vec![]));
    let window = aligned.windows(&story, 60.0).remove(0);
    assert_eq!((window.fault.as_str(), window.from, window.until), ("f", 6.0, 41.0));
    let none = RuleCount { fault: "f".to_owned(), eligible: 0, chosen: 0 };
    let idle = Aligned::new(&journal[..1], &[]).proofs(&story, &[none]).remove(0);
    assert_eq!(idle.odd, ["it was armed, and no call was eligible for it"]);
}

#[test]
fn what_touched_nothing_did_not_fire_and_errors_of_delays_count_both_ways() {
    let journal = [
        armed(10.0),
        fired(11.0, Some(1), 0, 0.0, 0.0),
        fired(12.0, Some(2), 3, 1000.0, 700.0),
        fired(15.0, Some(3), 1, 2000.0, 2100.0),
        fired(16.0, None, 1, 0.0, 0.0),
        healed(20.0),
        healed(21.0),
    ];
    let proof = proof("", &journal, None);
    assert_eq!((proof.fired, proof.touched), (3, 5));
    assert_eq!((proof.armed_at, proof.healed_at), (Some(10.0), Some(21.0)));
    // 700 ms before the entry at 12 s.
    assert!(close(proof.first_fired_at, 11.3), "{proof:?}");
    let delay = proof.delay.expect("two were held");
    assert_eq!((delay.n, delay.asked_mean_ms, delay.given_mean_ms), (2, 1500.0, 1400.0));
    assert!(close(Some(delay.error_max_ms), 300.0) && close(Some(delay.error_p99_ms), 300.0));
    let marked = RequestRecord { faults: vec!["f".to_owned()], ..ok(9, Phase::Fault, 1.0, 0.1) };
    let requests = [ok(2, Phase::Fault, 1.0, 0.1), ok(5, Phase::Fault, 1.0, 0.1), marked];
    let mut injected: Vec<u64> = Aligned::new(&journal, &[]).injected(&requests).into_iter().collect();
    injected.sort_unstable();
    assert_eq!(injected, [2, 3, 9]);
}

#[test]
fn nothing_fires_before_it_was_armed() {
    let journal = [armed(10.0), fired(10.5, Some(1), 1, 900.0, 900.0)];
    assert!(close(proof("", &journal, None).first_fired_at, 10.0));
}

#[test]
fn the_journal_is_put_on_the_clock_of_the_recording_by_the_first_phase_that_both_know() {
    let journal =
        [phase_begins(103.0, "baseline"), phase_begins(145.0, "fault"), armed(146.0), healed(190.0)];
    let phases = [(Phase::Warmup, 0.0, 5.0), (Phase::Baseline, 5.0, 46.0), (Phase::Fault, 46.0, 90.0)];
    let aligned = Aligned::new(&journal, &phases);
    assert_eq!(aligned.healed(), Some(92.0));
    assert_eq!(aligned.proofs(&story(""), &[])[0].armed_at, Some(48.0));
}

#[test]
fn a_fault_can_act_in_its_windows_until_it_ends_or_is_healed() {
    // Each armed at 10 s, for at most 40 s.
    let last = |at: f64| vec![armed(10.0), healed(at)];
    for (when, journal, want) in [
        ("", last(30.0), vec![(10.0, 30.0)]),
        ("", last(70.0), vec![(10.0, 50.0)]),
        // Healed before it was armed again: that healed another run's.
        ("", vec![healed(5.0), armed(10.0)], vec![(10.0, 45.0)]),
        ("after: 5s, for: 10s", last(70.0), vec![(15.0, 25.0)]),
        ("after: 5s, for: 10s", last(20.0), vec![(15.0, 20.0)]),
        ("after: 5s, for: 10s", last(15.0), vec![]),
        ("after: 5s, for: 5s, repeat: 15s", last(70.0), vec![(15.0, 20.0), (30.0, 35.0), (45.0, 50.0)]),
    ] {
        let windows = Aligned::new(&journal, &[]).windows(&story(when), 45.0);
        let windows: Vec<(f64, f64)> =
            windows.into_iter().map(|window| (window.from, window.until)).collect();
        assert_eq!(windows, want, "{when}");
    }
}
