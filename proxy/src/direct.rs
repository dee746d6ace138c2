//! An event stream read from the server's socket by the very task that writes it to the client: no channel, no second
//! task, no buffer that stays with the stream while nothing comes.

use crate::body::BodyError;
use crate::chunked::Chunks;
use crate::link::ServerIo;
use crate::pool::{self, Kept};
use crate::worker::Worker;
use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::{Response, Version};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// An event stream, straight from the socket.
#[derive(Debug)]
pub(crate) struct Direct {
    /// The socket; nothing once the stream has ended.
    io: Option<ServerIo>,
    /// Who keeps the socket then; nobody where it serves no other request.
    keeper: Option<Arc<Worker>>,
    /// The answer broke off, and that is still to be told: what came before it goes first.
    broken: bool,
    framing: Framing,
    trailers: Option<HeaderMap>,
}

#[derive(Debug)]
enum Framing {
    Length(u64),
    Chunked(Chunks),
    /// Until the server closes.
    Close,
}

/// What a read came to.
enum Got {
    Data(Bytes),
    /// With more bytes behind the answer, which nobody asked for.
    Excess(Bytes),
    Eof,
    /// No framing any more, behind this data.
    Bad(Bytes),
}

impl Got {
    fn data(data: Bytes, excess: bool) -> Self {
        if excess { Self::Excess(data) } else { Self::Data(data) }
    }
}

impl Direct {
    /// The body behind the head of `response`, from a socket that hyper was taken off; nothing where that was lost.
    pub(crate) fn new<B>(response: &Response<B>, io: Option<ServerIo>, worker: Arc<Worker>) -> Self {
        let headers = response.headers();
        let chunked = headers.get(TRANSFER_ENCODING).is_some_and(|coding| {
            coding.as_bytes().trim_ascii_end().to_ascii_lowercase().ends_with(b"chunked")
        });
        let length = || headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
        let framing = match (chunked, length()) {
            (true, _) => Framing::Chunked(Chunks::new()),
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::Close,
        };
        let broken = io.is_none();
        let keeper = (persists(response) && !matches!(framing, Framing::Close)).then_some(worker);
        let mut direct = Self { io, keeper, broken, framing, trailers: None };
        if direct.is_complete() {
            direct.finish();
        }
        direct
    }

    fn is_complete(&self) -> bool {
        match &self.framing {
            Framing::Length(left) => *left == 0,
            Framing::Chunked(chunks) => chunks.is_done(),
            Framing::Close => false,
        }
    }

    /// The answer is complete.
    fn finish(&mut self) {
        if let (Some(io), Some(worker)) = (self.io.take(), self.keeper.take()) {
            tokio::spawn(pool::rest(worker, Kept::Bare(io.again())));
        }
        if let Framing::Chunked(chunks) = &mut self.framing {
            self.trailers = chunks.trailers();
        }
    }
}

/// Whether the server takes another request on the connection of this answer (RFC 9112, 9.3).
fn persists<B>(response: &Response<B>) -> bool {
    let closes = |value: &HeaderValue| {
        value
            .as_bytes()
            .split(|byte| *byte == b',')
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    };
    response.version() == Version::HTTP_11 && !response.headers().get_all(CONNECTION).iter().any(closes)
}

impl Framing {
    /// Takes the framing off `bytes`.
    fn decode(&mut self, bytes: &[u8]) -> Got {
        if bytes.is_empty() {
            return Got::Eof;
        }
        match self {
            Self::Length(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= n as u64;
                Got::data(Bytes::copy_from_slice(&bytes[..n]), n < bytes.len())
            }
            Self::Close => Got::Data(Bytes::copy_from_slice(bytes)),
            Self::Chunked(chunks) => {
                let mut data = BytesMut::with_capacity(bytes.len());
                match chunks.decode(bytes, &mut data) {
                    Ok(n) => Got::data(data.freeze(), n < bytes.len()),
                    Err(_) => Got::Bad(data.freeze()),
                }
            }
        }
    }
}

impl Body for Direct {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if std::mem::take(&mut this.broken) {
            return Poll::Ready(Some(Err(BodyError::BrokenOff)));
        }
        loop {
            let Some(io) = &mut this.io else {
                return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            };
            let framing = &mut this.framing;
            let got =
                ready!(io.poll_bytes(cx, |bytes| framing.decode(bytes))).unwrap_or(Got::Bad(Bytes::new()));
            if matches!(got, Got::Excess(_)) {
                this.keeper = None;
            }
            match got {
                Got::Data(data) | Got::Excess(data) => {
                    if this.is_complete() {
                        this.finish();
                    }
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                Got::Eof if matches!(this.framing, Framing::Close) => this.io = None,
                Got::Bad(data) if !data.is_empty() => {
                    (this.io, this.broken) = (None, true);
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Got::Eof | Got::Bad(_) => {
                    this.io = None;
                    return Poll::Ready(Some(Err(BodyError::BrokenOff)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.io.is_none() && self.trailers.is_none() && !self.broken
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.io, &self.framing) {
            (None, _) if !self.broken => SizeHint::with_exact(0),
            (_, Framing::Length(left)) => SizeHint::with_exact(*left),
            _ => SizeHint::default(),
        }
    }
}
