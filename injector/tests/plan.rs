//! What a plan decides: reproducible, within its window, and exact in its counts.

use brownout_injector::wire::Api;
use brownout_injector::{Facts, Plan, load};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A plan with one stall under this trigger, armed for 100 s.
fn plan(when: &str, seed: u64) -> Plan {
    let faults = format!("    - name: f\n      stall: {{atToken: 1, for: 1s}}\n      when: {{{when}}}\n");
    plan_of(&faults, seed)
}

fn plan_of(faults: &str, seed: u64) -> Plan {
    let text = format!(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: t}}\nspec:\n  \
         phases: {{fault: 100s}}\n  faults:\n{faults}"
    );
    let scenario = load("t.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    Plan::compile(&scenario, Some(seed))
}

fn facts(at: Duration, number: Option<u64>) -> Facts<'static> {
    Facts {
        at,
        number,
        method: "POST",
        path: "/v1/chat/completions",
        api: Api::OpenaiChat,
        model: None,
        stream: true,
        prompt_tokens: 10,
        max_tokens: None,
        header: &|name| (name == "x-team").then_some("red"),
    }
}

fn fires(plan: &Plan, at: Duration, number: Option<u64>) -> bool {
    !plan.decide(&facts(at, number)).is_empty()
}

const NOON: Duration = Duration::from_secs(50);

/// The arrivals (from 0) on which the trigger fires, of the first `count`.
fn hits(when: &str, count: u64) -> Vec<u64> {
    let plan = plan(when, 1);
    (0..count).filter(|_| fires(&plan, NOON, None)).collect()
}

#[test]
fn counting_triggers_count_eligible_arrivals() {
    assert_eq!(hits("every: 3", 10), [2, 5, 8]);
    assert_eq!(hits("afterCalls: 4", 7), [4, 5, 6]);
    assert_eq!(hits("afterCalls: 4, every: 3", 12), [6, 9]);
    assert_eq!(hits("maxHits: 2", 7), [0, 1]);
    assert_eq!(hits("every: 2, maxHits: 2", 9), [1, 3]);
    assert_eq!(hits("every: 1", 3), [0, 1, 2]);
}

/// A run's requests are numbered from its warm-up on: the first that a fault meets may have number 900.
#[test]
fn the_first_n_are_the_first_that_arrive_whatever_their_numbers() {
    let plan = plan("afterCalls: 3", 1);
    let fired: Vec<bool> = (900..906).map(|number| fires(&plan, NOON, Some(number))).collect();
    assert_eq!(fired, [false, false, false, true, true, true]);
}

#[test]
fn numbers_that_a_client_made_up_are_taken_as_they_are() {
    for when in ["every: 3", "every: 3, afterCalls: 0", "probability: 0.5", "maxHits: 3"] {
        let plan = plan(when, 1);
        for number in [u64::MAX, u64::MAX - 1, 0] {
            fires(&plan, NOON, Some(number));
        }
    }
}

#[test]
fn header_names_match_in_any_case() {
    assert!(fires(&plan("headers: {X-Team: r*}", 1), NOON, None));
    assert!(!fires(&plan("headers: {X-Team: b*}", 1), NOON, None));
    assert!(!fires(&plan("headers: {x-other: '*'}", 1), NOON, None));
}

#[test]
fn method_model_and_stream_must_be_as_asked() {
    let of = |method, model, stream| Facts { method, model, stream, ..facts(NOON, None) };
    for (when, hit, missed) in [
        ("method: post", of("POST", None, true), of("GET", None, true)),
        ("model: 'a*'", of("POST", Some("abc"), true), of("POST", Some("b"), true)),
        ("model: '*'", of("POST", Some(""), true), of("POST", None, true)),
        ("stream: true", of("POST", None, true), of("POST", None, false)),
        ("stream: false", of("POST", None, false), of("POST", None, true)),
    ] {
        let plan = plan(when, 1);
        assert!(plan.decide(&missed).is_empty(), "{when}");
        assert_eq!(plan.decide(&hit).len(), 1, "{when}");
        assert_eq!(plan.counts().next().map(|(_, eligible, _)| eligible), Some(1), "{when}");
    }
}

/// Runs that were recorded can be run again: with another version, too.
#[test]
fn the_requests_that_a_seed_hits_stay_the_same() {
    let plan = plan("probability: 0.3", 7);
    let hit: Vec<u64> = (0..20).filter(|n| fires(&plan, NOON, Some(*n))).collect();
    assert_eq!(hit, [1, 3, 6, 7, 10, 11, 14, 15, 16, 18]);
}

#[test]
fn a_fault_that_ends_the_request_hides_those_after_it() {
    let plan = plan_of(
        "    - {name: a, stall: {atToken: 1, for: 1s}}\n    - {name: b, httpError: {status: 500}, when: {every: 2}}\n    \
         - {name: c, stall: {atToken: 1, for: 1s}}\n",
        1,
    );
    let rules =
        |verdict: brownout_injector::Verdict| verdict.iter().map(|firing| firing.rule).collect::<Vec<_>>();
    let first = rules(plan.decide(&facts(NOON, None)));
    let second = rules(plan.decide(&facts(NOON, None)));
    assert_eq!(first, [0, 2]);
    assert_eq!(second, [0, 1]);
    let eligible: Vec<u64> = plan.counts().map(|(_, eligible, _)| eligible).collect();
    assert_eq!(eligible, [2, 2, 1]);
}

#[test]
fn max_hits_is_exact_under_eight_threads() {
    let plan = plan("maxHits: 1000", 1);
    let fired = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    fired.fetch_add(u64::from(fires(&plan, NOON, None)), Relaxed);
                }
            });
        }
    });
    assert_eq!(fired.load(Relaxed), 1000);
    assert_eq!(plan.counts().map(|(_, eligible, hits)| (eligible, hits)).next(), Some((8000, 1000)));
}

#[test]
fn under_threads_the_same_numbered_requests_are_hit() {
    let alone = plan("probability: 0.3", 5);
    let wanted: BTreeSet<u64> = (0..4000).filter(|n| fires(&alone, NOON, Some(*n))).collect();
    let shared = plan("probability: 0.3", 5);
    let found = std::sync::Mutex::new(BTreeSet::new());
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    if n >= 4000 {
                        break;
                    }
                    if fires(&shared, NOON, Some(n)) {
                        found.lock().expect("no thread panics").insert(n);
                    }
                }
            });
        }
    });
    assert_eq!(found.into_inner().expect("no thread panics"), wanted);
}

#[test]
fn a_ramp_climbs_from_nothing_to_the_whole() {
    let plan = plan("probability: 0.8, after: 10s, for: 80s, ramp: 40s", 3);
    let share = |second: u64| {
        let at = Duration::from_secs(second);
        (0..20_000).filter(|n| fires(&plan, at, Some(*n))).count() as f64 / 20_000.0
    };
    for (second, want) in [(9, 0.0), (10, 0.0), (20, 0.2), (30, 0.4), (50, 0.8), (89, 0.8), (90, 0.0)] {
        assert!((share(second) - want).abs() < 0.015, "at {second} s it fired on {}", share(second));
    }
}

#[test]
fn a_window_that_repeats_opens_and_shuts() {
    let plan = plan("after: 10s, for: 5s, repeat: 20s", 1);
    for (second, open) in [
        (9, false),
        (10, true),
        (14, true),
        (15, false),
        (29, false),
        (30, true),
        (94, true),
        (95, false),
        (100, false),
    ] {
        assert_eq!(fires(&plan, Duration::from_secs(second), None), open, "at {second} s");
    }
    // Open when the plan ends: until then and no longer.
    let last = self::plan("for: 20s, repeat: 21s", 1);
    let open = |at: Duration| fires(&last, at, None);
    assert!(open(Duration::from_secs(100) - Duration::from_nanos(1)) && !open(Duration::from_secs(100)));
    let held = last.decide(&facts(Duration::from_secs(90), None))[0].until;
    assert_eq!(held, last.ends);
    let held = plan.decide(&facts(Duration::from_secs(31), None))[0].until;
    assert_eq!(held, Duration::from_secs(35));
}

#[test]
fn what_a_fault_holds_is_let_go_when_the_plan_ends() {
    let plan = plan("after: 90s", 1);
    assert_eq!(plan.decide(&facts(Duration::from_secs(99), None))[0].until, plan.ends);
}

/// A 99.999 % interval of a binomial share: a normal one, wide enough that thousands of runs do not leave it.
fn binomial_interval(p: f64, n: f64) -> (f64, f64) {
    let half = 4.42 * (p * (1.0 - p) / n).sqrt() + 0.5 / n;
    (p - half, p + half)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn decisions_are_a_pure_function_of_seed_name_and_number(seed: u64, numbers in prop::collection::vec(any::<u64>(), 1..50)) {
        let (one, two) = (plan("probability: 0.5", seed), plan("probability: 0.5", seed));
        for n in numbers {
            let first = one.decide(&facts(NOON, Some(n)));
            prop_assert_eq!(&first, &two.decide(&facts(NOON, Some(n))));
            prop_assert_eq!(first, one.decide(&facts(NOON, Some(n))));
        }
    }

    #[test]
    fn another_seed_or_name_decides_anew(seed: u64) {
        let set = |plan: &Plan| (0..200).map(|n| fires(plan, NOON, Some(n))).collect::<Vec<_>>();
        let here = set(&plan("probability: 0.5", seed));
        prop_assert_ne!(&here, &set(&plan("probability: 0.5", seed.wrapping_add(1))));
        let other = plan_of("    - {name: g, stall: {atToken: 1, for: 1s}, when: {probability: 0.5}}\n", seed);
        prop_assert_ne!(here, set(&other));
    }

    #[test]
    fn the_share_lies_in_its_binomial_interval(seed: u64, percent in 1_u32..100) {
        let p = f64::from(percent) / 100.0;
        let plan = plan(&format!("probability: {p}"), seed);
        let share = (0..5000).filter(|_| fires(&plan, NOON, None)).count() as f64 / 5000.0;
        let (low, high) = binomial_interval(p, 5000.0);
        prop_assert!(share >= low && share <= high, "{share} for {p}");
    }

    #[test]
    fn nothing_fires_outside_its_window_nor_after_the_end(
        after in 0_u64..99_000, length in 1_u64..100_000, at in 0_u64..200_000, repeat in prop::option::of(1_u64..50_000),
    ) {
        let length = length.min(100_000 - after);
        let period = repeat.map(|more| length + more);
        let again = period.map_or(String::new(), |period| format!(", repeat: {period}ms"));
        let plan = plan(&format!("after: {after}ms, for: {length}ms{again}"), 1);
        let open = at < 100_000
            && at.checked_sub(after).is_some_and(|since| period.map_or(since, |period| since % period) < length);
        let verdict = plan.decide(&facts(Duration::from_millis(at), None));
        prop_assert_eq!(!verdict.is_empty(), open);
        if let Some(firing) = verdict.first() {
            prop_assert!(firing.until > Duration::from_millis(at));
            prop_assert!(firing.until <= plan.ends);
            prop_assert!(firing.until <= Duration::from_millis(at + length));
        }
    }

    #[test]
    fn the_order_of_numbered_requests_is_of_no_account(
        seed: u64, every in 1_u64..7, order in Just((0_u64..300).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let when = format!("probability: 0.4, every: {every}");
        let (straight, shuffled) = (plan(&when, seed), plan(&when, seed));
        let one: BTreeSet<u64> = (0..300).filter(|n| fires(&straight, NOON, Some(*n))).collect();
        let two: BTreeSet<u64> = order.into_iter().filter(|n| fires(&shuffled, NOON, Some(*n))).collect();
        prop_assert_eq!(one, two);
    }
}

/// Whoever sees requests can do nothing for a fault in a process; what the others decide does not depend on it.
#[test]
fn faults_in_processes_have_no_rule() {
    let wire = "    - name: f\n      stall: {atToken: 1, for: 1s}\n      when: {probability: 0.5}\n";
    let process =
        "    - name: d\n      checkpointError: {error: eio}\n      when: {file: '*', probability: 0.5}\n";
    let (alone, beside) = (plan_of(wire, 3), plan_of(&format!("{process}{wire}"), 3));
    let names = |plan: &Plan| plan.rules.iter().map(|rule| rule.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&beside), names(&alone));
    for number in 0..100 {
        let facts = facts(NOON, Some(number));
        assert_eq!(beside.decide(&facts), alone.decide(&facts));
    }
}
