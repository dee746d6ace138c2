//! The layer inside a hyper server of this process: the same faults, the same counts, the same ends.

use crate::http2;
use crate::support::{Answer, Bench, Client, End, chat, finish, plan, post, role, token};
use brownout_proxy::{FaultsLayer, Journal, Limits, Origin, Outcome, RequestBody};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use proptest::prelude::*;
use std::convert::Infallible;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
use tower_service::Service;

const TOKENS: usize = 8;

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

/// Tells when it is dropped.
struct Gone(Sender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A request as the service saw it: headers, body, trailers.
type Seen = (HeaderMap, Bytes, Option<HeaderMap>);

/// A server that streams eight tokens with trailers behind them, or answers JSON where it is not asked to stream.
#[derive(Clone)]
struct Model {
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Where it gets stuck, if at all: after so many tokens.
    stuck: usize,
    gone: Sender<()>,
}

impl Model {
    fn new() -> (Self, std::sync::mpsc::Receiver<()>) {
        let (gone, left) = channel();
        (Self { seen: Arc::default(), stuck: usize::MAX, gone }, left)
    }

    async fn answer(self, request: Request<RequestBody>) -> Response<AnyBody> {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return Response::new(Full::default().boxed_unsync()) };
        let trailers = body.trailers().cloned();
        let body = body.to_bytes();
        let streams = String::from_utf8_lossy(&body).contains("\"stream\":true");
        self.seen.lock().expect("no test panicked while it held this").push((head.headers, body, trailers));
        let response = Response::builder().header("x-own", "kept");
        if !streams {
            let json = r#"{"object":"chat.completion","model":"tiny","choices":[]}"#;
            let body = Full::from(json).boxed_unsync();
            return response.header("content-type", "application/json").body(body).expect("a response");
        }
        let gone = Gone(self.gone);
        let events = [role()].into_iter().chain((0..TOKENS).map(token)).chain([finish(TOKENS)]);
        let frames = events.map(|event| Frame::data(Bytes::from(event))).chain([Frame::trailers(trailer())]);
        let ready = stream::iter(frames.take(self.stuck.saturating_add(1)));
        let rest = if self.stuck < TOKENS { stream::pending().boxed() } else { stream::empty().boxed() };
        let frames = ready.chain(rest).map(move |frame| {
            let _alive = &gone;
            Ok(frame)
        });
        let body = StreamBody::new(frames).boxed_unsync();
        response.header("content-type", "text/event-stream").body(body).expect("a response")
    }

    async fn serve(self) -> Bench {
        Bench::around(service_fn(move |request| {
            let model = self.clone();
            async move { Ok::<_, Infallible>(model.answer(request).await) }
        }))
        .await
    }
}

fn trailer() -> HeaderMap {
    HeaderMap::from_iter([("x-sum".parse().expect("a name"), HeaderValue::from_static("9"))])
}

async fn broken(faults: &str) -> Bench {
    let bench = Model::new().0.serve().await;
    bench.arm(faults);
    bench
}

async fn ask(bench: &Bench, stream: bool) -> Answer {
    bench.client().await.ask(chat(stream)).await
}

#[tokio::test]
async fn nothing_armed_everything_passes_and_is_counted() {
    let (model, _left) = Model::new();
    let seen = model.seen.clone();
    let bench = model.serve().await;
    let answer = ask(&bench, true).await;
    let whole: String = [role()].into_iter().chain((0..TOKENS).map(token)).chain([finish(TOKENS)]).collect();
    assert_eq!((answer.status(), answer.end, answer.text()), (200, End::Complete, whole));
    assert_eq!(answer.header("x-own").as_deref(), Some("kept"));
    assert_eq!(answer.header("x-brownout-fault"), None);
    assert_eq!(seen.lock().expect("it is over")[0].1, chat(true).split_once("\r\n\r\n").expect("a body").1);
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::Ok) == 1).await;
    let traffic = bench.control.snapshot();
    assert_eq!((traffic.requests, traffic.in_flight, traffic.streams_in_flight), (1, 0, 0));
    assert_eq!((traffic.events, traffic.token_events, traffic.output_tokens), (11, 8, 8));
    assert_eq!((traffic.ttft.count(), traffic.itl.count() + traffic.coalesced), (1, 7));
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let (model, _left) = Model::new();
    let seen = model.seen.clone();
    let bench = model.serve().await;
    for faults in ["", "- {name: slow, slowTokens: {delay: {constant: 1ms}}}"] {
        if !faults.is_empty() {
            bench.arm(faults);
        }
        let request = Request::post(format!("http://{}/v1/chat/completions", bench.addr))
            .body(Full::from(r#"{"stream":true}"#))
            .expect("a request");
        let mut sender = http2::connect(bench.addr).await;
        let answer = sender.send_request(request).await.expect("an answer").into_body().collect().await;
        assert_eq!(answer.expect("a whole one").trailers(), Some(&trailer()), "{faults}");
    }
    bench.control.heal("asked");
    let request = Request::post("/v1/chat/completions")
        .body(StreamBody::new(stream::iter([
            Ok::<_, Infallible>(Frame::data(Bytes::from("{}"))),
            Ok(Frame::trailers(trailer())),
        ])))
        .expect("a request");
    let (model, _left) = Model::new();
    let layer = FaultsLayer::start(Journal::none(), Limits::default()).expect("one more thread");
    let last = model.seen.clone();
    let service = ServiceBuilder::new().layer(layer).service(service_fn(move |request| {
        let model = model.clone();
        async move { Ok::<_, Infallible>(model.answer(request).await) }
    }));
    service.oneshot(request).await.expect("it never fails");
    assert_eq!(last.lock().expect("it is over")[0].2, Some(trailer()));
    assert_eq!(seen.lock().expect("it is over").len(), 2);
}

#[tokio::test]
async fn latency_comes_before_the_service_is_asked() {
    let bench = broken("- {name: late, latency: {delay: {constant: 80ms}}}").await;
    let began = Instant::now();
    assert_eq!(ask(&bench, true).await.count("word"), TOKENS);
    assert!(began.elapsed() > Duration::from_millis(78), "{:?}", began.elapsed());
    let fired = bench.fired();
    assert_eq!((fired.fault.as_str(), fired.asked_ms, fired.touched), ("late", 80.0, 1));
    assert!(fired.given_ms > 78.0, "{fired:?}");
}

#[tokio::test]
async fn slow_tokens_are_held_one_by_one() {
    let bench = broken("- {name: slow, slowTokens: {delay: {constant: 15ms}}}").await;
    let answer = ask(&bench, true).await;
    assert_eq!((answer.end, answer.count("word"), answer.count("[DONE]")), (End::Complete, TOKENS, 1));
    assert_eq!(answer.header("x-brownout-fault").as_deref(), Some("slow"));
    let pieces = answer.times.windows(2).filter(|pair| pair[1].0 - pair[0].0 > Duration::from_millis(9));
    assert!(pieces.count() >= TOKENS - 1, "{:?}", answer.times);
    assert!(bench.fired().touched >= TOKENS as u64 - 1);
    bench.traffic(|traffic| traffic.finished(Origin::Injected, Outcome::Ok) == 1).await;
}

#[tokio::test]
async fn what_a_fault_cuts_off_ends_as_it_says_and_is_dropped() {
    for (fault, end, outcome) in [
        ("truncate: {afterTokens: 3}", End::Complete, Outcome::Ok),
        ("disconnect: {afterTokens: 3, close: fin}", End::Eof, Outcome::Cut),
        ("disconnect: {afterTokens: 3, close: rst}", End::Eof, Outcome::Cut),
    ] {
        let (model, left) = Model::new();
        let bench = Model { stuck: 4, ..model }.serve().await;
        bench.arm(&format!("- {{name: cut, {fault}}}"));
        let answer = ask(&bench, true).await;
        assert_eq!((answer.status(), answer.end, answer.count("word")), (200, end, 3), "{}", answer.text());
        left.recv_timeout(Duration::from_secs(5)).expect("the service's own body is dropped");
        assert_eq!(bench.fired().touched, 1);
        bench.traffic(|traffic| traffic.finished(Origin::Injected, outcome) == 1).await;
    }
}

#[tokio::test]
async fn an_error_is_answered_in_the_services_stead() {
    let (model, _left) = Model::new();
    let seen = model.seen.clone();
    let bench = model.serve().await;
    bench.arm("- {name: down, httpError: {status: 503, retryAfter: {in: 2s, as: seconds}}}");
    let answer = ask(&bench, true).await;
    assert_eq!((answer.status(), answer.end), (503, End::Complete));
    assert_eq!(answer.header("retry-after").as_deref(), Some("2"));
    assert_eq!(answer.header("x-brownout-fault").as_deref(), Some("down"));
    assert!(answer.text().contains(r#""error":{"#), "{}", answer.text());
    assert_eq!((seen.lock().expect("it is over").len(), bench.fired().note.as_str()), (0, "answered 503"));
}

#[tokio::test]
async fn connections_are_dropped_before_a_byte_of_an_answer() {
    let bench = broken("- {name: cut, disconnect: {}}").await;
    let answer = ask(&bench, true).await;
    assert_eq!((answer.head.as_str(), answer.end), ("", End::Eof));
    assert_eq!(bench.fired().note, "closed before any answer (Rst)");
    bench.traffic(|traffic| traffic.finished(Origin::Injected, Outcome::Unanswered) == 1).await;

    let mut sender = http2::connect(bench.addr).await;
    let request = Request::get(format!("http://{}/x", bench.addr)).body(Full::default()).expect("a request");
    let answer = match sender.send_request(request).await {
        Ok(answer) => answer.into_body().collect().await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(answer.is_err(), "the stream is reset");

    let mut client = bench.client().await;
    client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let head = client.head().await.expect("what has no body cannot break off");
    assert!(head.starts_with("HTTP/1.1 502 ") && head.contains("x-brownout-fault: cut\r\n"), "{head}");
}

#[tokio::test]
async fn a_black_hole_ends_with_its_fault() {
    let bench = broken("- {name: hole, blackhole: {}, when: {for: 100ms}}").await;
    let mut client = bench.client().await;
    client.send(chat(true)).await;
    assert_eq!(client.ends().await, End::Eof);
    assert_eq!(bench.fired().touched, 1);
}

#[tokio::test]
async fn stuck_streams_go_on_when_healed_or_over_or_when_the_lease_is_lost() {
    const STALL: &str = "- {name: stuck, stall: {atToken: 2, for: 50s}}";
    let bench = Model::new().0.serve().await;
    for (lasts, lease, reason) in [
        ("60s", None, "asked"),
        ("300ms", None, "ended"),
        ("60s", Some(Duration::from_millis(300)), "lease lost"),
    ] {
        bench.control.arm(plan(STALL, lasts), lease);
        let mut client = bench.client().await;
        client.send(chat(true)).await;
        client.until("word0").await;
        if reason == "asked" {
            assert!(bench.control.heal(reason));
        }
        client.until("[DONE]").await;
        assert!(!bench.control.status().armed);
        assert_eq!(bench.healed(), reason);
        assert_eq!(ask(&bench, true).await.header("x-brownout-fault"), None);
    }
}

#[tokio::test]
async fn a_client_that_leaves_drops_the_services_answer() {
    let (model, left) = Model::new();
    let bench = Model { stuck: 1, ..model }.serve().await;
    let mut client = bench.client().await;
    client.send(chat(true)).await;
    client.until("word0").await;
    drop(client);
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::ClientLeft) == 1).await;
    left.recv_timeout(Duration::from_secs(5)).expect("the service's own body is dropped");
}

#[tokio::test]
async fn a_changed_prompt_reaches_the_service_at_its_new_length() {
    let (model, _left) = Model::new();
    let seen = model.seen.clone();
    let bench = model.serve().await;
    bench.arm("- {name: cold, cacheBust: {}}");
    assert_eq!(ask(&bench, false).await.status(), 200);
    let seen = seen.lock().expect("it is over").clone();
    let (headers, body, _) = &seen[0];
    assert_eq!(headers["content-length"].to_str().expect("a number"), body.len().to_string());
    let (asked, got) = (chat(false), String::from_utf8_lossy(body));
    assert!(
        got.contains("] Say something.") && got.len() > asked.split_once("\r\n\r\n").expect("a body").1.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counts_are_exact_however_many_threads_serve() {
    let bench = Model::new().0.serve().await;
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let addr = bench.addr;
            tokio::spawn(async move {
                let mut client = Client::connect(addr).await;
                for _ in 0..10 {
                    assert_eq!(client.ask(chat(true)).await.count("word"), TOKENS);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("all answers are whole");
    }
    bench.traffic(|traffic| traffic.finished(Origin::Organic, Outcome::Ok) == 320).await;
    let traffic = bench.control.snapshot();
    assert_eq!((traffic.requests, traffic.in_flight, traffic.streams_in_flight), (320, 0, 0));
    assert_eq!((traffic.token_events, traffic.ttft.count()), (320 * TOKENS as u64, 320));
}

/// A service that may be called once for each time that it was found ready, and never by a clone of the one asked.
#[derive(Debug, Default)]
struct OncePerReady {
    ready: bool,
}

impl Clone for OncePerReady {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<RequestBody>> for OncePerReady {
    type Response = Response<Empty<Bytes>>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<RequestBody>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being asked first");
        std::future::ready(Err("out of order"))
    }
}

#[tokio::test]
async fn the_service_is_asked_before_it_is_called_and_its_errors_stay_its_own() {
    let (journal, lines) = Journal::channel(100);
    let layer = FaultsLayer::start(journal, Limits::default()).expect("one more thread");
    let control = layer.control();
    let mut service = ServiceBuilder::new().layer(layer).service(OncePerReady::default());
    for faults in [None, Some("- {name: late, latency: {delay: {constant: 1ms}}}")] {
        if let Some(faults) = faults {
            control.arm(plan(faults, "60s"), None);
        }
        for _ in 0..3 {
            let request = Request::post("/v1/chat/completions").body(Full::from("{}")).expect("a request");
            let answer = ServiceExt::<Request<Full<Bytes>>>::ready(&mut service)
                .await
                .expect("it is always ready")
                .call(request)
                .await;
            assert_eq!(answer.map(|_| ()), Err("out of order"));
        }
    }
    assert_eq!(control.snapshot().finished(Origin::Organic, Outcome::Unanswered), 6);
    assert!(lines.try_iter().count() > 0);
    drop((service, control));
    assert_eq!(
        lines.recv_timeout(Duration::from_secs(5)),
        Err(RecvTimeoutError::Disconnected),
        "its thread is gone"
    );
}

/// What frameworks ask of a service that they share between threads.
fn shareable<S: Clone + Send + Sync + 'static>(service: S) -> S {
    service
}

#[tokio::test]
async fn a_service_with_a_body_of_its_own_gets_it() {
    let layer = FaultsLayer::start(Journal::none(), Limits::default()).expect("one more thread");
    layer.control().arm(plan("- {name: cold, cacheBust: {}}", "60s"), None);
    let service = shareable(
        ServiceBuilder::new()
            .layer(layer)
            .map_request(|request: Request<RequestBody>| request.map(BodyExt::boxed_unsync))
            .service(service_fn(async |request: Request<UnsyncBoxBody<Bytes, BoxError>>| {
                request.into_body().collect().await.map(|body| Response::new(Full::from(body.to_bytes())))
            })),
    );
    let body = Full::from(r#"{"prompt":"Say something."}"#);
    let request = Request::post("/v1/completions").body(body).expect("a request");
    let answer = service.oneshot(request).await.expect("the echo").into_body().collect().await;
    let echo = String::from_utf8_lossy(&answer.expect("a whole body").to_bytes()).into_owned();
    assert!(echo.starts_with(r#"{"prompt":"["#) && echo.ends_with(r#"] Say something."}"#), "{echo}");
}

#[tokio::test]
async fn a_body_that_fails_fails_as_it_did() {
    let layer = FaultsLayer::start(Journal::none(), Limits::default()).expect("one more thread");
    let control = layer.control();
    let service = ServiceBuilder::new().layer(layer).service(service_fn(async |_: Request<RequestBody>| {
        let frames = [Ok(Frame::data(Bytes::from("half"))), Err(std::io::Error::other("disk gone"))];
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
    }));
    let request = Request::get("/x").body(Empty::<Bytes>::new()).expect("a request");
    let answer = service.oneshot(request).await.unwrap_or_else(|never| match never {});
    let mut body = answer.into_body();
    let half = body.frame().await.expect("a frame").expect("the first half is good");
    assert_eq!(half.into_data().expect("it is data"), "half");
    let error = body.frame().await.expect("an end").expect_err("the second is not");
    assert_eq!(error.to_string(), "the service broke off: disk gone");
    assert_eq!(control.snapshot().finished(Origin::Organic, Outcome::Cut), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a service streams, frame for frame: with nothing armed the same frames come out.
    #[test]
    fn frames_pass_one_for_one(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
        events in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let sent = frames.clone();
        let got = runtime.block_on(async {
            let layer = FaultsLayer::start(Journal::none(), Limits::default()).expect("one more thread");
            let service = ServiceBuilder::new().layer(layer).service(service_fn(move |_: Request<RequestBody>| {
                let frames = sent.clone().into_iter().map(|frame| Ok::<_, Infallible>(Frame::data(Bytes::from(frame))));
                let kind = if events { "text/event-stream" } else { "text/plain" };
                let response = Response::builder().header("content-type", kind);
                async move { response.body(StreamBody::new(stream::iter(frames))) }
            }));
            let request = Request::post("/v1/completions").body(Full::from(post("/", ""))).expect("a request");
            let mut body = service.oneshot(request).await.expect("a response").into_body();
            let mut got = Vec::new();
            while let Some(frame) = body.frame().await {
                got.push(frame.expect("nothing breaks").into_data().expect("only data was sent").to_vec());
            }
            got
        });
        prop_assert_eq!(got, frames);
    }
}
