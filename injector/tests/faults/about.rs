//! What every kind says of itself is complete, and its example is one that loads.

use crate::harness::fault;
use brownout_injector::Fault;
use serde_json::{Value, json};

#[test]
fn every_kind_says_what_it_is_about() {
    for about in Fault::ALL {
        for text in [about.meaning, about.certifies, about.does_not_certify] {
            assert!(text.len() > 60 && text.ends_with('.'), "{}: {text:?}", about.kind);
        }
        let key = format!("\n  {}:", about.kind);
        assert!(about.example.starts_with("- name: ") && about.example.contains(&key), "{}", about.example);
    }
}

#[test]
fn problems_name_the_field_that_is_wrong() {
    let delay = |dist: Value| json!({"latency": {"delay": dist}});
    for (value, field) in [
        (delay(json!({"uniform": {"min": "2s", "max": "1s"}})), "delay"),
        (delay(json!({"lognormal": {"median": "0s", "p99": "1s"}})), "delay"),
        (delay(json!({"lognormal": {"median": "2s", "p99": "1s"}})), "delay"),
        (json!({"slowTokens": {}}), "delay"),
        (json!({"slowTokens": {"tokensPerSecond": 0.0}}), "tokensPerSecond"),
        (json!({"slowTokens": {"tokensPerSecond": 5, "delay": {"constant": "1s"}}}), "tokensPerSecond"),
        (json!({"stall": {"atToken": 0, "for": "1s"}}), "atToken"),
        (json!({"stall": {"atToken": 1, "for": "0s"}}), "for"),
        (json!({"httpError": {"status": 200}}), "status"),
        (json!({"rateLimit": {}}), "requestsPerMinute"),
        (json!({"rateLimit": {"tokensPerMinute": 0.5}}), "tokensPerMinute"),
        (json!({"rateLimit": {"requestsPerMinute": 30, "burst": "1s"}}), "burst"),
        (json!({"corruptTokens": {"how": "drop", "share": 1.5}}), "share"),
        (json!({"malformedStream": {"how": "badJson", "atToken": 1, "size": 5000}}), "size"),
        (json!({"malformedStream": {"how": "oversizedEvent", "atToken": 1, "size": 5}}), "size"),
        (json!({"inbandError": {"atToken": 1, "status": 99}}), "status"),
        (json!({"bandwidth": {"bytesPerSecond": 0}}), "bytesPerSecond"),
        (json!({"queue": {"maxInFlight": 0}}), "maxInFlight"),
        (json!({"contextOverflow": {"limit": 0}}), "limit"),
        (json!({"wrongModel": {"how": "notFound", "model": "x"}}), "model"),
        (json!({"probeFlap": {"paths": []}}), "paths"),
        (json!({"probeFlap": {"paths": ["health"]}}), "paths"),
        (json!({"usageLie": {}}), "factor"),
        (json!({"usageLie": {"factor": -1.0}}), "factor"),
        (json!({"usageLie": {"factor": 2.0, "omit": true}}), "omit"),
        (json!({"checkpointCorrupt": {"how": "bitFlip", "count": 0}}), "count"),
        (json!({"checkpointCorrupt": {"how": "zeroPage", "count": 1_000_001}}), "count"),
        (json!({"checkpointCorrupt": {"how": "header", "count": 1}}), "count"),
        (json!({"checkpointCorrupt": {"how": "truncate", "count": 1}}), "count"),
        (json!({"checkpointCorrupt": {"how": "truncate", "keep": 1.0}}), "keep"),
        (json!({"checkpointCorrupt": {"how": "bitFlip", "keep": 0.5}}), "keep"),
        (json!({"checkpointSlow": {}}), "delay"),
        (json!({"checkpointSlow": {"bytesPerSecond": 0}}), "bytesPerSecond"),
        (json!({"checkpointSlow": {"delay": {"constant": "0s"}, "bytesPerSecond": 5}}), "delay"),
    ] {
        let problems = fault(value.clone()).problems();
        assert_eq!(problems.len(), 1, "{value}: {problems:?}");
        assert_eq!(problems[0].0, field, "{value}");
    }
}

#[test]
fn sound_parameters_have_no_problems() {
    for value in super::robust::examples() {
        assert_eq!(fault(value.clone()).problems(), [], "{value}");
    }
}

#[test]
fn what_is_left_out_of_a_damage_is_what_the_reference_says() {
    let damage = |params: Value| match fault(json!({"checkpointCorrupt": params})) {
        Fault::CheckpointCorrupt(damage) => (damage.places(), damage.kept()),
        other => panic!("{other:?}"),
    };
    for (how, want) in [
        ("bitFlip", (64, 1.0)),
        ("zeroPage", (1, 1.0)),
        ("truncate", (0, 0.5)),
        ("header", (0, 1.0)),
        ("dtype", (0, 1.0)),
        ("shape", (0, 1.0)),
    ] {
        assert_eq!(damage(json!({"how": how})), want, "{how}");
    }
    assert_eq!(damage(json!({"how": "zeroPage", "count": 9})), (9, 1.0));
    assert_eq!(damage(json!({"how": "truncate", "keep": 0.0})), (0, 0.0));
}

/// An entry of `faults` in a scenario of its own.
fn scenario_with(entry: &str) -> String {
    let mut text = String::from(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {name: example}\nspec:\n  \
         target: {url: \"http://127.0.0.1:8000\"}\n  phases: {baseline: 30s, fault: 60s}\n  faults:\n",
    );
    for line in entry.lines() {
        text.push_str(&format!("    {line}\n"));
    }
    text
}

#[test]
fn every_example_loads() {
    for about in Fault::ALL {
        let text = scenario_with(about.example);
        match brownout_injector::load(about.kind, &text) {
            Ok(scenario) => assert_eq!(scenario.spec.faults[0].fault.about().kind, about.kind),
            Err(problems) => panic!("{}", problems.render(false)),
        }
    }
}

#[test]
fn the_shipped_scenarios_load_and_show_every_kind() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut shown = std::collections::BTreeSet::new();
    let mut stories = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of scenarios") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name in UTF-8").to_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let scenario = match brownout_injector::load(&name, &text) {
            Ok(scenario) => scenario,
            Err(problems) => panic!("{}", problems.render(false)),
        };
        stories += 1;
        assert_eq!(scenario.metadata.name, name, "a file is called as its scenario");
        let spec = &scenario.spec;
        for (what, there) in [
            ("a comment that tells the story", text.starts_with("# ")),
            ("a description", spec.description.is_some()),
            ("an owner", spec.owner.is_some()),
            ("what it certifies", spec.certifies.is_some()),
            ("a load", spec.load.is_some()),
            ("SLA lines", !spec.sla.is_empty()),
            ("a baseline", !spec.phases.baseline.0.is_zero()),
        ] {
            assert!(there, "{name} lacks {what}");
        }
        shown.extend(spec.faults.iter().map(|entry| entry.fault.about().kind));
    }
    let missing: Vec<&str> =
        Fault::ALL.iter().map(|about| about.kind).filter(|kind| !shown.contains(kind)).collect();
    assert!(missing.is_empty() && stories >= 12, "{stories} stories; no story shows {missing:?}");
}
