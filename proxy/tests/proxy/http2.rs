//! HTTP/2 with prior knowledge from clients, and to the server where gRPC or the configuration asks for it.

use crate::support::{Bench, Do, Server, chat_json, chat_stream};
use brownout_proxy::{Origin, Outcome};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

pub(crate) async fn connect(addr: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(addr).await.expect("somebody listens");
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("it speaks");
    tokio::spawn(connection);
    sender
}

fn chat(addr: SocketAddr) -> Request<Full<Bytes>> {
    Request::post(format!("http://{addr}/v1/chat/completions"))
        .header("content-type", "application/json")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(Full::from(r#"{"model":"tiny","stream":true,"messages":[]}"#))
        .expect("a request")
}

async fn text(response: Response<Incoming>) -> Result<String, hyper::Error> {
    Ok(String::from_utf8_lossy(&response.into_body().collect().await?.to_bytes()).into_owned())
}

#[tokio::test]
async fn http2_clients_reach_http1_servers() {
    let server = Server::saying(chat_stream(3)).await;
    let bench = Bench::start(&server.url());
    let mut sender = connect(bench.addr).await;
    let answers =
        futures_util::future::join_all((0..10).map(|_| sender.send_request(chat(bench.addr)))).await;
    for answer in answers {
        let answer = answer.expect("an answer");
        assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, 200));
        let body = text(answer).await.expect("a whole one");
        assert_eq!(body.matches("word").count(), 3);
    }
    let head = server.seen()[0].head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", bench.addr)), "{head}");
    assert!(head.contains("cookie: a=1; b=2\r\n"), "{head}");
    let traffic = bench.control.snapshot();
    assert_eq!((traffic.accepted, traffic.requests, traffic.token_events), (1, 10, 30));
}

#[tokio::test]
async fn faults_act_on_http2_and_leave_other_streams_alone() {
    let server = Server::saying(chat_stream(8)).await;
    let bench = Bench::start(&server.url());
    bench.arm(
        "- {name: cut, disconnect: {afterTokens: 3}, when: {maxHits: 1}}\n\
         - {name: gone, disconnect: {}, when: {maxHits: 1, afterCalls: 1}}\n\
         - {name: short, truncate: {afterTokens: 2}, when: {maxHits: 1, afterCalls: 1}}",
    );
    let mut sender = connect(bench.addr).await;
    let mut cut = sender.send_request(chat(bench.addr)).await.expect("headers come");
    assert_eq!(cut.headers()["x-brownout-fault"], "cut");
    let mut body = String::new();
    let error = loop {
        match cut.body_mut().frame().await.expect("it does not end orderly") {
            Ok(frame) => body.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data"))),
            Err(error) => break error,
        }
    };
    assert_eq!(body.matches("word").count(), 3, "{error}: {body}");
    sender.send_request(chat(bench.addr)).await.expect_err("the stream is reset before headers");
    let short = sender.send_request(chat(bench.addr)).await.expect("the connection lives on");
    assert_eq!(text(short).await.expect("an orderly end").matches("word").count(), 2);
    let whole = sender.send_request(chat(bench.addr)).await.expect("an answer");
    assert_eq!(text(whole).await.expect("a whole one").matches("word").count(), 8);
    assert_eq!(bench.control.snapshot().finished(Origin::Injected, Outcome::Unanswered), 1);
}

#[tokio::test]
async fn what_came_before_a_break_reaches_http2_clients() {
    let whole = chat_stream(3);
    let server = Server::start(move |_| vec![Do::Send(whole[..whole.len() - 1].to_vec()), Do::Close]).await;
    let bench = Bench::start(&server.url());
    let mut answer = connect(bench.addr)
        .await
        .send_request(chat(bench.addr))
        .await
        .expect("headers come before the break");
    let mut body = String::new();
    let error = loop {
        match answer.body_mut().frame().await.expect("it does not end orderly") {
            Ok(frame) => body.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data"))),
            Err(error) => break error,
        }
    };
    assert_eq!(body.matches("word").count(), 3, "{error}: {body}");
}

/// A server that speaks HTTP/2 only, and answers as gRPC does: with trailers.
pub(crate) async fn grpc_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request: Request<Incoming>| async {
                let seen = format!("{:?} {}", request.version(), request.uri());
                let te = request.headers().get("te").cloned();
                let body = request.into_body().collect().await.expect("a whole body").to_bytes();
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                let frames = [Ok::<_, Infallible>(Frame::data(body)), Ok(Frame::trailers(trailers))];
                let mut response = Response::new(StreamBody::new(futures_util::stream::iter(frames)));
                let headers = response.headers_mut();
                headers.insert("content-type", HeaderValue::from_static("application/grpc"));
                headers.insert("x-seen", seen.parse().expect("a value"));
                if let Some(te) = te {
                    headers.insert("x-te", te);
                }
                Ok::<_, Infallible>(response)
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    addr
}

#[tokio::test]
async fn grpc_stays_http2_with_its_trailers() {
    let server = grpc_server().await;
    let bench = Bench::start(&format!("http://{server}"));
    let mut sender = connect(bench.addr).await;
    for _ in 0..3 {
        let request =
            Request::post(format!("http://{}/inference.GRPCInferenceService/ModelInfer", bench.addr))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(Full::from(&b"\0\0\0\0\x03abc"[..]))
                .expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        let seen = answer.headers()["x-seen"].to_str().expect("text").to_owned();
        assert!(seen.starts_with("HTTP/2.0 http://"), "{seen}");
        assert!(seen.ends_with("/inference.GRPCInferenceService/ModelInfer"), "{seen}");
        assert_eq!(answer.headers()["x-te"], "trailers");
        let body = answer.into_body().collect().await.expect("a whole one");
        assert_eq!(body.trailers().expect("trailers")["grpc-status"], "0");
        assert_eq!(body.to_bytes(), &b"\0\0\0\0\x03abc"[..]);
    }
    assert_eq!(bench.control.snapshot().upstream_connections, 1);
}

#[tokio::test]
async fn a_server_is_spoken_to_by_http2_where_asked() {
    let server = grpc_server().await;
    let bench = Bench::with(&format!("http://{server}"), |config| config.upstream_h2 = true);
    let answer = bench.client().await.ask(crate::support::post("/x", "{}")).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.header("x-seen").expect("it tells").starts_with("HTTP/2.0"), "{}", answer.head);
    assert_eq!(answer.text(), "{}");
}

#[tokio::test]
async fn a_preface_torn_apart_is_still_http2() {
    let server = Server::saying(chat_json()).await;
    let bench = Bench::start(&server.url());
    let mut client = bench.client().await;
    client.send("PR").await;
    bench.traffic(|traffic| traffic.accepted == 1).await;
    client.send("I * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    // A settings frame of the server's: type 4 on stream 0.
    client.until("\x04\0\0\0\0\0").await;
}
