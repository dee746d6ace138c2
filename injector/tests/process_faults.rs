//! Faults in the process: which parameters and matchers are taken, and that what is taken is written as it was read.

use brownout_injector::load;
use proptest::option;
use proptest::prelude::*;

/// Whether a fault loads; one that does is the same after it was written and read again.
fn taken(fault: &str, when: &[String]) -> bool {
    let text = format!(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: t}}\nspec:\n  phases: {{fault: 60s}}\n  \
         faults: [{{name: f, {fault}, when: {{{}}}}}]\n",
        when.join(", ")
    );
    let Ok(scenario) = load("t.yaml", &text) else { return false };
    let json = serde_json::to_string(&scenario).expect("a scenario can be written");
    assert_eq!(load("t.json", &json), Ok(scenario), "{text}");
    true
}

fn files() -> Vec<String> {
    vec!["file: '*.gguf'".to_owned()]
}

/// The fields that are there, as YAML.
fn fields(all: &[Option<String>]) -> String {
    all.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ")
}

proptest! {
    #[test]
    fn damage_has_the_parameters_that_belong_to_it(
        how in prop::sample::select(vec!["bitFlip", "zeroPage", "header", "truncate", "dtype", "shape"]),
        count in option::of(prop_oneof![0_u32..3, 999_999_u32..1_000_002]),
        keep in option::of(prop_oneof![Just(0.0), Just(0.999), Just(1.0), -0.1..1.1]),
    ) {
        let counts = how == "bitFlip" || how == "zeroPage";
        let right = count.is_none_or(|count| counts && (1..=1_000_000).contains(&count))
            && keep.is_none_or(|keep: f64| how == "truncate" && (0.0..1.0).contains(&keep));
        let fault = fields(&[
            Some(format!("how: {how}")),
            count.map(|count| format!("count: {count}")),
            keep.map(|keep| format!("keep: {keep:?}")),
        ]);
        prop_assert_eq!(taken(&format!("checkpointCorrupt: {{{fault}}}"), &files()), right, "{}", fault);
    }

    #[test]
    fn slow_files_have_a_delay_or_a_rate_or_both(
        delay in option::of(0_u32..3),
        rate in option::of(prop_oneof![0_u64..3, Just(u64::MAX)]),
    ) {
        let right = (delay.is_some() || rate.is_some()) && delay != Some(0) && rate != Some(0);
        let fault = fields(&[
            delay.map(|delay| format!("delay: {{constant: {delay}ms}}")),
            rate.map(|rate| format!("bytesPerSecond: {rate}")),
        ]);
        prop_assert_eq!(taken(&format!("checkpointSlow: {{{fault}}}"), &files()), right, "{}", fault);
    }

    /// Whatever else is said: files must be named, and nothing that a process does not know may be asked for.
    #[test]
    fn files_are_named_and_requests_are_not(
        error in prop::sample::select(vec!["eio", "enoent", "estale", "sigbus"]),
        when in prop::sample::subsequence(vec![
            "file: '*/a.gguf'", "process: python*", "rank: 3", "container: server", "probability: 0.5", "every: 2",
            "maxHits: 3", "afterCalls: 4", "after: 1s", "for: 10s", "ramp: 2s", "repeat: 20s",
            "path: /v1/*", "method: GET", "model: m", "headers: {a: b}", "stream: true",
        ], 0..=17),
    ) {
        let has = |key: &str| when.iter().any(|one| one.starts_with(key));
        let of_requests = ["path", "method", "model", "headers", "stream"].iter().any(|key| has(key));
        // A window that opens again must shut first.
        let window = has("for") || !has("repeat");
        let when: Vec<String> = when.iter().map(|one| (*one).to_owned()).collect();
        let is = taken(&format!("checkpointError: {{error: {error}}}"), &when);
        prop_assert_eq!(is, has("file") && !of_requests && window, "{:?}", when);
    }
}
