//! Arming, healing, and every way that a fault ends.

use crate::support::{Bench, Client, Do, End, STREAM_HEAD, Server, chat, chat_stream, chunk, plan, token};
use std::time::{Duration, Instant};

const STALL: &str = "- {name: stuck, stall: {atToken: 2, for: 50s}}";

/// A stream that is stuck before its second token.
async fn stuck(bench: &Bench) -> Client {
    let mut client = bench.client().await;
    client.send(chat(true)).await;
    client.until("word0").await;
    client
}

#[tokio::test]
async fn healed_streams_go_on_at_once() {
    let server = Server::saying(chat_stream(30)).await;
    let bench = Bench::start(&server.url());
    bench.arm(STALL);
    let mut client = stuck(&bench).await;
    assert!(bench.control.status().armed);
    assert!(bench.control.heal("asked"));
    client.until("[DONE]").await;
    assert!(!bench.control.heal("asked"), "nothing is armed any more");
    let fired = bench.fired();
    assert_eq!(fired.asked_ms, 50_000.0);
    assert!(fired.given_ms < 30_000.0, "it was let go early: {fired:?}");
    let status = bench.control.status();
    assert_eq!((status.armed, status.rules[0].fired), (false, 1));
    let next = bench.client().await.ask(chat(true)).await;
    assert_eq!(next.header("x-brownout-fault"), None);
}

#[tokio::test]
async fn a_plan_ends_by_itself() {
    let server = Server::saying(chat_stream(3)).await;
    let bench = Bench::start(&server.url());
    bench.control.arm(plan(STALL, "300ms"), None);
    let began = Instant::now();
    let mut client = stuck(&bench).await;
    client.until("[DONE]").await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    bench.status(|status| !status.armed).await;
}

#[tokio::test]
async fn a_window_ends_before_its_plan() {
    let server = Server::saying(chat_stream(3)).await;
    let bench = Bench::start(&server.url());
    bench.arm("- {name: stuck, stall: {atToken: 2, for: 50s}, when: {for: 300ms}}");
    let mut client = stuck(&bench).await;
    client.until("[DONE]").await;
    bench.status(|status| !status.rules[0].open).await;
    assert!(bench.control.status().armed);
    let fired = bench.fired();
    assert!(fired.asked_ms <= 300.0 && fired.note.ends_with("cut off as its window ended"), "{fired:?}");
    bench.arm("- {name: late, latency: {delay: {constant: 50s}}, when: {for: 300ms}}");
    bench.client().await.ask(chat(true)).await;
    let fired = bench.fired();
    assert!(fired.asked_ms <= 300.0 && fired.note.ends_with("cut off as its window ended"), "{fired:?}");
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_everything() {
    let server = Server::saying(chat_stream(3)).await;
    let bench = Bench::start(&server.url());
    bench.control.arm(plan(STALL, "60s"), Some(Duration::from_millis(300)));
    let mut client = stuck(&bench).await;
    assert!(bench.control.renew());
    assert!(bench.control.status().lease_left.is_some());
    client.until("[DONE]").await;
    assert!(!bench.control.status().armed);
    assert!(!bench.control.renew(), "what is over is not renewed");
}

#[tokio::test]
async fn a_new_plan_replaces_the_old_one() {
    let server = Server::saying(chat_stream(3)).await;
    let bench = Bench::start(&server.url());
    bench.arm(STALL);
    let mut client = stuck(&bench).await;
    bench.arm("- {name: down, httpError: {status: 503}}");
    client.until("[DONE]").await;
    assert_eq!(bench.client().await.ask(chat(true)).await.status(), 503);
}

#[tokio::test]
async fn held_requests_go_on_when_healed() {
    for fault in ["latency: {delay: {constant: 50s}}", "queue: {maxInFlight: 1}"] {
        let server = Server::start(|seen| match seen.path() {
            "/v1/chat/completions" => vec![Do::Send(STREAM_HEAD.to_vec()), Do::Wait],
            _ => vec![Do::Send(chat_stream(1))],
        })
        .await;
        let bench = Bench::start(&server.url());
        bench.arm(&format!("- {{name: held, {fault}}}"));
        let mut first = bench.client().await;
        first.send(chat(true)).await;
        bench.traffic(|traffic| traffic.in_flight == 1).await;
        let mut second = bench.client().await;
        second.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
        bench.traffic(|traffic| traffic.in_flight == 2).await;
        bench.control.heal("asked");
        assert_eq!(second.answer().await.end, End::Complete, "{fault}");
    }
}

#[tokio::test]
async fn plans_come_and_go_under_streams() {
    let server = Server::saying(chat_stream(200)).await;
    let bench = Bench::with(&server.url(), |config| config.workers = 2);
    let streams: Vec<_> = (0..40)
        .map(|_| {
            let addr = bench.addr;
            tokio::spawn(async move {
                let mut client = Client::connect(addr).await;
                let mut tokens = Vec::new();
                for _ in 0..5 {
                    let answer = client.ask(chat(true)).await;
                    assert_eq!((answer.status(), answer.end), (200, End::Complete));
                    tokens.push((answer.count("word"), answer.count("[DONE]")));
                }
                tokens
            })
        })
        .collect();
    let control = bench.control.clone();
    let rearming = tokio::spawn(async move {
        loop {
            control.arm(plan("- {name: slow, slowTokens: {delay: {constant: 2ms}}}", "60s"), None);
            tokio::time::sleep(Duration::from_millis(10)).await;
            control.heal("asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    for stream in streams {
        for answer in stream.await.expect("no stream failed") {
            assert_eq!(answer, (200, 1), "not a token was lost or doubled");
        }
    }
    rearming.abort();
}

#[tokio::test]
async fn what_is_in_flight_finishes_before_the_end() {
    let server = Server::start(|_| {
        vec![
            Do::Send(STREAM_HEAD.to_vec()),
            Do::Send(chunk(&token(0))),
            Do::Wait,
            Do::Send(b"0\r\n\r\n".to_vec()),
        ]
    })
    .await;
    let mut bench = Bench::start(&server.url());
    let mut busy = bench.client().await;
    busy.send(chat(true)).await;
    busy.until("word0").await;
    let mut idle = bench.client().await;
    bench.traffic(|traffic| traffic.accepted == 2).await;
    let proxy = bench.proxy.take().expect("it runs");
    let ending = tokio::task::spawn_blocking(move || proxy.shutdown(Duration::from_secs(30)));
    assert_eq!(idle.ends().await, End::Eof, "a connection with nothing on it is closed at once");
    // The listener closes in the same turn of the worker's loop, before or after that connection.
    while tokio::net::TcpStream::connect(bench.addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
    server.go_on();
    assert_eq!(busy.answer_rest().await, End::Complete);
    ending.await.expect("it ends when all is done");
}

#[tokio::test]
async fn grace_has_an_end() {
    let server =
        Server::start(|_| vec![Do::Send(STREAM_HEAD.to_vec()), Do::Send(chunk(&token(0))), Do::Wait]).await;
    let mut bench = Bench::start(&server.url());
    let mut busy = bench.client().await;
    busy.send(chat(true)).await;
    busy.until("word0").await;
    let proxy = bench.proxy.take().expect("it runs");
    tokio::task::spawn_blocking(move || proxy.shutdown(Duration::from_millis(50))).await.expect("it ends");
    assert_ne!(busy.answer_rest().await, End::Complete);
}

#[tokio::test]
async fn the_admin_address_tells_and_heals() {
    let server = Server::saying(chat_stream(3)).await;
    let bench = Bench::with(&server.url(), |config| config.admin = Some(([127, 0, 0, 1], 0).into()));
    bench.arm("- {name: slow, slowTokens: {delay: {constant: 1ms}}}");
    assert_eq!(bench.client().await.ask(chat(true)).await.end, End::Complete);
    bench.traffic(|traffic| traffic.in_flight == 0).await;
    let proxy = bench.proxy.as_ref().expect("it runs");
    let mut admin = Client::connect(proxy.admin_addr().expect("it has one")).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(admin.ask(get("/ready")).await.status(), 200);
    assert_eq!(admin.ask(get("/live")).await.status(), 200);
    let metrics = admin.ask(get("/metrics")).await.text();
    for line in [
        "brownout_requests_total{origin=\"injected\",outcome=\"ok\"} 1",
        "brownout_fault_fired_total{fault=\"slow\",kind=\"slowTokens\"} 1",
        "brownout_token_events_total 3",
        "brownout_ttft_seconds_count 1",
        "brownout_armed 1",
    ] {
        assert!(metrics.lines().any(|each| each == line), "{line} is not in\n{metrics}");
    }
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    let plan: serde_json::Value = serde_json::from_str(&admin.ask(get("/plan")).await.text()).expect("JSON");
    assert_eq!((plan["armed"].as_bool(), plan["rules"][0]["fired"].as_u64()), (Some(true), Some(1)));
    assert_eq!(admin.ask(get("/heal")).await.status(), 405, "reading must not heal");
    let healed = admin.ask("POST /heal HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(healed.text(), r#"{"healed":true}"#);
    assert!(!bench.control.status().armed);
    assert_eq!(admin.ask(get("/nothing")).await.status(), 404);
}
