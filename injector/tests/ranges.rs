//! The ranges that the schema states are those that the loader enforces: an editor that goes by the one and a run that
//! goes by the other say the same.

use brownout_injector::{Fault, load, schema};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Scenarios that have every number once, all good.
fn bases() -> Vec<Value> {
    let scenario = |fault: &str, when: &str, load: &str| {
        let text = format!(
            "apiVersion: brownout.dev/v1alpha1
kind: Scenario
metadata: {{name: a}}
spec:
  seed: 7
  target: {{mode: {{percent: 50}}}}
  phases: {{fault: 60s}}
  faults: [{{name: a, {fault}, when: {{{when}}}}}]
  load: {{{load}, output: {{tokens: {{constant: 8}}}}, temperature: 0.5}}
"
        );
        serde_json::to_value(load_yaml(&text)).expect("a scenario can be written")
    };
    let plain = "arrival: {poisson: {rate: 20}}, prompt: {tokens: {constant: 512}}";
    let stall = "stall: {atToken: 1, for: 1s}";
    let mut all: Vec<Value> = Fault::ALL
        .iter()
        .map(|about| {
            let lines = about.example.lines().map(str::trim_start);
            let fault =
                lines.into_iter().find(|line| line.starts_with(about.kind)).expect("it is on one line");
            scenario(fault, if about.needs_file() { "file: '*.gguf', rank: 3" } else { "" }, plain)
        })
        .collect();
    for fault in [
        "slowTokens: {tokensPerSecond: 5}",
        "malformedStream: {how: oversizedEvent, atToken: 3, size: 2048}",
        "disconnect: {afterTokens: 3}",
        "contextOverflow: {limit: 3}",
        "usageLie: {factor: 3}",
        "rateLimit: {requestsPerMinute: 60}",
        "rateLimit: {tokensPerMinute: 60}",
        "queue: {maxInFlight: 4, maxWaiting: 3}",
    ] {
        all.push(scenario(fault, "", plain));
    }
    all.push(scenario("checkpointCorrupt: {how: truncate, keep: 0.5}", "file: '*.gguf'", plain));
    for when in ["probability: 0.5", "every: 2", "maxHits: 2, afterCalls: 3"] {
        all.push(scenario(stall, when, plain));
    }
    for arrival in
        ["constant: {rate: 20}", "gamma: {rate: 20, burstiness: 4}", "closed: {concurrency: 8, requests: 9}"]
    {
        all.push(scenario(stall, "", &format!("arrival: {{{arrival}}}, prompt: {{file: a}}")));
    }
    for tokens in ["uniform: {min: 5, max: 5}", "normal: {mean: 5, stddev: 0}", "zipf: {max: 5, exponent: 1}"]
    {
        all.push(scenario(
            stall,
            "",
            &format!("arrival: {{constant: {{rate: 1}}}}, prompt: {{tokens: {{{tokens}}}}}"),
        ));
    }
    all.push(scenario(
        stall,
        "",
        "arrival: {constant: {rate: 1}}, prompt: {tokens: {normal: {mean: 5, stddev: 0}}, sharedPrefix: 8}",
    ));
    let mut fixed = scenario(stall, "", plain);
    fixed["spec"]["target"]["mode"] = json!({"fixed": 3});
    all.push(fixed);
    all
}

fn load_yaml(text: &str) -> brownout_injector::Scenario {
    load("base.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Calls `found` with each number below `value`: its path, as a JSON pointer, and the schema of it.
fn numbers<'s>(
    value: &Value,
    schema: &'s Value,
    defs: &'s Map<String, Value>,
    path: &str,
    found: &mut dyn FnMut(&str, &'s Value),
) {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => &defs[reference.trim_start_matches("#/$defs/")],
        None => schema,
    };
    let branches = schema.get("oneOf").and_then(Value::as_array).filter(|_| schema.get("type").is_none());
    for schema in branches.map_or_else(|| vec![schema], |branches| branches.iter().collect()) {
        match value {
            Value::Number(_) => found(path, schema),
            Value::Object(fields) => {
                for (key, value) in fields {
                    if let Some(schema) = schema.get("properties").and_then(|all| all.get(key)) {
                        numbers(value, schema, defs, &format!("{path}/{key}"), found);
                    }
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    if let Some(schema) = schema.get("items") {
                        numbers(item, schema, defs, &format!("{path}/{i}"), found);
                    }
                }
            }
            _ => {}
        }
    }
}

/// All schemas of numbers.
fn all_numbers(schema: &Value, count: &mut usize) {
    match schema {
        Value::Object(object) => {
            let is_number = matches!(object.get("type").and_then(Value::as_str), Some("number" | "integer"));
            *count += usize::from(is_number);
            object.values().for_each(|value| all_numbers(value, count));
        }
        Value::Array(items) => items.iter().for_each(|item| all_numbers(item, count)),
        _ => {}
    }
}

/// Numbers that must be taken, and numbers that must not, by the schema alone.
fn trials(schema: &Value) -> (Vec<Value>, Vec<Value>) {
    let whole = schema["type"] == "integer";
    let bound = |name: &str| schema.get(name).cloned();
    let step = |value: &Value, by: i64| match value.as_i64() {
        Some(n) if whole => json!(n + by),
        _ => {
            let n = value.as_f64().expect("a number");
            json!(n + by as f64 * (n.abs() * 1e-9).max(1e-9))
        }
    };
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    match (bound("minimum"), bound("exclusiveMinimum")) {
        (Some(min), None) => {
            bad.push(step(&min, -1));
            good.push(min);
        }
        (None, Some(min)) => {
            good.push(step(&min, 1));
            bad.push(min);
        }
        (None, None) => good.push(json!(-1e6)),
        both => panic!("two minima: {both:?}"),
    }
    match (bound("maximum"), bound("exclusiveMaximum")) {
        (Some(max), _) => {
            bad.push(step(&max, 1));
            good.push(max);
        }
        (None, Some(max)) => {
            good.push(step(&max, -1));
            bad.push(max);
        }
        _ if whole => good.push(json!(u64::MAX)),
        _ => good.push(json!(1e6)),
    }
    (good, bad)
}

#[test]
fn the_schema_states_the_ranges_that_are_enforced() {
    let schema = schema();
    let defs = schema["$defs"].as_object().expect("it has types");
    let (mut wrong, mut seen) = (String::new(), BTreeMap::new());
    for base in bases() {
        numbers(&base, &schema, defs, "", &mut |path, schema| {
            seen.insert(std::ptr::from_ref(schema) as usize, ());
            let (good, bad) = trials(schema);
            let with = |number: &Value| {
                let mut changed = base.clone();
                *changed.pointer_mut(path).expect("it is there") = number.clone();
                load("tried.json", &changed.to_string())
            };
            for number in good {
                // A neighbour may be what refuses it, as `min` does a `max`, or the prompt's length a prefix.
                let depends = ["/sharedPrefix", "/min", "/max", "/mean", "/stddev"]
                    .iter()
                    .any(|end| path.ends_with(end));
                if let Err(errors) = with(&number)
                    && !(depends && errors.iter().all(|error| !error.message.contains("is too")))
                {
                    wrong += &format!("{path}: {number} is within the schema, and refused:\n{errors}\n\n");
                }
            }
            for number in bad {
                if with(&number).is_ok() {
                    wrong += &format!("{path}: {number} is not within the schema, and taken\n\n");
                }
            }
        });
    }
    assert!(wrong.is_empty(), "{wrong}");
    let mut all = 0;
    all_numbers(&schema, &mut all);
    assert_eq!(seen.len(), all, "a number of the schema is in no base");
}
