//! Nothing armed: every byte arrives as it was sent, and is counted.

use crate::support::{
    Bench, Do, End, GET, STREAM_HEAD, Server, chat, chat_json, chat_stream, chunk, post, token,
};
use brownout_proxy::{Origin, Outcome};
use proptest::prelude::*;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_request_and_its_answer_pass_unchanged() {
    let server = Server::saying(
        "HTTP/1.1 201 Created\r\nX-Custom-Case: Yes\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
    )
    .await;
    let bench = Bench::start(&format!("{}/prefix", server.url()));
    let answer = bench.client().await.ask(post("/v1/chat/completions?x=1", r#"{"a": 1 }"#)).await;
    assert_eq!(answer.head, "HTTP/1.1 201 Created\r\nX-Custom-Case: Yes\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(answer.text(), "hello");
    let seen = &server.seen()[0];
    assert_eq!(
        seen.head,
        "POST /prefix/v1/chat/completions?x=1 HTTP/1.1\r\nHost: model.test\r\nContent-Type: application/json\r\n\
         Content-Length: 9\r\n\r\n"
    );
    assert_eq!(seen.body, br#"{"a": 1 }"#);
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::Ok) == 1).await;
}

/// Each side may write its header names as it likes, whatever the other does, on every connection.
#[tokio::test]
async fn header_names_pass_as_they_were_written() {
    const LOWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n";
    const CAPITALS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n";
    const ASKS_LOWER: &str = "GET /lower HTTP/1.1\r\nhost: model.test\r\nx-mine: 1\r\n\r\n";
    const ASKS_CAPITALS: &str = "GET /capitals HTTP/1.1\r\nHost: model.test\r\nX-Mine: 1\r\n\r\n";
    // This server spells as it was asked to, and closes: each request has connections of its own.
    let server = Server::start(|seen| {
        let answer = if seen.path() == "/lower" { LOWER } else { CAPITALS };
        vec![Do::Send(answer.into()), Do::Close]
    })
    .await;
    let bench = Bench::start(&server.url());
    for round in 0..4 {
        // From the second on it is known how the server has spelled so far.
        let asks = if round % 2 == 0 { ASKS_LOWER } else { ASKS_CAPITALS };
        let answer = bench.client().await.ask(asks).await;
        assert_eq!(server.seen()[round].head, asks);
        // Only the first answer with capitals of a server that wrote none before is not known as such in time.
        if round != 1 {
            assert_eq!(answer.head, if round % 2 == 0 { LOWER } else { CAPITALS });
        }
    }
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    for _ in 0..20 {
        assert_eq!(client.ask(chat(false)).await.status(), 200);
    }
    let traffic = bench.control.snapshot();
    assert_eq!((traffic.accepted, traffic.upstream_connections, traffic.requests), (1, 1, 20));
}

#[tokio::test]
async fn every_event_of_a_stream_is_counted_and_timed() {
    let server = Server::start(|_| {
        vec![
            Do::Send(STREAM_HEAD.to_vec()),
            Do::Send(chunk(&token(0))),
            Do::Wait,
            Do::Send(chat_stream(3)[STREAM_HEAD.len()..].to_vec()),
        ]
    })
    .await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    client.send(chat(true)).await;
    client.head().await.expect("an answer");
    client.until("word0").await;
    assert_eq!(bench.control.snapshot().streams_in_flight, 1);
    server.go_on();
    client.until("[DONE]").await;
    bench.traffic(|traffic| traffic.in_flight == 0).await;
    let traffic = bench.control.snapshot();
    assert_eq!((traffic.streams, traffic.streams_in_flight, traffic.unfinished), (1, 0, 0));
    // A token, then the role, three tokens, the finish and [DONE].
    assert_eq!((traffic.events, traffic.token_events), (7, 4));
    assert_eq!((traffic.prompt_tokens, traffic.output_tokens), (5, 3));
    assert_eq!(traffic.ttft.count(), 1);
    assert_eq!(traffic.itl.count() + traffic.coalesced, 3);
}

#[tokio::test]
async fn a_connection_that_carried_a_stream_is_used_again_once_it_has_rested() {
    let server = Server::saying(chat_stream(3)).await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    let again = async {
        let mut connections = 0;
        loop {
            let answer = client.ask(chat(true)).await;
            assert_eq!((answer.status(), answer.end, answer.count("word")), (200, End::Complete, 3));
            match bench.control.snapshot().upstream_connections {
                same if same == connections => break connections,
                more => connections = more,
            }
        }
    };
    let connections = tokio::time::timeout(Duration::from_secs(10), again).await.expect("one is used again");
    assert!(connections > 1, "the first one is not trusted at once");
}

#[tokio::test]
async fn a_server_that_closes_after_each_stream_loses_no_request() {
    // llama.cpp's does, and promises to keep the connection all the same.
    for soon in [Duration::ZERO, Duration::from_millis(10)] {
        let server = Server::start(move |_| vec![Do::Send(chat_stream(1)), Do::CloseIn(soon)]).await;
        let bench = Bench::start(&server.url());
        let mut client = bench.client().await;
        // Long enough for connections to have rested.
        let begin = Instant::now();
        let mut asked = 0;
        while asked < 200 || begin.elapsed() < Duration::from_millis(500) {
            let answer = client.ask(chat(true)).await;
            assert_eq!((answer.status(), answer.count("word")), (200, 1), "{}", answer.head);
            asked += 1;
        }
        let traffic = bench.control.snapshot();
        assert_eq!((traffic.upstream_connections, traffic.upstream_retries), (asked, 0), "{soon:?}");
    }
}

#[tokio::test]
async fn a_connection_that_can_serve_no_other_request_is_closed_after_its_stream() {
    const EVENT: &str = "Content-Type: text/event-stream\r\nContent-Length: 9";
    for answer in [
        format!("HTTP/1.1 200 OK\r\n{EVENT}\r\nConnection: x, Close\r\n\r\ndata: a\n\n"),
        format!("HTTP/1.0 200 OK\r\n{EVENT}\r\n\r\ndata: a\n\n"),
        // What else it has to say nobody asked for.
        format!("HTTP/1.1 200 OK\r\n{EVENT}\r\n\r\ndata: a\n\nHTTP/1.1 200 OK\r\n\r\n"),
    ] {
        let mut server = Server::saying(answer).await;
        let bench = Bench::start(&server.url());
        let seen = bench.client().await.ask(chat(true)).await;
        assert_eq!((seen.status(), seen.end, seen.text().as_str()), (200, End::Complete, "data: a\n\n"));
        // Sooner than a connection is let go that was kept and not used.
        tokio::time::timeout(Duration::from_secs(2), server.closed.recv()).await.expect("it is closed");
    }
}

#[tokio::test]
async fn a_head_torn_apart_and_interim_answers_are_understood() {
    for answer in [
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\
         Content-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: a\n\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: a\n\n",
    ] {
        for pieces in [1, 2, 3, 7] {
            let steps: Vec<Do> = answer
                .as_bytes()
                .chunks(pieces)
                .map(|piece| Do::Send(piece.to_vec()))
                .chain([Do::Close])
                .collect();
            let server = Server::start(move |_| steps.clone()).await;
            let bench = Bench::start(&server.url());
            let answer = bench.client().await.ask(chat(true)).await;
            assert_eq!(
                (answer.status(), answer.end, answer.text().as_str()),
                (200, End::Complete, "data: a\n\n")
            );
            bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::Ok) == 1).await;
            assert_eq!(bench.control.snapshot().events, 1);
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_is_sent_whole_passes() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let bench = Bench::start(&format!("http://{}", listener.local_addr().expect("bound")));
    let mut client = bench.client().await;
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345").await;
    let (mut stream, _) = listener.accept().await.expect("the proxy connects");
    let mut got = Vec::new();
    while !got.ends_with(b"12345") {
        assert_ne!(tokio::io::AsyncReadExt::read_buf(&mut stream, &mut got).await.expect("it comes"), 0);
    }
    tokio::io::AsyncWriteExt::write_all(&mut stream, &chat_stream(2)).await.expect("a socket takes bytes");
    client.until("[DONE]").await;
    client.send("67890").await;
    while !got.ends_with(b"1234567890") {
        assert_ne!(tokio::io::AsyncReadExt::read_buf(&mut stream, &mut got).await.expect("it goes on"), 0);
    }
}

#[tokio::test]
async fn a_stream_that_just_stops_is_unfinished() {
    let mut cut = STREAM_HEAD.to_vec();
    cut.extend(chunk(&token(0)));
    cut.extend(b"0\r\n\r\n");
    let server = Server::saying(cut).await;
    let bench = Bench::start(&server.url());
    assert_eq!(bench.client().await.ask(chat(true)).await.end, End::Complete);
    bench.traffic(|traffic| traffic.unfinished == 1).await;
}

#[tokio::test]
async fn head_and_bodiless_answers_keep_their_headers() {
    let server = Server::start(|seen| {
        let answer = if seen.path() == "/empty" {
            "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"
        } else {
            "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"
        };
        vec![Do::Send(answer.into())]
    })
    .await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(client.head().await, Ok("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n".to_owned()));
    client.send("GET /empty HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(client.head().await, Ok("HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n".to_owned()));
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let server = Server::saying(json_ok()).await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n").await;
    assert_eq!(client.head().await, Ok("HTTP/1.1 100 Continue\r\n\r\n".to_owned()));
    assert_eq!(client.ask("{}").await.status(), 200);
    assert_eq!(server.seen()[0].body, b"{}");
}

#[tokio::test]
async fn chunked_requests_stay_chunked() {
    let server = Server::saying(json_ok()).await;
    let bench = Bench::start(&server.url());
    let request = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(bench.client().await.ask(request).await.status(), 200);
    assert_eq!(server.seen()[0].body, b"3\r\nabc\r\n0\r\n\r\n");
}

#[tokio::test]
async fn an_upgraded_connection_is_a_tunnel() {
    let server = Server::start(|_| {
        vec![
            Do::Send(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst"
                    .to_vec(),
            ),
            Do::Wait,
            Do::Send(b"second".to_vec()),
            Do::Close,
        ]
    })
    .await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    client
        .send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n")
        .await;
    let head = client.head().await.expect("the server agreed");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.to_ascii_lowercase().contains("upgrade: websocket"), "{head}");
    client.until("first").await;
    server.go_on();
    client.until("firstsecond").await;
    assert_eq!(bench.control.snapshot().tunnels, 1);
}

#[tokio::test]
async fn a_stream_may_answer_a_request_to_upgrade() {
    // Java's client asks for h2c with its first request to any server; those that do not speak it just answer.
    let server = Server::saying(chat_stream(3)).await;
    let bench = Bench::start(&server.url());
    let upgrade =
        "Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    let mut client = bench.client().await;
    let asking = client.ask(chat(true).replacen("Host: model.test\r\n", upgrade, 1));
    let answer = tokio::time::timeout(std::time::Duration::from_secs(10), asking).await.expect("an answer");
    assert_eq!((answer.status(), answer.count("word"), answer.end), (200, 3, End::Complete));
}

#[tokio::test]
async fn tls_passes_unread_and_is_told_so() {
    // Whatever begins like a TLS handshake goes to the server as it is; the server here answers it in kind.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let bench = Bench::start(&format!("http://{}", listener.local_addr().expect("bound")));
    let mut client = bench.client().await;
    client.send(b"\x16\x03\x01hello").await;
    let (mut stream, _) = listener.accept().await.expect("the proxy connects");
    let mut got = [0; 8];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut got).await.expect("it was sent");
    assert_eq!(&got, b"\x16\x03\x01hello");
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"\x16back").await.expect("a socket takes bytes");
    client.until("\x16back").await;
    let traffic = bench.control.snapshot();
    assert_eq!((traffic.not_covered, traffic.requests), (1, 0));
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_request() {
    let mut server =
        Server::start(|_| vec![Do::Send(STREAM_HEAD.to_vec()), Do::Send(chunk(&token(0))), Do::Wait]).await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    client.send(chat(true)).await;
    client.until("word0").await;
    drop(client);
    server.closed.recv().await.expect("the proxy closes its connection");
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::ClientLeft) == 1).await;
    assert_eq!(bench.control.snapshot().in_flight, 0);
}

fn json_ok() -> &'static str {
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// However a stream is cut into chunks and packets, valid or not: the client gets the same bytes.
    #[test]
    fn bytes_are_the_same_however_they_are_cut(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 1..40),
                Just(b"data: {\"choices\":[{\"delta\":{\"content\":\"h\xc3\xa9\"}}]}\n\n".to_vec()),
                Just(b"data: x\r".to_vec()), Just(b"\n\r\n".to_vec()), Just(b"\r\r".to_vec()),
            ],
            1..30,
        ),
        with_length in any::<bool>(),
    ) {
        let body = pieces.concat();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let answer = runtime.block_on(async {
            let length = body.len();
            let server = Server::start(move |_| {
                if with_length {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {length}\r\n\r\n"
                    );
                    [head.into_bytes()].into_iter().chain(pieces.clone()).map(Do::Send).collect()
                } else {
                    let chunks = pieces.iter().map(|piece| {
                        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
                        chunk.extend(piece);
                        chunk.extend(b"\r\n");
                        chunk
                    });
                    [STREAM_HEAD.to_vec()].into_iter().chain(chunks).chain([b"0\r\n\r\n".to_vec()]).map(Do::Send).collect()
                }
            })
            .await;
            let bench = Bench::start(&server.url());
            bench.client().await.ask(chat(true)).await
        });
        prop_assert_eq!(answer.end, End::Complete);
        prop_assert_eq!(answer.body, body);
    }
}

#[tokio::test]
async fn a_server_reached_by_name_is_reached() {
    let server = Server::saying(json_ok()).await;
    let bench = Bench::start(&format!("http://localhost:{}", server.addr.port()));
    assert_eq!(bench.client().await.ask(GET).await.text(), "{}");
}
