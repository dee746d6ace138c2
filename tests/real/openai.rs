//! The official OpenAI Python client through `brownout proxy` in front of the stand-in server: unchanged while nothing
//! is armed, and each fault seen as its own kind of exception or cut answer (`openai_client.py`, one function a case).

use crate::support::{Running, Scratch, brownout, prepared};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

fn case(name: &str, fault: Option<&str>) {
    let python = prepared("OPENAI_PYTHON");
    let scratch = Scratch::new(name);
    let mut yaml = String::from(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {name: client}\nspec:\n  seed: 7\n  phases: {fault: 10m}\n",
    );
    if let Some(fault) = fault {
        write!(yaml, "  faults:\n  - name: {}\n    {fault}\n", name.replace('_', "-")).unwrap();
    }
    let scenario = scratch.path().join("scenario.yaml");
    std::fs::write(&scenario, yaml).unwrap();

    let mut command = brownout();
    command.args(["sim", "--listen", "127.0.0.1:0"]);
    let sim = Running::start(command);
    let mut command = brownout();
    command
        .args([
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--upstream",
            &sim.url,
            "--scenario",
        ])
        .arg(scenario);
    let proxy = Running::start(command);

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/openai_client.py");
    let done =
        Command::new(python).arg("-u").arg(script).args([name, &proxy.url, &sim.url]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "the client saw something else:\n{out}{err}");
}

macro_rules! cases {
    ($($name:ident: $fault:expr,)*) => {
        $(#[test] fn $name() { case(stringify!($name), $fault) })*
    };
}

cases! {
    unchanged: None,
    unchanged_stream: None,
    latency: Some("latency: {delay: {constant: 1s}}"),
    first_token_delay: Some("firstTokenDelay: {delay: {constant: 1s}}"),
    slow_tokens: Some("slowTokens: {delay: {constant: 100ms}}"),
    stall: Some("stall: {atToken: 4, for: 1s}"),
    bandwidth: Some("bandwidth: {bytesPerSecond: 1000}"),
    blackhole: Some("blackhole: {}"),
    truncate: Some("truncate: {afterTokens: 4}"),
    truncate_length: Some("truncate: {afterTokens: 4, finish: length}"),
    disconnect: Some("disconnect: {close: rst}"),
    disconnect_midstream: Some("disconnect: {afterTokens: 3, close: fin}"),
    http_error: Some("httpError: {status: 503}"),
    http_error_401: Some("httpError: {status: 401}"),
    http_error_404: Some("httpError: {status: 404}"),
    http_error_429: Some("httpError: {status: 429, retryAfter: {in: 1s}}\n    when: {maxHits: 2}"),
    rate_limit: Some("rateLimit: {requestsPerMinute: 2}"),
    inband_error: Some("inbandError: {atToken: 4, message: overloaded by test}"),
    context_overflow: Some("contextOverflow: {}"),
    wrong_model_not_found: Some("wrongModel: {how: notFound}"),
    queue: Some("queue: {maxInFlight: 1, maxWaiting: 0}"),
    wrong_model: Some("wrongModel: {model: other-model}"),
    corrupt_tokens: Some("corruptTokens: {how: garble, share: 1}"),
    empty_response: Some("emptyResponse: {}"),
    empty_response_body: Some("emptyResponse: {how: body}"),
    malformed_json: Some("malformedStream: {how: badJson, atToken: 3}"),
    malformed_utf8: Some("malformedStream: {how: badUtf8, atToken: 3}"),
    usage_lie: Some("usageLie: {factor: 3}"),
    cache_bust: Some("cacheBust: {}"),
}
