//! What a fault does to a request, as data: the pure half of every fault. The proxy is the hand that carries it out.
//!
//! **How overlapping faults compose.** Faults apply in file order. Before the request goes upstream, waits add up; the
//! first fault that answers in the server's stead (or hangs up) ends the list: the faults after it neither fire nor
//! count. On the way back each event passes through the effects in file order, and each effect sees what the one
//! before it let through: what was dropped is not seen, what was replaced is seen replaced. Added waits sum up, the
//! larger of two spacings holds, and so does the lower of two rates. Whoever ends the stream first ends it for all.
//! [`Chain`] is this rule as code; whoever carries effects out needs no other.

mod chain;

pub use chain::Chain;

use crate::facts::Facts;
use crate::wire::{Event, ProviderError};
use bytes::Bytes;
use std::num::NonZeroU64;
use std::time::Duration;

/// How a connection is closed under the client.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Close {
    /// A TCP reset: the client reads "connection reset by peer".
    #[default]
    Rst,
    /// An orderly end of the TCP stream in the middle of the message: the client reads an unexpected end.
    Fin,
}

/// What happens before the request goes upstream.
#[derive(Clone, Debug, PartialEq)]
pub enum Before {
    /// Nothing; this fault acts on the answer, if at all.
    Forward,
    /// The request is held, then goes on.
    Wait(Duration),
    /// The client gets this answer; the server never sees the request.
    Answer(Answer),
    /// The connection is closed before any byte of an answer.
    Hang(Close),
    /// The request is taken and never answered, until the fault ends or the client gives up.
    Blackhole,
    /// The request waits for one of `max_in_flight` places, at most `max_waiting` of them at a time; one more gets `full`.
    Queue {
        /// Places at the server.
        max_in_flight: u32,
        /// Places in the queue.
        max_waiting: u32,
        /// The longest wait; then the answer is `full`.
        timeout: Option<Duration>,
        /// The answer to a request that found no place.
        full: Answer,
    },
    /// The request takes from shared buckets of requests and tokens; where they are empty, the answer is 429.
    RateLimit {
        /// Requests a minute.
        requests_per_minute: Option<f64>,
        /// Tokens (prompt and asked output) a minute.
        tokens_per_minute: Option<f64>,
        /// What a full bucket holds: so much time's worth at its rate.
        burst: Duration,
    },
    /// Every prompt in the body gets this text in front, so that no prefix cache knows it.
    PrefixPrompt(String),
}

impl Before {
    /// Whether the request never reaches the server, so that no later fault acts.
    #[must_use]
    pub const fn ends_request(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Hang(_) | Self::Blackhole)
    }
}

/// An answer that the proxy gives in the server's stead.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers besides content-type, content-length and the mark.
    pub headers: Vec<(String, RetryValue)>,
    /// The body, shaped as the request's provider would.
    pub body: AnswerBody,
}

/// A header value; dates can be written only by someone with a clock.
#[derive(Clone, Debug, PartialEq)]
pub enum RetryValue {
    /// As it is.
    Text(String),
    /// The HTTP date (RFC 9110, 5.6.7) that lies this far from now.
    DateIn(Duration),
    /// The RFC 3339 time in UTC that lies this far from now.
    Rfc3339In(Duration),
}

/// The body of an [`Answer`].
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerBody {
    /// No byte at all.
    Empty,
    /// An error in the provider's own shape.
    Error(ProviderError),
}

/// What an effect does with one event of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// How long the event is held.
    pub hold: Hold,
    /// What goes on in its place.
    pub out: Out,
    /// What follows.
    pub then: Then,
}

/// How long an event is held, and how fast it leaves then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Added after the event is there and the one before it has left.
    pub add: Duration,
    /// The least time between the event before it leaving and this one leaving. A whole body ([`Effect::body`]) has no
    /// event before it: there the time counts from when the request went upstream.
    pub space: Duration,
    /// Its bytes leave at most this many a second, in pieces as they become due, counted from when the bytes before
    /// them had left (or from when the first of them was there to send).
    pub bytes_per_second: Option<NonZeroU64>,
}

/// What goes on in an event's place.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Out {
    /// The event, byte for byte.
    #[default]
    Same,
    /// These bytes: none, one, or several events.
    Replace(Bytes),
}

/// What follows an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// The stream goes on.
    #[default]
    Continue,
    /// The answer ends here, orderly: the body is complete as far as HTTP can tell.
    End,
    /// The connection is closed here. A client was told the length of a whole body before it came, so the headers keep
    /// that length although fewer bytes follow.
    Close(Close),
}

impl Step {
    /// The event passes untouched.
    pub const PASS: Self = Self {
        hold: Hold { add: Duration::ZERO, space: Duration::ZERO, bytes_per_second: None },
        out: Out::Same,
        then: Then::Continue,
    };

    /// The event is held for `add` longer.
    #[must_use]
    pub const fn hold(add: Duration) -> Self {
        Self { hold: Hold { add, ..Self::PASS.hold }, ..Self::PASS }
    }

    /// The event leaves at least `space` after the one before it.
    #[must_use]
    pub const fn space(space: Duration) -> Self {
        Self { hold: Hold { space, ..Self::PASS.hold }, ..Self::PASS }
    }

    /// These bytes go on in the event's place.
    #[must_use]
    pub const fn replace(bytes: Bytes) -> Self {
        Self { out: Out::Replace(bytes), ..Self::PASS }
    }

    /// The event is swallowed.
    #[must_use]
    pub const fn swallow() -> Self {
        Self::replace(Bytes::new())
    }

    /// The same, and then.
    #[must_use]
    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}

/// What the note of a fault adds whose hold ended with the fault's window, before its own time.
pub const CUT_BY_WINDOW: &str = ", cut off as its window ended";

/// What has really been done to one request so far; it goes into the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// How many events (or tokens, or bodies) were touched; 0 = the fault was chosen but had nothing to act on.
    pub touched: u64,
    /// The sum of all added waits ([`Hold::add`]) that were asked for; spacings and rates may cost nothing and are not
    /// in it.
    pub asked: Duration,
    /// What was done, in words: `stalled at token 40`.
    pub note: String,
}

/// One fault at work on the answer to one request. It sees every event and says what becomes of it.
pub trait Effect: Send {
    /// One event of a stream, or one frame of an answer that is no event stream ([`crate::wire::Class::Raw`]).
    fn event(&mut self, event: &Event<'_>) -> Step;

    /// A whole JSON answer (the request did not ask for a stream). `tokens`: its completion tokens, by its usage.
    fn body(&mut self, body: &[u8], tokens: u32) -> Step {
        let _ = (body, tokens);
        Step::PASS
    }

    /// The stream has ended orderly; the last chance to hold the end, to put events before it
    /// ([`Out::Replace`]), or to close the connection instead.
    fn end(&mut self) -> Step {
        Step::PASS
    }

    /// What was done so far.
    fn done(&self) -> Done;
}

/// The meaning of one fault kind.
pub trait Meaning {
    /// What happens before the request goes upstream.
    fn before(&self, facts: &Facts<'_>, draw: crate::Draw) -> Before {
        let _ = (facts, draw);
        Before::Forward
    }

    /// What happens to the answer.
    fn on_answer(&self, facts: &Facts<'_>, draw: crate::Draw) -> Option<Box<dyn Effect>> {
        let _ = (facts, draw);
        None
    }
}
