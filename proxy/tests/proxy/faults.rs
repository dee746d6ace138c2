//! Each fault kind over real sockets: what the client gets, what the server saw, what the journal says.

use crate::support::{
    Answer, Bench, Client, Do, End, GET, STREAM_HEAD, Server, chat, chat_json, chat_stream, chunk,
    json_answer, post, token,
};
use brownout_proxy::{Origin, Outcome};
use std::time::{Duration, Instant};

const TOKENS: usize = 8;

/// A proxy with these faults armed before a server that streams eight tokens, or answers JSON where not asked to.
async fn broken(faults: &str) -> (Server, Bench) {
    let server = Server::start(|seen| {
        let stream = String::from_utf8_lossy(&seen.body).contains("\"stream\":true");
        vec![Do::Send(if stream { chat_stream(TOKENS) } else { chat_json().into_bytes() })]
    })
    .await;
    let bench = Bench::start(&server.url());
    bench.arm(faults);
    (server, bench)
}

async fn stream(bench: &Bench) -> Answer {
    bench.client().await.ask(chat(true)).await
}

/// The moment that the `n`th token (from 1) had come.
fn token_time(answer: &Answer, n: usize) -> Instant {
    let end = answer.text().find(&format!("word{}", n - 1)).expect("the token is there");
    answer.times.iter().find(|(_, bytes)| *bytes > end).expect("it came at some time").0
}

fn took(asked_ms: f64, given: Duration) {
    let given = given.as_secs_f64() * 1e3;
    // Early by the timer's step at most; late by whatever a busy machine takes.
    assert!(given > asked_ms - 2.5, "asked {asked_ms} ms, given {given} ms");
    assert!(given < asked_ms + 500.0, "asked {asked_ms} ms, given {given} ms");
}

#[tokio::test]
async fn latency_comes_before_the_headers() {
    let (server, bench) = broken("- {name: late, latency: {delay: {constant: 80ms}}}").await;
    let mut client = bench.client().await;
    let began = Instant::now();
    client.send(chat(true)).await;
    client.head().await.expect("an answer");
    took(80.0, began.elapsed());
    client.until("[DONE]").await;
    let fired = bench.fired();
    assert_eq!((fired.fault.as_str(), fired.kind.as_str(), fired.touched), ("late", "latency", 1));
    assert_eq!(fired.asked_ms, 80.0);
    took(80.0, Duration::from_secs_f64(fired.given_ms / 1e3));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_first_token_is_held_while_headers_are_there() {
    let (_server, bench) = broken("- {name: prefill, firstTokenDelay: {delay: {constant: 80ms}}}").await;
    let mut client = bench.client().await;
    client.send(chat(true)).await;
    let head = client.head().await.expect("an answer");
    assert!(head.contains("x-brownout-fault: prefill\r\n"), "{head}");
    let began = Instant::now();
    client.until("word0").await;
    // The head may lie a little behind the moment that the hold began.
    assert!(began.elapsed() > Duration::from_millis(40));
    client.until("[DONE]").await;
    assert_eq!(bench.fired().asked_ms, 80.0);
}

#[tokio::test]
async fn slow_tokens_are_held_one_by_one() {
    let (_server, bench) = broken("- {name: slow, slowTokens: {delay: {constant: 15ms}}}").await;
    // Each from the very beginning: a busy machine may read one late, and see too short a gap behind it.
    let began = Instant::now();
    let answer = stream(&bench).await;
    assert_eq!((answer.end, answer.count("word"), answer.count("[DONE]")), (End::Complete, TOKENS, 1));
    for n in 2..=TOKENS {
        took(15.0 * (n - 1) as f64, token_time(&answer, n) - began);
    }
    let fired = bench.fired();
    assert!(fired.touched >= TOKENS as u64 - 1, "{fired:?}");
    took(fired.asked_ms, Duration::from_secs_f64(fired.given_ms / 1e3));
}

#[tokio::test]
async fn tokens_keep_the_pace_that_is_asked() {
    let (_server, bench) = broken("- {name: pace, slowTokens: {tokensPerSecond: 50}}").await;
    let began = Instant::now();
    let answer = stream(&bench).await;
    took(20.0 * (TOKENS - 1) as f64, token_time(&answer, TOKENS) - began);
}

#[tokio::test]
async fn a_stalled_stream_goes_on_after_a_while() {
    let (_server, bench) = broken("- {name: stuck, stall: {atToken: 4, for: 90ms}}").await;
    // From the very beginning: a busy machine may read the tokens before the stall late, and see too short a gap.
    let began = Instant::now();
    let answer = stream(&bench).await;
    assert_eq!((answer.end, answer.count("word")), (End::Complete, TOKENS));
    took(90.0, token_time(&answer, 4) - began);
    assert!(token_time(&answer, 3) < token_time(&answer, 4), "three tokens come before the stall");
    let fired = bench.fired();
    assert_eq!((fired.asked_ms, fired.touched), (90.0, 1));
    took(90.0, Duration::from_secs_f64(fired.given_ms / 1e3));
}

#[tokio::test]
async fn a_truncated_answer_ends_orderly() {
    for (finish, done, reason) in [("none", 0, 0), ("length", 1, 1)] {
        let (_server, bench) =
            broken(&format!("- {{name: cut, truncate: {{afterTokens: 3, finish: {finish}}}}}")).await;
        let answer = stream(&bench).await;
        assert_eq!((answer.end, answer.count("word")), (End::Complete, 3), "{}", answer.text());
        assert_eq!((answer.count("[DONE]"), answer.count("\"length\"")), (done, reason), "{}", answer.text());
        assert_eq!(answer.header("x-brownout-fault").as_deref(), Some("cut"));
        assert_eq!(bench.fired().touched, 1);
        bench.traffic(|traffic| traffic.finished(Origin::Injected, Outcome::Ok) == 1).await;
    }
}

#[tokio::test]
async fn what_a_fault_cuts_off_is_cancelled_at_the_server() {
    for fault in ["truncate: {afterTokens: 1}", "disconnect: {afterTokens: 1}"] {
        let mut server = Server::start(|_| {
            let tokens = [chunk(&token(0)), chunk(&token(1))].concat();
            vec![Do::Send(STREAM_HEAD.to_vec()), Do::Send(tokens), Do::Wait]
        })
        .await;
        let bench = Bench::start(&server.url());
        bench.arm(&format!("- {{name: cut, {fault}}}"));
        assert_eq!(stream(&bench).await.count("word"), 1);
        server.closed.recv().await.expect("the proxy leaves the server");
    }
}

#[tokio::test]
async fn connections_are_cut_before_headers_and_in_the_middle() {
    for (close, end) in [("rst", End::Reset), ("fin", End::Eof)] {
        let (server, bench) = broken(&format!("- {{name: cut, disconnect: {{close: {close}}}}}")).await;
        let answer = stream(&bench).await;
        assert_eq!((answer.head.as_str(), answer.end), ("", end));
        assert_eq!((server.seen().len(), bench.fired().touched), (0, 1));
        bench.traffic(|traffic| traffic.finished(Origin::Injected, Outcome::Unanswered) == 1).await;

        let (_server, bench) =
            broken(&format!("- {{name: cut, disconnect: {{afterTokens: 3, close: {close}}}}}")).await;
        let answer = stream(&bench).await;
        assert_eq!((answer.end, answer.count("word")), (end, 3), "{}", answer.text());
        assert_eq!(bench.fired().touched, 1);
        bench.traffic(|traffic| traffic.finished(Origin::Injected, Outcome::Cut) == 1).await;
    }
}

#[tokio::test]
async fn an_http_error_speaks_as_the_provider_does() {
    let (server, bench) =
        broken("- {name: down, httpError: {status: 503, retryAfter: {in: 2s, as: seconds}}}").await;
    let answer = stream(&bench).await;
    assert_eq!((answer.status(), answer.end), (503, End::Complete));
    assert_eq!(answer.header("retry-after").as_deref(), Some("2"));
    assert_eq!(answer.header("x-brownout-fault").as_deref(), Some("down"));
    assert!(answer.text().contains(r#""error":{"#), "{}", answer.text());
    let answer = bench.client().await.ask(post("/v1/messages", "{}")).await;
    assert!(answer.text().contains(r#""type":"error""#), "{}", answer.text());
    assert_eq!(server.seen().len(), 0);
    assert_eq!(bench.fired().note, "answered 503");
    bench.traffic(|traffic| traffic.finished(Origin::Injected, Outcome::ServerError) == 2).await;
}

#[tokio::test]
async fn a_rate_limit_refuses_what_is_over_it() {
    let (server, bench) = broken("- {name: quota, rateLimit: {requestsPerMinute: 60}}").await;
    let mut client = bench.client().await;
    let mut last = client.ask(chat(false)).await;
    assert_eq!(last.status(), 200);
    assert!(last.header("x-ratelimit-remaining-requests").is_some(), "{}", last.head);
    for _ in 0..200 {
        last = client.ask(chat(false)).await;
        if last.status() != 200 {
            break;
        }
    }
    assert_eq!(last.status(), 429);
    let wait: u64 = last.header("retry-after").expect("it tells").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    assert!(!server.seen().is_empty());
    assert!(bench.fired().note.contains("requests"));
}

#[tokio::test]
async fn corrupted_tokens_stay_valid_events() {
    let (_server, bench) = broken("- {name: garbled, corruptTokens: {how: repeat, share: 1}}").await;
    let answer = stream(&bench).await;
    assert_eq!((answer.end, answer.count("[DONE]")), (End::Complete, 1));
    assert_eq!(answer.count("word1 word1 "), 1, "{}", answer.text());
    for line in answer.text().lines().filter_map(|line| line.strip_prefix("data: {")) {
        serde_json::from_str::<serde_json::Value>(&format!("{{{line}")).expect("still JSON");
    }
}

#[tokio::test]
async fn a_malformed_stream_is_malformed_once() {
    let (_server, bench) = broken("- {name: broken, malformedStream: {how: badJson, atToken: 5}}").await;
    let answer = stream(&bench).await;
    let bad = answer
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]" && serde_json::from_str::<serde_json::Value>(data).is_err())
        .count();
    assert_eq!((answer.end, bad), (End::Complete, 1), "{}", answer.text());
}

#[tokio::test]
async fn an_inband_error_comes_inside_a_good_answer() {
    let (_server, bench) =
        broken("- {name: oops, inbandError: {atToken: 4, status: 500, thenDone: true}}").await;
    let answer = stream(&bench).await;
    assert_eq!((answer.status(), answer.end), (200, End::Complete));
    assert_eq!((answer.count("\"error\""), answer.count("[DONE]")), (1, 1), "{}", answer.text());
    bench.traffic(|traffic| traffic.inband_errors == 1).await;
}

#[tokio::test]
async fn an_empty_answer_says_nothing() {
    let (_server, bench) = broken("- {name: mute, emptyResponse: {how: content}}").await;
    let answer = stream(&bench).await;
    assert_eq!((answer.status(), answer.end, answer.count("word")), (200, End::Complete, 0));
    let answer = bench.client().await.ask(chat(false)).await;
    assert_eq!((answer.status(), answer.end, answer.count("one two")), (200, End::Complete, 0));
    let (_server, bench) = broken("- {name: mute, emptyResponse: {how: body}}").await;
    for stream in [true, false] {
        let answer = bench.client().await.ask(chat(stream)).await;
        assert_eq!((answer.status(), answer.end, answer.text().as_str()), (200, End::Complete, ""));
    }
}

#[tokio::test]
async fn a_thin_line_lets_bytes_trickle() {
    let server = Server::saying(json_answer(&"x".repeat(2_000))).await;
    let bench = Bench::start(&server.url());
    bench.arm("- {name: thin, bandwidth: {bytesPerSecond: 10000}}");
    for request in [GET.to_owned(), chat(false)] {
        let began = Instant::now();
        let answer = bench.client().await.ask(request).await;
        assert_eq!((answer.end, answer.body.len()), (End::Complete, 2_000));
        took(200.0, began.elapsed());
        assert!(answer.times.len() > 3, "{} pieces", answer.times.len());
    }
}

#[tokio::test]
async fn a_black_hole_answers_nobody_and_ends_with_the_fault() {
    let (server, bench) = broken("- {name: hole, blackhole: {}, when: {for: 100ms}}").await;
    let mut client = bench.client().await;
    let began = Instant::now();
    client.send(chat(true)).await;
    assert_eq!(client.ends().await, End::Eof);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!((server.seen().len(), bench.fired().touched), (0, 1));
}

#[tokio::test]
async fn a_client_that_leaves_a_black_hole_is_noted() {
    let (_server, bench) = broken("- {name: hole, blackhole: {}}").await;
    let mut client = bench.client().await;
    client.send(chat(true)).await;
    bench.traffic(|traffic| traffic.in_flight == 1).await;
    drop(client);
    assert_eq!(bench.fired().kind, "blackhole");
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::ClientLeft) == 1).await;
}

#[tokio::test]
async fn a_queue_lets_in_as_many_as_it_has_places() {
    let server = Server::start(|_| vec![Do::Wait, Do::Send(chat_json().into_bytes())]).await;
    let bench = Bench::start(&server.url());
    bench.arm("- {name: slots, queue: {maxInFlight: 1, maxWaiting: 1}}");
    let mut clients: Vec<Client> = Vec::new();
    for n in 1..=2 {
        let mut client = bench.client().await;
        client.send(chat(false)).await;
        clients.push(client);
        bench.traffic(|traffic| traffic.in_flight == n).await;
    }
    let answer = bench.client().await.ask(chat(false)).await;
    assert_eq!((answer.status(), answer.header("x-brownout-fault").as_deref()), (503, Some("slots")));
    assert_eq!(server.seen().len(), 1, "the second waits");
    server.go_on();
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    assert_eq!(server.seen().len(), 2);
    let notes = [bench.fired().note, bench.fired().note];
    assert_eq!(notes, ["found no place, answered 503", "waited for a place"]);
}

#[tokio::test]
async fn a_queue_loses_patience() {
    let server = Server::start(|_| vec![Do::Wait]).await;
    let bench = Bench::start(&server.url());
    bench.arm("- {name: slots, queue: {maxInFlight: 1, timeout: 50ms}}");
    let mut first = bench.client().await;
    first.send(chat(false)).await;
    bench.traffic(|traffic| traffic.in_flight == 1).await;
    let began = Instant::now();
    assert_eq!(bench.client().await.ask(chat(false)).await.status(), 503);
    took(50.0, began.elapsed());
}

#[tokio::test]
async fn a_prompt_too_long_is_refused() {
    let (server, bench) = broken("- {name: long, contextOverflow: {limit: 2}}").await;
    let answer = stream(&bench).await;
    assert_eq!((answer.status(), server.seen().len()), (400, 0), "{}", answer.text());
    assert!(answer.text().contains("context"), "{}", answer.text());
}

#[tokio::test]
async fn another_model_answers() {
    let (_server, bench) = broken("- {name: other, wrongModel: {how: swapped, model: draft}}").await;
    for stream in [true, false] {
        let answer = bench.client().await.ask(chat(stream)).await;
        assert_eq!(answer.count(r#""model":"tiny""#), 0, "{}", answer.text());
        assert!(answer.count(r#""model":"draft""#) >= 1, "{}", answer.text());
        assert_eq!(answer.end, End::Complete);
    }
}

#[tokio::test]
async fn each_prompt_gets_a_beginning_of_its_own() {
    let (server, bench) = broken("- {name: cold, cacheBust: {}}").await;
    for _ in 0..2 {
        assert_eq!(stream(&bench).await.status(), 200);
    }
    let seen = server.seen();
    let bodies: Vec<String> =
        seen.iter().map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).collect();
    assert!(bodies.iter().all(|body| body.contains("Say something.")), "{bodies:?}");
    assert_ne!(bodies[0], bodies[1]);
    assert!(bodies[0].len() > chat(true).split("\r\n\r\n").nth(1).expect("a body").len());
    assert_eq!(bench.fired().touched, 1);
}

#[tokio::test]
async fn tool_calls_break_and_nothing_else_does() {
    let call = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{\"q\":1}"}}]},"finish_reason":null}]}"#;
    let mut answer = STREAM_HEAD.to_vec();
    answer.extend(chunk(&format!("{call}\n\n")));
    answer.extend(chunk("data: [DONE]\n\n"));
    answer.extend(b"0\r\n\r\n");
    let server = Server::saying(answer).await;
    let bench = Bench::start(&server.url());
    bench.arm("- {name: tools, toolCallFault: {how: unknownTool}}");
    let answer = stream(&bench).await;
    assert_eq!((answer.end, answer.count("\"look\"")), (End::Complete, 0), "{}", answer.text());
    assert_eq!(bench.fired().kind, "toolCallFault");
}

#[tokio::test]
async fn only_named_probes_flap() {
    let (_server, bench) = broken("- {name: probes, probeFlap: {paths: [/health], status: 503}}").await;
    let mut client = bench.client().await;
    assert_eq!(client.ask("GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await.status(), 503);
    assert_eq!(client.ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.status(), 200);
    assert_eq!(client.ask(chat(false)).await.status(), 200);
}

#[tokio::test]
async fn probes_are_exempt_unless_named() {
    let (_server, bench) = broken("- {name: down, httpError: {status: 500}}").await;
    let mut client = bench.client().await;
    assert_eq!(client.ask("GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await.status(), 200);
    assert_eq!(client.ask(chat(false)).await.status(), 500);
}

#[tokio::test]
async fn the_meter_lies() {
    let (_server, bench) = broken("- {name: lie, usageLie: {factor: 10}}").await;
    for stream in [true, false] {
        let tokens = if stream { TOKENS } else { 3 };
        let answer = bench.client().await.ask(chat(stream)).await;
        let told = format!(r#""completion_tokens":{}"#, tokens * 10);
        assert_eq!((answer.end, answer.count(&told)), (End::Complete, 1), "{}", answer.text());
    }
}

#[tokio::test]
async fn faults_compose_in_file_order() {
    let (_server, bench) = broken(
        "- {name: slow, slowTokens: {delay: {constant: 10ms}}}\n- {name: cut, truncate: {afterTokens: 2}}\n\
         - {name: never, malformedStream: {how: badJson, atToken: 5}}",
    )
    .await;
    let answer = stream(&bench).await;
    assert_eq!((answer.end, answer.count("word")), (End::Complete, 2));
    assert_eq!(answer.header("x-brownout-fault").as_deref(), Some("slow, cut, never"));
    let fired = [bench.fired(), bench.fired()];
    assert_eq!((fired[0].fault.as_str(), fired[1].fault.as_str()), ("slow", "cut"));
    bench.traffic(|traffic| traffic.in_flight == 0).await;
    let rules = bench.control.status().rules;
    let counts: Vec<_> = rules.iter().map(|rule| (rule.eligible, rule.chosen, rule.fired)).collect();
    assert_eq!(counts, [(1, 1, 1), (1, 1, 1), (1, 1, 0)]);
}

#[tokio::test]
async fn decisions_follow_the_request_number_on_any_connection() {
    let (_server, bench) = broken("- {name: some, httpError: {status: 500}, when: {probability: 0.5}}").await;
    let numbered = |n: u64| {
        chat(false)
            .replace("Host: model.test\r\n", &format!("Host: model.test\r\nx-brownout-request: {n}\r\n"))
    };
    let mut one = Vec::new();
    let mut client = bench.client().await;
    for n in 0..64 {
        one.push(client.ask(numbered(n)).await.status());
    }
    for n in (0..64).rev() {
        let status = bench.client().await.ask(numbered(n)).await.status();
        assert_eq!(status, one[n as usize], "request {n}");
    }
    let failed = one.iter().filter(|status| **status == 500).count();
    assert!((15..=49).contains(&failed), "{failed} of 64");
}

#[tokio::test]
async fn a_compressed_answer_is_not_asked_for_while_it_is_read() {
    let (server, bench) = broken("- {name: slow, slowTokens: {delay: {constant: 1ms}}}").await;
    let request = chat(true).replace("Host:", "Accept-Encoding: gzip\r\nHost:");
    assert_eq!(bench.client().await.ask(request).await.count("word"), TOKENS);
    assert!(!server.seen()[0].head.to_ascii_lowercase().contains("accept-encoding"));
}

#[tokio::test]
async fn an_idle_server_meets_the_hold_at_once_when_it_speaks() {
    let server = Server::start(|_| {
        vec![
            Do::Send(STREAM_HEAD.to_vec()),
            Do::Wait,
            Do::Send(chunk(&token(0))),
            Do::Send(b"0\r\n\r\n".to_vec()),
        ]
    })
    .await;
    let bench = Bench::start(&server.url());
    bench.arm("- {name: slow, slowTokens: {delay: {constant: 40ms}}}");
    let mut client = bench.client().await;
    client.send(chat(true)).await;
    client.head().await.expect("headers are not held");
    let began = Instant::now();
    server.go_on();
    client.until("word0").await;
    took(40.0, began.elapsed());
}
