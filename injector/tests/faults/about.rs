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
