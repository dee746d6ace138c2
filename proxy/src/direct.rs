//! An event stream read from the server's socket by the very task that writes it to the client: no channel, no second
//! task, no buffer that stays with the stream while nothing comes.

use crate::body::BodyError;
use crate::chunked::Chunks;
use crate::link::ServerIo;
use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// An event stream, straight from the socket.
#[derive(Debug)]
pub(crate) struct Direct {
    /// The socket; nothing once the stream has ended.
    io: Option<ServerIo>,
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
    Eof,
    /// No framing any more, behind this data.
    Bad(Bytes),
}

impl Direct {
    /// The body behind the head of `response`, from a socket that hyper was taken off; nothing where that was lost.
    pub(crate) fn new<B>(response: &Response<B>, io: Option<ServerIo>) -> Self {
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
        let mut direct = Self { io, broken, framing, trailers: None };
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

    /// The answer is complete. Its connection serves no other request: some servers (llama.cpp's) close it right after
    /// a stream although they promised to keep it, and a request sent in that instant is lost. Connecting anew costs
    /// less than a token.
    fn finish(&mut self) {
        self.io = None;
        if let Framing::Chunked(chunks) = &mut self.framing {
            self.trailers = chunks.trailers();
        }
    }
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
                Got::Data(Bytes::copy_from_slice(&bytes[..n]))
            }
            Self::Close => Got::Data(Bytes::copy_from_slice(bytes)),
            Self::Chunked(chunks) => {
                let mut data = BytesMut::with_capacity(bytes.len());
                match chunks.decode(bytes, &mut data) {
                    Ok(_) => Got::Data(data.freeze()),
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
            match ready!(io.poll_bytes(cx, |bytes| framing.decode(bytes))).unwrap_or(Got::Bad(Bytes::new())) {
                Got::Data(data) => {
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
