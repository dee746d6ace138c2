//! The top of the stack: every request is counted, and every event of every stream is read as it passes, so that
//! TTFT, gaps between tokens and errors of the real traffic are known whether or not a fault is armed. A call passes
//! down untouched; its answer comes back with a body that reads along. Not a byte is copied or changed.

use crate::body::{Body, BodyError};
use crate::call::Call;
use crate::client::Client;
use crate::failure::Unanswered;
use crate::meter::{Meter, Origin, Outcome};
use crate::next::Next;
use crate::site::Site;
use brownout_injector::wire::{Api, Class, SseSplitter, classify, read, sse};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// Counts what passes, into its worker's meter.
#[derive(Clone, Debug)]
pub(crate) struct MeasureLayer {
    site: Arc<Site>,
}

impl MeasureLayer {
    pub(crate) const fn new(site: Arc<Site>) -> Self {
        Self { site }
    }
}

impl<S> Layer<S> for MeasureLayer {
    type Service = Measure<S>;

    fn layer(&self, inner: S) -> Measure<S> {
        Measure { inner, site: self.site.clone() }
    }
}

/// See [`MeasureLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Measure<S> {
    inner: S,
    site: Arc<Site>,
}

impl<S: Next> Service<Call> for Measure<S> {
    type Response = Response<Measured>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let mut record = Record::begin(self.site.clone(), &call);
        let inner = self.inner.call(call);
        record.asking = false;
        ResponseFuture { inner, record: Some(record) }
    }
}

pin_project_lite::pin_project! {
    /// See [`MeasureLayer`].
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        inner: F,
        record: Option<Record>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Body>, Unanswered<E>>>,
{
    type Output = Result<Response<Measured>, Unanswered<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(record) = this.record else { unreachable!("a future is not polled after it is ready") };
        record.asking = true;
        let answer = this.inner.poll(cx);
        record.asking = false;
        let answer = ready!(answer);
        let Some(mut record) = this.record.take() else { unreachable!("it was there just now") };
        Poll::Ready(match answer {
            Ok(response) => {
                record.status = response.status().as_u16();
                if is_event_stream(response.headers()) {
                    record.stream = Some(StreamRecord::begin(&record));
                }
                let (head, inner) = response.into_parts();
                if inner.is_end_stream() {
                    record.end(inner.origin(), record.outcome());
                }
                Ok(Response::from_parts(head, Measured { inner, record, broken: None }))
            }
            Err(unanswered) => {
                let hung = matches!(unanswered, Unanswered::Hung(_));
                record.end(if hung { Origin::Injected } else { Origin::Organic }, Outcome::Unanswered);
                Err(unanswered)
            }
        })
    }
}

/// Whether an answer is a stream of server-sent events.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.as_bytes();
        kind.len() >= 17 && kind[..17].eq_ignore_ascii_case(b"text/event-stream")
    })
}

/// What is noted of one request; dropped before its end, the client has left, unless a panic ended it.
#[derive(Debug)]
struct Record {
    site: Arc<Site>,
    client: Arc<Client>,
    api: Api,
    arrived: Instant,
    status: u16,
    stream: Option<StreamRecord>,
    ended: bool,
    /// The layers below are at work this very moment: dropped now, their panic was the end.
    asking: bool,
}

impl Record {
    fn begin(site: Arc<Site>, call: &Call) -> Self {
        site.meter.count(&site.meter.requests, 1);
        site.meter.count(&site.meter.in_flight, 1);
        call.client.request_begins();
        Self {
            site,
            client: call.client.clone(),
            api: call.api,
            arrived: call.arrived,
            status: 0,
            stream: None,
            ended: false,
            asking: true,
        }
    }

    /// How a request that was answered whole ended.
    const fn outcome(&self) -> Outcome {
        match self.status {
            500.. => Outcome::ServerError,
            400.. => Outcome::ClientError,
            _ => Outcome::Ok,
        }
    }

    fn end(&mut self, origin: Origin, outcome: Outcome) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let meter = &self.site.meter;
        meter.count(&meter.in_flight, u64::MAX);
        meter.count(&meter.finished[origin as usize][outcome as usize], 1);
        if let Some(stream) = &self.stream {
            meter.count(&meter.streams_in_flight, u64::MAX);
            meter.count(&meter.unfinished, u64::from(outcome == Outcome::Ok && !stream.finished));
            meter.count(&meter.prompt_tokens, stream.prompt_tokens);
            meter.count(&meter.output_tokens, stream.output_tokens);
        }
        self.client.request_ends();
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let outcome = match (self.asking, self.status) {
            (false, _) => Outcome::ClientLeft,
            (true, 0) => Outcome::Unanswered,
            (true, _) => Outcome::Cut,
        };
        self.end(Origin::Organic, outcome);
    }
}

/// What is noted of one event stream.
#[derive(Debug)]
struct StreamRecord {
    splitter: SseSplitter,
    /// When the last event that carries tokens passed.
    last: Option<Instant>,
    finished: bool,
    prompt_tokens: u64,
    output_tokens: u64,
}

impl StreamRecord {
    fn begin(record: &Record) -> Self {
        let meter = &record.site.meter;
        meter.count(&meter.streams, 1);
        meter.count(&meter.streams_in_flight, 1);
        Self {
            splitter: SseSplitter::new(record.site.limits().event_bytes),
            last: None,
            finished: false,
            prompt_tokens: 0,
            output_tokens: 0,
        }
    }

    fn pass(&mut self, meter: &Meter, api: Api, arrived: Instant, bytes: &Bytes) {
        self.splitter.push(bytes.clone());
        let (mut now, mut events, mut tokens) = (None, 0, 0);
        while let Some(piece) = self.splitter.next_event() {
            events += 1;
            if !piece.whole {
                continue;
            }
            let fields = sse::fields(&piece.raw);
            let Some(data) = fields.data.as_deref() else { continue };
            match classify(api, Some(data)) {
                class if class.is_token() => {
                    tokens += 1;
                    if now.is_some() {
                        meter.count(&meter.coalesced, 1);
                        continue;
                    }
                    let at = *now.insert(Instant::now());
                    match self.last.replace(at) {
                        Some(last) => meter.time(&meter.itl, at - last),
                        None => meter.time(&meter.ttft, at - arrived),
                    }
                }
                class @ (Class::Finish | Class::Done | Class::Usage | Class::Meta) => {
                    self.finished |= matches!(class, Class::Finish | Class::Done);
                    self.note_usage(api, class, data);
                }
                Class::Error => meter.count(&meter.inband_errors, 1),
                _ => {}
            }
        }
        meter.count(&meter.events, events);
        meter.count(&meter.token_events, tokens);
    }

    /// Servers report usage in one or two events of a stream, by running totals: the last report holds.
    fn note_usage(&mut self, api: Api, class: Class, data: &[u8]) {
        if class == Class::Done || memchr::memmem::find(data, b"_tokens\"").is_none() {
            return;
        }
        if let Ok(reading) = read(api, data) {
            self.prompt_tokens = reading.usage.prompt.map_or(self.prompt_tokens, u64::from);
            self.output_tokens = reading.usage.output.map_or(self.output_tokens, u64::from);
        }
    }
}

/// An answer's body that is measured as it passes.
#[derive(Debug)]
pub(crate) struct Measured {
    inner: Body,
    record: Record,
    /// How it broke off. Told a turn later: hyper flushes when a body has nothing for now, and forgets at an error
    /// what it has not flushed. What came before the break reaches the client so.
    broken: Option<BodyError>,
}

impl HttpBody for Measured {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(error) = this.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let record = &mut this.record;
        record.asking = true;
        let frame = Pin::new(&mut this.inner).poll_frame(cx);
        record.asking = false;
        let frame = ready!(frame);
        match frame {
            Some(Ok(ref frame)) => {
                if let (Some(stream), Some(bytes)) = (&mut record.stream, frame.data_ref()) {
                    stream.pass(&record.site.meter, record.api, record.arrived, bytes);
                }
                if this.inner.is_end_stream() || frame.is_trailers() {
                    record.end(this.inner.origin(), record.outcome());
                }
            }
            Some(Err(error)) => {
                record.end(this.inner.origin(), Outcome::Cut);
                this.broken = Some(error);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            None => record.end(this.inner.origin(), record.outcome()),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.broken.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
