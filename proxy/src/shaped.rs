//! The body of an answer that faults act on.
//!
//! One piece at a time: while it is held nothing more is read from the server, so memory stays bounded and a slow
//! fault pushes back on the server as a slow client would. When no fault may act any more (healed, over, lease lost)
//! whatever is held leaves at once, and what is left of the answer passes as it comes.

use crate::body::{Body, BodyError};
use crate::case::Case;
use crate::client::Client;
use crate::hold::Alarm;
use crate::meter::Origin;
use brownout_injector::effect::{Chain, Close, Out, Step, Then};
use brownout_injector::wire::{Api, Class, Event, SseSplitter, classify, sse};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// How often bytes leave where they leave at a rate.
const PACE: Duration = Duration::from_millis(20);

/// What acts on the answer, and for whom.
pub(crate) struct Start {
    pub(crate) case: Box<Case>,
    pub(crate) chain: Chain,
    pub(crate) client: Arc<Client>,
    pub(crate) api: Api,
    holds: Holds,
}

/// The waits of one answer, in sum.
#[derive(Default)]
struct Holds {
    asked: Duration,
    given: f64,
    /// The hold that goes on: since when, and how long it shall last.
    now: Option<(Instant, Duration)>,
}

impl Start {
    pub(crate) fn new(case: Box<Case>, chain: Chain, client: Arc<Client>, api: Api) -> Self {
        Self { case, chain, client, api, holds: Holds::default() }
    }

    /// A hold of `added` begins.
    pub(crate) fn hold_begins(&mut self, now: Instant, added: Duration) {
        if !added.is_zero() {
            self.holds.asked += added;
            self.holds.now = Some((now, added));
        }
    }

    /// The hold is over; it should have been over at `due`. The difference is what was given more or less than asked.
    pub(crate) fn hold_ends(&mut self, due: Instant) {
        if let Some((_, added)) = self.holds.now.take() {
            let now = Instant::now();
            let late = (now.saturating_duration_since(due)).as_secs_f64()
                - due.saturating_duration_since(now).as_secs_f64();
            self.holds.given += (added.as_secs_f64() + late).max(0.0);
        }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        if let Some((since, added)) = self.holds.now.take() {
            self.holds.given += since.elapsed().min(added).as_secs_f64();
        }
        // What was given is known for all effects together; each has its part by what it asked for.
        let asked = self.holds.asked.as_secs_f64();
        let share = if asked > 0.0 { self.holds.given / asked } else { 0.0 };
        for (rule, done) in self.chain.done() {
            if let Some(deed) = self.case.deeds.iter_mut().find(|deed| deed.firing.rule == rule) {
                deed.given +=
                    Duration::try_from_secs_f64(done.asked.as_secs_f64() * share).unwrap_or_default();
                deed.done.touched += done.touched;
                deed.done.asked += done.asked;
                if !done.note.is_empty() {
                    deed.done.note = done.note;
                }
            }
        }
    }
}

/// The answer in pieces.
pub(crate) enum Pieces {
    /// Events of a stream.
    Events(Box<SseSplitter>),
    /// Frames as they come.
    Frames(VecDeque<Bytes>),
}

impl Pieces {
    pub(crate) fn events(limit: usize) -> Self {
        Self::Events(Box::new(SseSplitter::new(limit)))
    }

    pub(crate) const fn frames() -> Self {
        Self::Frames(VecDeque::new())
    }

    fn push(&mut self, bytes: Bytes) {
        match self {
            Self::Events(splitter) => splitter.push(bytes),
            Self::Frames(frames) => frames.push_back(bytes),
        }
    }

    /// The next piece, and whether it is a whole event.
    fn next(&mut self) -> Option<(Bytes, bool)> {
        match self {
            Self::Events(splitter) => splitter.next_event().map(|piece| (piece.raw, piece.whole)),
            Self::Frames(frames) => frames.pop_front().map(|frame| (frame, false)),
        }
    }

    /// What is held back because it is no whole event yet.
    fn rest(&mut self) -> Option<(Bytes, bool)> {
        match self {
            Self::Events(splitter) => splitter.finish().map(|piece| (piece.raw, piece.whole)),
            Self::Frames(_) => None,
        }
    }
}

/// Bytes on their way out.
struct Leaving {
    bytes: Bytes,
    at: Instant,
    rate: Option<NonZeroU64>,
    then: Then,
}

impl Leaving {
    /// How many bytes leave next, and when.
    fn next(&self) -> (usize, Instant) {
        match self.rate {
            None => (self.bytes.len(), self.at),
            Some(rate) => {
                let rate = rate.get() as f64;
                let n = ((rate * PACE.as_secs_f64()) as usize).clamp(1, self.bytes.len().max(1));
                let n = n.min(self.bytes.len());
                (n, self.at + Duration::try_from_secs_f64(n as f64 / rate).unwrap_or(Duration::ZERO))
            }
        }
    }
}

/// The body of an answer that faults act on.
pub(crate) struct Shaped {
    start: Start,
    /// The server's answer; nothing once it is complete, or no longer wanted.
    inner: Option<Body>,
    pieces: Pieces,
    leaving: Option<Leaving>,
    then: Then,
    last_left: Option<Instant>,
    alarm: Alarm,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    /// No fault acts any more.
    released: bool,
    /// The effects were told that the server's stream ended.
    end_told: bool,
    trailers: Option<HeaderMap>,
}

impl Shaped {
    fn new(start: Start, inner: Option<Body>, pieces: Pieces) -> Self {
        let over = Box::pin(start.case.armed.over.clone().cancelled_owned());
        Self {
            start,
            inner,
            pieces,
            leaving: None,
            then: Then::Continue,
            last_left: None,
            alarm: Alarm::default(),
            over,
            released: false,
            end_told: false,
            trailers: None,
        }
    }

    /// A stream, piece by piece through the effects.
    pub(crate) fn stream(start: Start, inner: Body, pieces: Pieces) -> Box<Self> {
        Box::new(Self::new(start, Some(inner), pieces))
    }

    /// These bytes, through no effect any more, at this rate.
    pub(crate) fn whole(start: Start, bytes: Bytes, rate: Option<NonZeroU64>, then: Then) -> Box<Self> {
        let mut shaped = Self::new(start, None, Pieces::frames());
        shaped.end_told = true;
        shaped.leaving = Some(Leaving { bytes, at: Instant::now(), rate, then });
        Box::new(shaped)
    }

    /// What was read and what was not, untouched.
    pub(crate) fn untouched(start: Start, read: Bytes, rest: Body) -> Box<Self> {
        let mut shaped = Self::new(start, Some(rest), Pieces::frames());
        shaped.pieces.push(read);
        shaped.released = true;
        Box::new(shaped)
    }

    pub(crate) fn origin(&self) -> Origin {
        let acted = self.start.case.acted() || self.start.chain.done().any(|(_, done)| done.touched > 0);
        if acted { Origin::Injected } else { Origin::Organic }
    }

    /// What the effects make of one piece.
    fn take(&mut self, raw: Bytes, whole: bool) {
        if self.released {
            self.leaving = Some(Leaving { bytes: raw, at: Instant::now(), rate: None, then: Then::Continue });
            return;
        }
        let at = self.start.case.armed.at();
        let step = if whole {
            let fields = sse::fields(&raw);
            let data = fields.data.as_deref();
            let class = classify(self.start.api, data);
            let event =
                Event { raw: &raw, data: data.unwrap_or_default(), class, api: self.start.api, token: 0 };
            self.start.chain.event(at, &event)
        } else {
            let event = Event { raw: &raw, data: &raw, class: Class::Raw, api: self.start.api, token: 0 };
            self.start.chain.event(at, &event)
        };
        self.follow(step, raw);
    }

    fn follow(&mut self, step: Step, same: Bytes) {
        let now = Instant::now();
        let spaced = self.last_left.map_or(now, |left| left + step.hold.space);
        let at = (now + step.hold.add).max(spaced);
        self.start.hold_begins(now, step.hold.add);
        let bytes = match step.out {
            Out::Same => same,
            Out::Replace(bytes) => bytes,
        };
        self.leaving = Some(Leaving { bytes, at, rate: step.hold.bytes_per_second, then: step.then });
    }

    /// Lets what is held go when it is due, or at once where no fault may act any more.
    fn poll_leaving(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(leaving) = &mut self.leaving else { return Poll::Ready(None) };
        self.released |= self.over.as_mut().poll(cx).is_ready();
        let (mut n, mut due) = leaving.next();
        if self.released {
            n = leaving.bytes.len();
        } else {
            if leaving.rate.is_some() {
                let end = self.start.case.last_end();
                if due > end {
                    // The fault's own end: the rest leaves at once then.
                    (n, due) = (leaving.bytes.len(), end.max(leaving.at));
                }
            }
            ready!(self.alarm.poll(due, cx));
        }
        self.start.hold_ends(leaving.at);
        let bytes = leaving.bytes.split_to(n);
        self.last_left = Some(Instant::now());
        leaving.at = due;
        if leaving.bytes.is_empty() {
            self.then = leaving.then;
            self.leaving = None;
        }
        Poll::Ready(Some(bytes))
    }

    /// Closes the connection under hyper.
    fn close(&mut self, close: Close) -> BodyError {
        self.inner = None;
        self.start.client.close_as(close);
        BodyError::Closed
    }
}

impl HttpBody for Shaped {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        loop {
            match ready!(this.poll_leaving(cx)) {
                Some(bytes) if bytes.is_empty() => continue,
                Some(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => {}
            }
            match this.then {
                Then::Continue => {}
                Then::End => {
                    this.inner = None;
                    return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
                }
                Then::Close(close) => return Poll::Ready(Some(Err(this.close(close)))),
            }
            if let Some((raw, whole)) = this.pieces.next() {
                this.take(raw, whole);
                continue;
            }
            if this.released
                && let Some((raw, _)) = this.pieces.rest()
            {
                this.take(raw, false);
                continue;
            }
            let Some(inner) = &mut this.inner else {
                if let Some((raw, _)) = this.pieces.rest() {
                    this.take(raw, false);
                } else if this.end_told || this.released {
                    this.then = Then::End;
                } else {
                    this.end_told = true;
                    let mut step = this.start.chain.end(this.start.case.armed.at());
                    if step.then == Then::Continue {
                        step.then = Then::End;
                    }
                    this.follow(step, Bytes::new());
                }
                continue;
            };
            match ready!(Pin::new(inner).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => this.pieces.push(bytes),
                    Err(frame) => this.trailers = frame.into_trailers().ok(),
                },
                Some(Err(error)) => {
                    this.inner = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => this.inner = None,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.leaving.is_none() && self.then == Then::End && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl fmt::Debug for Shaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shaped").field("case", &self.start.case).finish_non_exhaustive()
    }
}
