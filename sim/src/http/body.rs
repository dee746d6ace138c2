//! Response bodies: one buffer, or a stream of server-sent events that is written as tokens come.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc::UnboundedReceiver;

use super::generate::{Dialect, End};
use crate::engine::{Event, Ticket};

/// Tokens written in one go when the client is slower than the model.
const BATCH: usize = 32;
/// The write buffer grows by this much; events are cut from it without copying.
const BUFFER: usize = 8 * 1024;

/// The stream broke off: the engine stopped.
#[derive(Debug, thiserror::Error)]
#[error("the engine stopped before the answer was complete")]
pub(crate) struct BrokenStream;

pub(crate) enum Body {
    Full(Option<Bytes>),
    Events(Box<EventStream>),
}

impl Body {
    pub(super) fn full(bytes: Bytes) -> Body {
        Body::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

#[derive(PartialEq)]
enum State {
    Opening,
    Running,
    Done,
}

pub(crate) struct EventStream {
    dialect: Box<dyn Dialect>,
    events: UnboundedReceiver<Event>,
    // Dropped with the body: a client that goes away frees its place at once.
    ticket: Ticket,
    end: End,
    state: State,
    batch: Vec<Event>,
    buffer: BytesMut,
}

impl EventStream {
    pub(super) fn new(
        dialect: Box<dyn Dialect>,
        ticket: Ticket,
        events: UnboundedReceiver<Event>,
        end: End,
    ) -> EventStream {
        let (batch, buffer) = (Vec::new(), BytesMut::new());
        EventStream { dialect, events, ticket, end, state: State::Opening, batch, buffer }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenStream>>> {
        if self.state == State::Done {
            return Poll::Ready(None);
        }
        if self.state == State::Opening {
            self.state = State::Running;
            self.dialect.open(&mut self.buffer, &self.end);
        }
        while self.buffer.is_empty() && self.state == State::Running {
            if ready!(self.events.poll_recv_many(cx, &mut self.batch, BATCH)) == 0 {
                self.state = State::Done;
                return Poll::Ready(Some(Err(BrokenStream)));
            }
            if self.buffer.capacity() < BUFFER / 4 {
                self.buffer.reserve(BUFFER);
            }
            for event in self.batch.drain(..) {
                self.end.completion_tokens += 1;
                self.end.cached_tokens = event.cached;
                self.dialect.token(&mut self.buffer, &event.token, &self.end);
                if let Some(finish) = event.token.finish {
                    self.ticket.finished();
                    self.state = State::Done;
                    self.dialect.close(&mut self.buffer, finish, &self.end);
                }
            }
        }
        Poll::Ready((!self.buffer.is_empty()).then(|| Ok(Frame::data(self.buffer.split().freeze()))))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BrokenStream;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Body::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Events(stream) => stream.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(bytes) => bytes.is_none(),
            Body::Events(stream) => stream.state == State::Done,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Events(_) => SizeHint::default(),
        }
    }
}
