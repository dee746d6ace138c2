//! The layer around services that misbehave.

use crate::support::{chat, plan};
use brownout_proxy::{FaultsLayer, Journal, Limits, Origin, Outcome, RequestBody};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use std::convert::Infallible;
use std::future::{Future, Ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{ServiceBuilder, ServiceExt, service_fn};

fn request() -> Request<Full<Bytes>> {
    let chat = chat(true);
    let (_, body) = chat.split_once("\r\n\r\n").expect("a body");
    Request::post("/v1/chat/completions").body(Full::from(body.to_owned())).expect("a request")
}

async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it does not hang")
}

/// A body that panics when it is read.
struct Bomb;

impl Body for Bomb {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the body's own bug");
    }
}

#[tokio::test]
async fn a_service_that_panics_is_not_taken_for_a_client_that_left() {
    for faults in
        ["[]", "- {name: q, queue: {maxInFlight: 1}}", "- {name: l, latency: {delay: {constant: 1ms}}}"]
    {
        let layer = FaultsLayer::start(Journal::none(), Limits::default()).expect("one more thread");
        let control = layer.control();
        control.arm(plan(faults, "60s"), None);
        let at_call = ServiceBuilder::new().layer(layer.clone()).service(service_fn(
            |_: Request<RequestBody>| -> Ready<Result<Response<Empty<Bytes>>, Infallible>> {
                panic!("a bug before the future")
            },
        ));
        let in_future = ServiceBuilder::new().layer(layer.clone()).service(service_fn(
            async |_: Request<RequestBody>| -> Result<Response<Empty<Bytes>>, Infallible> {
                tokio::task::yield_now().await;
                panic!("a bug in the future")
            },
        ));
        let in_body = ServiceBuilder::new()
            .layer(layer)
            .service(service_fn(async |_: Request<RequestBody>| Ok::<_, Infallible>(Response::new(Bomb))));
        // Twice: a place in the queue that the first did not give back would hold the second up.
        for _ in 0..2 {
            let at_call = at_call.clone();
            let asking = tokio::spawn(async move { at_call.oneshot(request()).await.is_ok() });
            assert!(soon(asking).await.expect_err("no panic is swallowed").is_panic());
            let asking = tokio::spawn(in_future.clone().oneshot(request()));
            assert!(soon(asking).await.expect_err("no panic is swallowed").is_panic());
            let body = soon(in_body.clone().oneshot(request())).await.expect("a head").into_body();
            let reading = tokio::spawn(body.collect());
            assert!(soon(reading).await.expect_err("no panic is swallowed").is_panic());
        }
        let traffic = control.snapshot();
        let [left, unanswered, cut] = [Outcome::ClientLeft, Outcome::Unanswered, Outcome::Cut]
            .map(|outcome| traffic.finished(Origin::Organic, outcome));
        assert_eq!((left, unanswered, cut, traffic.in_flight), (0, 4, 2, 0), "{faults}");
    }
}
