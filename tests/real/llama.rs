//! `brownout run` on a real engine. The client's view (`requests.jsonl`) is held against the server's own, request by
//! request: a fault on the wire must show at the client, and must not have touched the server.

use crate::server;
use crate::support::{Run, Scratch, median, number, one_at_a_time, run, scenario};
use crate::tap::{Served, Tap};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

struct Observed {
    /// Goes away with this value, unless a test fails: then it explains the failure.
    _scratch: Scratch,
    run: Run,
    /// What the server saw, by request number.
    served: HashMap<u64, Served>,
    /// `llamacpp:prompt_tokens_cached_total` at the end.
    cached_tokens: f64,
    /// `llamacpp:prompt_tokens_total` at the end.
    prompt_tokens: f64,
    /// `llamacpp:tokens_predicted_total` at the end.
    predicted_tokens: f64,
}

fn observe(name: &str) -> Observed {
    let _turn = one_at_a_time();
    let scratch = Scratch::new(name);
    let server = server::start(scratch.path());
    let tap = Tap::before(&server.url);
    let run = run(&scenario(name), &tap.url, &scratch.path().join("out"));
    let mut served = HashMap::new();
    for request in tap.served() {
        let number = request.number.expect("the request's number reaches the server");
        assert!(served.insert(number, request).is_none(), "request {number} reached the server twice");
    }
    let counter = |name: &str| server::counter(&server.url, &format!("llamacpp:{name}"));
    Observed {
        cached_tokens: counter("prompt_tokens_cached_total"),
        prompt_tokens: counter("prompt_tokens_total"),
        predicted_tokens: counter("tokens_predicted_total"),
        run,
        served,
        _scratch: scratch,
    }
}

impl Observed {
    /// One of the server's own figures for each of `requests`.
    fn timings<'a>(
        &'a self,
        requests: impl Iterator<Item = &'a Value> + 'a,
        figure: &'a str,
    ) -> impl Iterator<Item = f64> + 'a {
        requests
            .filter_map(move |request| self.served.get(&number(request))?.timings.as_ref()?[figure].as_f64())
    }

    fn assert_verdict(&self, kind: &str, exit: i32) {
        let said = &self.run.report["verdict"];
        assert_eq!(
            (said["kind"].as_str(), self.run.exit),
            (Some(kind), exit),
            "verdict and exit code; {said:#}"
        );
    }

    /// The journal holds a line for each request that a fault fired on, and a healed end.
    fn assert_journal(&self, fault: &str) {
        let fired: HashSet<u64> = self
            .run
            .journal
            .iter()
            .filter(|line| line["event"] == "fired" && line["fault"] == fault)
            .filter_map(|line| line["request"].as_u64())
            .collect();
        let faulted: HashSet<u64> = self.run.faulted().map(number).collect();
        assert!(!fired.is_empty(), "{fault} never fired");
        assert!(faulted.is_subset(&fired), "marked but not in the journal: {:?}", faulted.difference(&fired));
        assert!(
            self.run.journal.iter().any(|line| line["event"] == "healed"),
            "the journal never says that it ended"
        );
        for request in self.run.phase("baseline").chain(self.run.phase("recovery")) {
            assert!(!fired.contains(&number(request)), "{fault} fired outside its phase: {request}");
        }
    }
}

fn gaps(request: &Value) -> impl Iterator<Item = f64> + '_ {
    request["gaps"].as_array().into_iter().flatten().filter_map(Value::as_f64)
}

#[test]
fn slow_tokens_slow_the_client_and_not_the_server() {
    let seen = observe("slow-tokens");
    let client_baseline = median("client ITL, baseline (s)", 50, seen.run.phase("baseline").flat_map(gaps));
    let client_fault = median("client ITL, fault (s)", 50, seen.run.faulted().flat_map(gaps));
    let per_token = "predicted_per_token_ms";
    let server_baseline =
        median("server ms a token, baseline", 5, seen.timings(seen.run.phase("baseline"), per_token));
    let server_fault = median("server ms a token, fault", 5, seen.timings(seen.run.faulted(), per_token));
    assert!(client_fault >= 0.150, "every token was to be held for 150 ms");
    assert!(client_fault < 0.200, "held for much longer than asked");
    assert!(server_fault < 0.8 * 1e3 * client_fault, "the server itself was slow");
    assert!(server_fault < 3.0 * server_baseline, "the fault reached the server");
    assert!(
        (client_baseline * 1e3 - server_baseline).abs() < 0.4 * server_baseline,
        "with no fault armed client and server agree on the pace"
    );
    seen.assert_journal("slow-tokens");
    seen.assert_verdict("broken", 1);
}

#[test]
fn a_stall_is_a_gap_that_the_server_never_made() {
    let seen = observe("stall");
    let faulted: Vec<_> = seen.run.faulted().collect();
    assert!(faulted.len() >= 5, "only {} requests stalled", faulted.len());
    for request in &faulted {
        let longest = gaps(request).fold(0.0, f64::max);
        let long = gaps(request).filter(|gap| *gap >= 1.4).count();
        assert!(longest >= 1.495 && long == 1, "one gap of 1.5 s was asked for: {request}");
        let at = gaps(request).position(|gap| gap >= 1.4);
        assert_eq!(at, Some(3), "it stands still before token 5, which is the fourth gap: {request}");
    }
    let decode = seen.timings(seen.run.faulted(), "predicted_ms");
    let server = median("server decode time of stalled requests (ms)", 5, decode);
    assert!(server < 1_400.0, "the server itself took as long as the stall");
    seen.assert_journal("stall");
    seen.assert_verdict("pass", 0);
}

#[test]
fn a_truncated_answer_is_shorter_than_what_the_server_said() {
    let seen = observe("truncate");
    let mut cut = 0;
    for request in seen.run.faulted() {
        let served = &seen.served[&number(request)];
        assert_eq!(request["chunks"], 4, "four tokens get through: {request}");
        assert_eq!(request["outcome"], "truncated_clean", "{request}");
        assert!(served.tokens > 4, "the server went on after the cut: {served:?}");
        cut += 1;
    }
    assert!(cut >= 5, "only {cut} answers were cut");
    for request in seen.run.phase("baseline") {
        assert_eq!(request["outcome"], "ok", "{request}");
        assert_eq!(
            request["outputTokens"].as_f64(),
            seen.served[&number(request)].timings.as_ref().unwrap()["predicted_n"].as_f64()
        );
    }
    seen.assert_journal("truncate");
    seen.assert_verdict("broken", 1);
}

#[test]
fn an_injected_error_never_reaches_the_server() {
    let seen = observe("http-error");
    // An error is whole at once: those of the last moment count too.
    let injected: HashSet<u64> = seen.run.hit().map(number).collect();
    assert!(injected.len() >= 5, "only {} errors were injected", injected.len());
    for request in seen.run.hit() {
        assert_eq!((&request["status"], &request["outcome"]), (&503.into(), &"http_5xx".into()), "{request}");
    }
    let reached: HashSet<u64> = seen.served.keys().copied().collect();
    assert!(
        injected.is_disjoint(&reached),
        "both injected and served: {:?}",
        injected.intersection(&reached)
    );
    let finished: HashSet<u64> =
        seen.run.requests.iter().filter(|request| request["outcome"] != "run_ended").map(number).collect();
    let missing: Vec<_> = finished.difference(&injected).filter(|number| !reached.contains(number)).collect();
    assert!(missing.is_empty(), "neither injected nor seen by the server: {missing:?}");
    let from_server: f64 =
        seen.served.values().filter_map(|served| served.timings.as_ref()?["predicted_n"].as_f64()).sum();
    assert!(seen.predicted_tokens >= from_server, "/metrics counts fewer tokens than the answers hold");
    seen.assert_journal("http-error");
    seen.assert_verdict("broken", 1);
}

#[test]
fn cache_busting_collapses_the_prefix_cache() {
    let seen = observe("cache-bust");
    let baseline =
        median("cached prompt tokens, baseline", 5, seen.timings(seen.run.phase("baseline"), "cache_n"));
    let fault = median("cached prompt tokens, fault", 5, seen.timings(seen.run.faulted(), "cache_n"));
    assert!(baseline >= 50.0, "the shared prefix was not cached to begin with");
    // What the chat template puts before the prompt is still shared.
    assert!(fault <= 0.25 * baseline, "the cache still hits");
    let prefill_baseline =
        median("server prefill ms, baseline", 5, seen.timings(seen.run.phase("baseline"), "prompt_ms"));
    let prefill_fault = median("server prefill ms, fault", 5, seen.timings(seen.run.faulted(), "prompt_ms"));
    assert!(prefill_fault > 1.5 * prefill_baseline, "the server had no more work than before");
    let cached: f64 =
        seen.served.values().filter_map(|served| served.timings.as_ref()?["cache_n"].as_f64()).sum();
    let prompt: f64 =
        seen.served.values().filter_map(|served| served.timings.as_ref()?["prompt_n"].as_f64()).sum();
    println!(
        "/metrics: {} cached, {} processed; answers: {cached} and {prompt}",
        seen.cached_tokens, seen.prompt_tokens
    );
    assert!(
        seen.cached_tokens >= cached && seen.prompt_tokens >= prompt,
        "/metrics counts less than the answers hold"
    );
    seen.assert_journal("cache-bust");
    seen.assert_verdict("broken", 1);
}
