//! The answer passes through the effects of the faults that fired: event by event where it is a stream, as a whole
//! where it is one JSON document, frame by frame otherwise. A call goes in with its case and goes on without it; the
//! answer comes out marked, with the case in its body, so that the journal is written when the last byte has left.

use crate::answer;
use crate::body::Body;
use crate::call::Call;
use crate::case::Case;
use crate::failure::Failure;
use crate::hold::hold;
use crate::measure::is_event_stream;
use crate::next::{Detour, Next};
use brownout_injector::effect::{Chain, Out, Then};
use brownout_injector::facts::FAULT_HEADER;
use brownout_injector::wire::{Api, read_body};
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response};
use http_body::Body as HttpBody;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

pub(crate) use crate::shaped::Shaped;
use crate::shaped::{Pieces, Start};

/// Passes answers through the effects of what fired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapeLayer;

impl<S> Layer<S> for ShapeLayer {
    type Service = Shape<S>;

    fn layer(&self, inner: S) -> Shape<S> {
        Shape { inner }
    }
}

/// See [`ShapeLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Shape<S> {
    inner: S,
}

impl<S: Next> Service<Call> for Shape<S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Detour<S::Future, S::Foreign>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(mut case) = call.case.take() else { return Detour::straight(self.inner.call(call)) };
        let chain = chain(&call, &mut case);
        let (client, api) = (call.client.clone(), call.api);
        if !chain.is_empty() {
            // A compressed answer could not be read. Servers may always answer uncompressed.
            call.head.headers.remove(ACCEPT_ENCODING);
        }
        let answered = self.inner.call(call);
        Detour::around(async move {
            let sent = Instant::now();
            let mut response = answered.await?;
            answer::add_headers(response.headers_mut(), &case.headers);
            if let Some(mark) = case.header() {
                response.headers_mut().insert(FAULT_HEADER, mark);
            }
            if chain.is_empty() || response.body().is_end_stream() {
                return Ok(response.map(|body| body.keeping(case)));
            }
            let start = Start::new(case, chain, client, api);
            Ok(shape(start, response, sent).await?)
        })
    }
}

/// The effects of all that fired, in file order.
fn chain(call: &Call, case: &mut Case) -> Chain {
    let mut chain = Chain::new(call.api);
    let at = case.armed.at();
    for index in 0..case.deeds.len() {
        let firing = case.deeds[index].firing;
        let rule = case.rule(index);
        let effect = call.with_facts(&case.known, at, |facts| rule.fault.on_answer(facts, firing.draw));
        if let Some(effect) = effect {
            chain.push(firing.rule, firing.until, effect);
            case.deeds[index].shapes = true;
        }
    }
    chain
}

async fn shape(start: Start, mut response: Response<Body>, sent: Instant) -> Result<Response<Body>, Failure> {
    if is_event_stream(response.headers()) {
        response.headers_mut().remove(CONTENT_LENGTH);
        let limit = start.client.site().limits().event_bytes;
        return Ok(response.map(|body| Body::shaped(Shaped::stream(start, body, Pieces::events(limit)))));
    }
    let whole = start.api != Api::Other && response.status().is_success() && is_json(response.headers());
    let limit = start.client.site().limits().answer_bytes as u64;
    if whole && response.body().size_hint().lower() <= limit {
        let (head, mut body) = response.into_parts();
        match collect(&mut body, limit).await {
            Collected::Whole(bytes) => {
                // The connection to the server is free again; from here on it is between us and the client.
                drop(body);
                return Ok(reshape(start, Response::from_parts(head, bytes), sent).await);
            }
            Collected::TooLarge(read) => {
                let shaped = Shaped::untouched(start, read, body);
                return Ok(Response::from_parts(head, Body::shaped(shaped)));
            }
            Collected::Broken => return Err(Failure::Reset),
        }
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    Ok(response.map(|body| Body::shaped(Shaped::stream(start, body, Pieces::frames()))))
}

/// A whole JSON answer goes through the effects before its first byte goes to the client, as a server that decodes
/// slowly sends nothing until it is done.
async fn reshape(mut start: Start, response: Response<Bytes>, sent: Instant) -> Response<Body> {
    let (mut head, bytes) = response.into_parts();
    let tokens = read_body(start.api, &bytes).ok().and_then(|reading| reading.usage.output).unwrap_or(0);
    let armed = start.case.armed.clone();
    if armed.over.is_cancelled() {
        return Response::from_parts(head, Body::shaped(Shaped::whole(start, bytes, None, Then::End)));
    }
    let length = bytes.len();
    let step = start.chain.body(armed.at(), &bytes, tokens);
    let (now, space) = (Instant::now(), step.hold.space);
    let added = now + step.hold.add;
    let until = added.max((sent + space).min(start.case.last_end()));
    start.hold_begins(now, step.hold.add);
    hold(until, &armed.over).await;
    start.hold_ends(until);
    let bytes = match step.out {
        Out::Same => bytes,
        Out::Replace(bytes) => bytes,
    };
    // A client that is hung up on was told the length of the whole.
    let length = if matches!(step.then, Then::Close(_)) { length } else { bytes.len() };
    if head.headers.contains_key(CONTENT_LENGTH) || matches!(step.then, Then::Close(_)) {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let then = if step.then == Then::Continue { Then::End } else { step.then };
    let shaped = Shaped::whole(start, bytes, step.hold.bytes_per_second, then);
    Response::from_parts(head, Body::shaped(shaped))
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json")))
}

enum Collected {
    Whole(Bytes),
    TooLarge(Bytes),
    Broken,
}

async fn collect(body: &mut Body, limit: u64) -> Collected {
    let mut all = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        let Ok(frame) = frame else { return Collected::Broken };
        if let Some(bytes) = frame.data_ref() {
            all.extend_from_slice(bytes);
        }
        if all.len() as u64 > limit {
            return Collected::TooLarge(all.freeze());
        }
    }
    Collected::Whole(all.freeze())
}
