//! Servers that fail and clients that misbehave: clear answers, bounded memory, no panic.

use crate::support::{Bench, Client, Do, End, GET, STREAM_HEAD, Server, chat, chat_json, chunk, token};
use brownout_proxy::{Failure, Origin, Outcome};
use std::time::Duration;
use tokio::net::TcpListener;

fn failures(bench: &Bench, name: &str) -> u64 {
    let at = Failure::NAMES.iter().position(|each| *each == name).expect("a name");
    bench.control.snapshot().failures[at]
}

/// An address where nobody listens.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    format!("http://{}", listener.local_addr().expect("bound"))
}

#[tokio::test]
async fn a_server_that_is_down_is_told_from_a_fault() {
    let bench = Bench::start(&nobody().await);
    let answer = bench.client().await.ask(chat(true)).await;
    assert_eq!((answer.status(), answer.end), (503, End::Complete));
    assert_eq!(answer.header("x-brownout-error").as_deref(), Some("upstream refused"));
    assert_eq!(answer.header("x-brownout-fault"), None);
    assert!(answer.text().contains("upstream refused"));
    assert_eq!(failures(&bench, "refused"), 1);
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::ServerError) == 1).await;
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_unreachable() {
    let bench = Bench::start("http://no-such-host.invalid:80");
    let answer = bench.client().await.ask(GET).await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.header("x-brownout-error").as_deref(), Some("upstream unreachable"));
}

#[tokio::test]
async fn a_server_that_closes_or_resets_before_an_answer_is_a_bad_gateway() {
    for step in [Do::Close, Do::Reset, Do::Send(b"HTTP/1.1 200 O".to_vec())] {
        let steps = vec![step, Do::Close];
        let server = Server::start(move |_| steps.clone()).await;
        let bench = Bench::start(&server.url());
        let answer = bench.client().await.ask(chat(false)).await;
        assert_eq!(answer.status(), 502);
        assert_eq!(failures(&bench, "reset"), 1);
        assert_eq!(server.seen().len(), 1, "a POST is not sent twice");
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_http_is_malformed() {
    let server = Server::start(|_| vec![Do::Send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec())]).await;
    let bench = Bench::start(&server.url());
    assert_eq!(bench.client().await.ask(GET).await.status(), 502);
    assert_eq!(failures(&bench, "malformed"), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_clean_end() {
    let mut cut = STREAM_HEAD.to_vec();
    cut.extend(chunk(&token(0)));
    let lying = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this".to_vec();
    for (answer, body) in [(cut, "word0"), (lying, "only this")] {
        for last in [Do::Close, Do::Reset] {
            let steps = vec![Do::Send(answer.clone()), Do::Wait, last];
            let server = Server::start(move |_| steps.clone()).await;
            let bench = Bench::start(&server.url());
            let mut client = bench.client().await;
            client.send(chat(true)).await;
            client.until(body).await;
            server.go_on();
            assert_ne!(client.answer_rest().await, End::Complete);
            bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::Cut) == 1).await;
        }
    }
}

#[tokio::test]
async fn what_came_before_a_break_reaches_the_client() {
    let mut cut = STREAM_HEAD.to_vec();
    for n in 0..3 {
        cut.extend(chunk(&token(n)));
    }
    let garbled = [&cut[..], b"no chunk\r\n"].concat();
    for sent in [cut, garbled] {
        let server = Server::start(move |_| vec![Do::Send(sent.clone()), Do::Close]).await;
        let bench = Bench::start(&server.url());
        // Held back or not: the break waits for the tokens that came before it.
        for faults in ["- {name: slow, slowTokens: {delay: {constant: 10ms}}}", "[]"] {
            bench.arm(faults);
            let answer = bench.client().await.ask(chat(true)).await;
            assert_eq!((answer.count("word"), answer.end), (3, End::Eof), "{faults}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_server_that_switches_protocols_unasked_is_malformed() {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\nhi";
    let server = Server::saying(*switch).await;
    let bench = Bench::start(&server.url());
    assert_eq!(bench.client().await.ask(chat(true)).await.status(), 502);
    assert_eq!(failures(&bench, "malformed"), 1);
}

#[tokio::test]
async fn a_kept_connection_that_died_costs_no_request() {
    // The server answers once on each connection and closes it without saying so.
    let server = Server::start(|_| vec![Do::Send(chat_json().into_bytes()), Do::Close]).await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    for _ in 0..20 {
        assert_eq!(client.ask(GET).await.status(), 200);
    }
}

#[tokio::test]
async fn a_slow_server_is_waited_for() {
    let server = Server::start(|_| vec![Do::Wait, Do::Send(chat_json().into_bytes())]).await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    client.send(chat(false)).await;
    bench.traffic(|traffic| traffic.in_flight == 1).await;
    server.go_on();
    assert_eq!(client.answer().await.status(), 200);
}

#[tokio::test]
async fn a_client_that_takes_it_for_a_forward_proxy_is_told() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    let answer = client.ask("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n").await;
    assert_eq!((answer.status(), answer.end), (405, End::Complete), "{}", answer.head);
    assert!(
        answer.header("x-brownout-error").is_some_and(|told| told.contains("base URL")),
        "{}",
        answer.head
    );
    assert_eq!(failures(&bench, "connect"), 1);
    assert_eq!(client.ask(GET).await.status(), 200, "the connection goes on");
    assert_eq!(server.seen().len(), 1);
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::ClientError) == 1).await;
}

#[tokio::test]
async fn a_huge_head_is_refused() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::with(&server.url(), |config| config.limits.header_bytes = 16 << 10);
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Big: {}\r\n\r\n", "x".repeat(40 << 10));
    let mut client = bench.client().await;
    client.send(request).await;
    let head = client.head().await.expect("an answer");
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn a_client_that_dawdles_over_its_head_is_cut() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::with(&server.url(), |config| config.limits.header_read = Duration::from_millis(100));
    let mut slow = bench.client().await;
    slow.send("GET / HTTP/1.1\r\nHost: a\r\nX-Slow").await;
    // One that is merely idle after a request is no such client.
    let mut idle = bench.client().await;
    assert_eq!(idle.ask(GET).await.status(), 200);
    assert_eq!(slow.ends().await, End::Eof);
    assert_eq!(idle.ask(GET).await.status(), 200);
}

#[tokio::test]
async fn an_idle_connection_is_not_kept_for_ever() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::with(&server.url(), |config| config.limits.idle = Duration::from_millis(100));
    let (mut silent, mut once) = (bench.client().await, bench.client().await);
    assert_eq!(once.ask(GET).await.status(), 200);
    assert_eq!(once.ends().await, End::Eof);
    assert_eq!(silent.ends().await, End::Eof);
}

#[tokio::test]
async fn a_request_that_breaks_off_goes_nowhere() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::start(&server.url());
    bench.arm("- {name: slow, slowTokens: {delay: {constant: 1ms}}}");
    let mut client = bench.client().await;
    client
        .send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{\"model\"")
        .await;
    bench.traffic(|traffic| traffic.in_flight == 1).await;
    drop(client);
    bench.traffic(|traffic| traffic.in_flight == 0).await;
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn a_client_that_sent_more_than_its_request_is_seen_to_leave_all_the_same() {
    let server = Server::start(|_| vec![Do::Wait, Do::Send(chat_json().into_bytes())]).await;
    for faults in ["[]", "- {name: hole, blackhole: {}}", "- {name: late, latency: {delay: {constant: 1h}}}"]
    {
        let bench = Bench::start(&server.url());
        bench.arm(faults);
        for more in [chat(false), "junk".to_owned(), "x".repeat(20_000)] {
            let mut client = bench.client().await;
            client.send(chat(false) + &more).await;
            bench.traffic(|traffic| traffic.in_flight == 1).await;
            drop(client);
            bench.traffic(|traffic| traffic.in_flight == 0).await;
        }
        assert_eq!(bench.control.snapshot().finished(Origin::Organic, Outcome::ClientLeft), 3, "{faults}");
    }
}

#[tokio::test]
async fn a_client_that_only_waits_is_not_taken_for_one_that_left() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::start(&server.url());
    // Longer than it takes to look twice whether the client is there.
    bench.arm("- {name: late, latency: {delay: {constant: 1200ms}}}");
    let mut client = bench.client().await;
    client.send(chat(false) + &chat(false)).await;
    for _ in 0..2 {
        assert_eq!(client.answer().await.status(), 200);
    }
}

#[tokio::test]
async fn a_body_too_large_to_read_passes_all_the_same() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::with(&server.url(), |config| config.limits.body_bytes = 1_000);
    bench.arm("- {name: slow, slowTokens: {delay: {constant: 1ms}}}");
    let big = "x".repeat(5_000);
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{big}\r\n0\r\n\r\n",
        big.len()
    );
    assert_eq!(bench.client().await.ask(request).await.status(), 200);
    let body = String::from_utf8_lossy(&server.seen()[0].body).into_owned();
    assert_eq!(body.matches('x').count(), 5_000);
    assert_eq!(bench.control.snapshot().unread_bodies, 1);
}

/// A thousand by default, as many as file descriptors allow up to ten thousand: both ends are in this process.
#[tokio::test]
async fn many_idle_connections_cost_little() {
    let limit = std::fs::read_to_string("/proc/self/limits").expect("this is Linux");
    let files: usize = limit
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .and_then(|line| line.split_whitespace().nth(3)?.parse().ok())
        .unwrap_or(1_024);
    let count = (files.saturating_sub(500) / 2).min(10_000);
    let server = Server::saying(chat_json()).await;
    let bench = Bench::start(&server.url());
    // The allocator and the runtime reach their usual size first.
    assert_eq!(bench.client().await.ask(GET).await.status(), 200);
    let before = resident();
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        idle.push(bench.client().await);
    }
    bench.traffic(|traffic| traffic.accepted == count as u64 + 1).await;
    let each = resident().saturating_sub(before) / count;
    assert!(each < 8 << 10, "{each} bytes for each of {count} connections, both ends");
    assert_eq!(bench.client().await.ask(GET).await.status(), 200, "and it still answers");
    for client in idle.iter_mut().step_by(count / 10 + 1) {
        assert_eq!(client.ask(GET).await.status(), 200);
    }
}

/// 256 MiB through the proxy to a client that reads slowly: what is not read yet waits at the server.
#[tokio::test]
async fn a_large_answer_takes_no_memory() {
    const PIECE: usize = 64 << 10;
    const PIECES: usize = 4096;
    for (faults, head) in [
        ("", format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", PIECE * PIECES)),
        (
            "- {name: thin, bandwidth: {bytesPerSecond: 100000000000}}",
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                PIECE * PIECES
            ),
        ),
    ] {
        let server = Server::start(move |_| {
            vec![Do::Send(head.clone().into_bytes()), Do::SendTimes(vec![b'x'; PIECE], PIECES)]
        })
        .await;
        let bench = Bench::start(&server.url());
        if !faults.is_empty() {
            bench.arm(faults);
        }
        let mut client: Client = bench.client().await;
        client.send(chat(false)).await;
        client.head().await.expect("an answer");
        let before = resident();
        let (read, most) = client.drain(resident).await;
        assert!(read >= PIECE * PIECES, "{read}");
        let grown = most.saturating_sub(before);
        // Other tests run in this process meanwhile; a proxy that kept the answer would grow by all of it.
        assert!(grown < 96 << 20, "grew by {grown} bytes");
    }
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    let pages: usize = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    pages * 4096
}
