//! What happens over time: load, queues, disconnects, draining, bad weights.

mod support;

use std::time::Duration;

use brownout_sim::{Finish, SchedulerConfig, Sim, SimConfig, SimError, StepCost, Timing};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use support::{Client, metric, post};

fn ask(max_tokens: u32, stream: bool) -> Value {
    json!({
        "temperature": 0, "max_tokens": max_tokens, "ignore_eos": true, "stream": stream,
        "messages": [{"role": "user", "content": "Tell me about the river."}],
    })
}

fn brisk() -> Timing {
    Timing::Modelled(StepCost {
        base: Duration::from_millis(1),
        per_prefill_token: Duration::from_micros(1),
        per_decode_sequence: Duration::from_micros(1),
        per_context_token: Duration::ZERO,
        jitter: 0.0,
    })
}

/// Polls the server's gauge until it has this value; every poll is a round trip, and 20,000 of them mean never.
async fn until(client: &mut Client, name: &str, value: f64) {
    for _ in 0..20_000 {
        if metric(client.get("/metrics").await.text(), name) == value {
            return;
        }
    }
    panic!("{name} never became {value}");
}

#[tokio::test]
async fn a_client_that_goes_away_frees_slot_and_blocks_for_the_next() {
    for http2 in [false, true] {
        let scheduler = SchedulerConfig { max_num_seqs: 1, ..SchedulerConfig::default() };
        let config = SimConfig { scheduler, timing: brisk(), ..SimConfig::default() };
        let sim = Sim::start(config).await.expect("starts");
        let mut leaver =
            if http2 { Client::http2(sim.addr()).await } else { Client::http1(sim.addr()).await };
        let mut body = leaver.send(post("/v1/chat/completions", &ask(8000, true))).await.into_body();
        // Role, then at least one token: it holds the only slot.
        for _ in 0..2 {
            body.frame().await.expect("goes on").expect("a frame");
        }
        let mut watcher = Client::http1(sim.addr()).await;
        let mut next = Client::http1(sim.addr()).await;
        let waiting = tokio::spawn(async move { next.post("/v1/chat/completions", &ask(5, false)).await });
        until(&mut watcher, "vllm:num_requests_waiting", 1.0).await;
        drop(body);
        leaver.cut();
        let answer = waiting.await.expect("no panic").json();
        assert_eq!(answer["usage"]["completion_tokens"], 5);
        let truth = sim.truth();
        assert_eq!(
            truth.iter().map(|request| request.finish).collect::<Vec<_>>(),
            [Finish::Abort, Finish::Length]
        );
        assert!(truth[0].tokens < 8000);
        until(&mut watcher, "vllm:kv_cache_usage_perc", 0.0).await;
    }
}

#[tokio::test]
async fn a_request_that_waits_for_its_whole_answer_is_aborted_with_its_connection() {
    let sim = Sim::start(SimConfig { timing: brisk(), ..SimConfig::default() }).await.expect("starts");
    let mut watcher = Client::http1(sim.addr()).await;
    let mut leaver = Client::http1(sim.addr()).await;
    let call =
        tokio::spawn(async move { leaver.send(post("/v1/chat/completions", &ask(8000, false))).await });
    until(&mut watcher, "vllm:num_requests_running", 1.0).await;
    call.abort();
    until(&mut watcher, "vllm:num_requests_running", 0.0).await;
    assert_eq!(sim.truth()[0].finish, Finish::Abort);
}

#[tokio::test]
async fn tokens_take_longer_the_more_streams_there_are() {
    // Lower bounds only: a busy machine makes everything later and nothing earlier.
    let sim = Sim::start(SimConfig::default()).await.expect("starts");
    let streams = |count: usize| {
        let addr = sim.addr();
        async move {
            let tasks: Vec<_> = (0..count)
                .map(|_| {
                    tokio::spawn(async move {
                        let answer =
                            Client::http1(addr).await.post("/v1/chat/completions", &ask(20, true)).await;
                        assert_eq!(answer.chunks().len(), 22);
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("an answer");
            }
        }
    };
    streams(1).await;
    streams(40).await;
    let truth = sim.truth();
    assert_eq!(truth.len(), 41);
    let alone = truth[0].tpot().expect("twenty tokens");
    assert!(alone > Duration::from_millis(9), "{alone:?}");
    let mut tpots: Vec<Duration> = truth[1..].iter().filter_map(|request| request.tpot()).collect();
    tpots.sort_unstable();
    // 10 ms, and 40 streams x 150 us.
    assert!(tpots[20] > Duration::from_millis(14), "{tpots:?}");
}

#[tokio::test]
async fn fixed_timing_keeps_its_gaps_without_drift() {
    let (ttft, itl) = (Duration::from_millis(20), Duration::from_millis(5));
    let sim = Sim::start(SimConfig::fixed(ttft, itl)).await.expect("starts");
    let mut client = Client::http1(sim.addr()).await;
    // A busy machine may stall anything for a while, but hardly each of three tries at its end.
    for _ in 0..3 {
        client.post("/v1/chat/completions", &ask(100, true)).await;
    }
    let truth = sim.truth();
    let first = truth.iter().filter_map(|request| request.ttft()).min().expect("three requests");
    assert!(first >= ttft - Duration::from_millis(1), "{first:?}");
    let tpot = truth.iter().filter_map(|request| request.tpot()).min().expect("three requests");
    // A timer's millisecond lost on each gap would make it 6 ms. A late first token makes the rest come early.
    assert!(tpot > Duration::from_millis(4) && tpot < Duration::from_micros(5500), "{tpot:?}");
}

#[tokio::test]
async fn too_many_in_flight_are_refused_and_places_come_back() {
    let config = SimConfig { max_in_flight: 1, timing: brisk(), ..SimConfig::default() };
    let sim = Sim::start(config).await.expect("starts");
    let mut first = Client::http1(sim.addr()).await;
    let body = first.send(post("/v1/chat/completions", &ask(8000, true))).await.into_body();
    let mut second = Client::http1(sim.addr()).await;
    let refused = second.post("/v1/chat/completions", &ask(2, false)).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["error"]["code"], "overloaded");
    drop(body);
    first.cut();
    until(&mut second, "vllm:num_requests_running", 0.0).await;
    assert_eq!(second.post("/v1/chat/completions", &ask(2, false)).await.status, 200);
}

#[tokio::test]
async fn shutdown_lets_streams_finish_and_takes_no_new_connection() {
    let sim = Sim::start(SimConfig { timing: brisk(), ..SimConfig::default() }).await.expect("starts");
    let addr = sim.addr();
    let mut client = Client::http1(addr).await;
    let mut body = client.send(post("/v1/chat/completions", &ask(50, true))).await.into_body();
    body.frame().await.expect("goes on").expect("a frame");
    let ((), rest) = tokio::join!(sim.shutdown(), body.collect());
    let rest = rest.expect("a whole stream").to_bytes();
    assert!(rest.ends_with(b"data: [DONE]\n\n"));
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn shutdown_cuts_what_does_not_end_in_time() {
    let config = SimConfig {
        drain: Duration::from_millis(50),
        ..SimConfig::fixed(Duration::from_millis(1), Duration::from_secs(3600))
    };
    let sim = Sim::start(config).await.expect("starts");
    let mut client = Client::http1(sim.addr()).await;
    let body = client.send(post("/v1/chat/completions", &ask(50, true))).await.into_body();
    let ((), rest) = tokio::join!(sim.shutdown(), body.collect());
    assert!(rest.is_err(), "cut, and seen as cut");
}

#[tokio::test]
async fn the_weights_directory_is_kept_and_its_bytes_are_what_the_server_says() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().expect("a directory");
    let config = SimConfig {
        weights_dir: Some(dir.path().to_owned()),
        ..SimConfig::fixed(Duration::ZERO, Duration::ZERO)
    };
    let sim = Sim::start(config.clone()).await.expect("starts");
    let mut client = Client::http1(sim.addr()).await;
    let text = async |client: &mut Client| {
        let answer = client.post("/v1/chat/completions", &ask(60, false)).await.json();
        answer["choices"][0]["message"]["content"].as_str().expect("text").to_owned()
    };
    let before = text(&mut client).await;
    let path = sim.weights_path().expect("a directory was given").to_owned();
    let bytes = std::fs::read(&path).expect("readable");
    let file = std::fs::File::options().write(true).open(&path).expect("writable");
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    for at in (data..bytes.len()).step_by(67) {
        file.write_all_at(&[bytes[at] ^ 0x40], at as u64).expect("written");
    }
    let corrupted = text(&mut client).await;
    assert_ne!(before, corrupted, "the running server reads the changed bytes");
    sim.shutdown().await;

    // A restart loads the same bad values: the header is fine, so nothing complains, as in real servers.
    let again = Sim::start(config.clone()).await.expect("starts");
    assert_eq!(text(&mut Client::http1(again.addr()).await).await, corrupted);
    again.shutdown().await;

    file.write_all_at(b"\xff\xff\xff\xff\xff\xff\xff\x7f", 0).expect("written");
    let error = Sim::start(config).await.expect_err("a header that long cannot be");
    assert!(matches!(error, SimError::Weights(_)) && error.to_string().contains("header"), "{error}");
}

#[tokio::test]
async fn a_taken_port_and_impossible_sizes_are_errors() {
    let sim = Sim::start(SimConfig::default()).await.expect("starts");
    let taken = Sim::start(SimConfig { listen: sim.addr(), ..SimConfig::default() }).await;
    assert!(matches!(taken, Err(SimError::Listen { .. })), "{taken:?}");
    let scheduler = SchedulerConfig { kv_blocks: 1, ..SchedulerConfig::default() };
    let tiny = Sim::start(SimConfig { scheduler, ..SimConfig::default() }).await;
    assert!(matches!(tiny, Err(SimError::Config(_))), "{tiny:?}");
}
