//! The body of an answer, unboxed: straight from the server where nothing is done to it.

use crate::call::Foreign;
use crate::case::Case;
use crate::direct::Direct;
use crate::meter::Origin;
use crate::pool::Lease;
use crate::shape::Shaped;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::BoxError;

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Body {
    kind: Kind,
    origin: Origin,
    /// Kept until the body has gone, or the client has: then the journal is written, and a place in a queue free.
    _case: Option<Box<Case>>,
}

#[derive(Debug)]
enum Kind {
    Full(Bytes),
    Upstream { incoming: Incoming, lease: Option<Lease> },
    Direct(Box<Direct>),
    Foreign(Foreign),
    Shaped(Box<Shaped>),
}

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The server broke off, or lied about the length.
    #[error("the server broke off: {0}")]
    Upstream(#[from] hyper::Error),
    /// The body of the wrapped service's own answer failed.
    #[error("the service broke off: {0}")]
    Service(BoxError),
    /// The server broke off in an event stream, or broke its framing.
    #[error("the server broke off")]
    BrokenOff,
    /// A fault closes the connection here.
    #[error("closed by a fault")]
    Closed,
}

impl Body {
    /// These bytes, maybe none.
    #[must_use]
    pub(crate) const fn full(bytes: Bytes, origin: Origin) -> Self {
        Self { kind: Kind::Full(bytes), origin, _case: None }
    }

    pub(crate) const fn upstream(incoming: Incoming, lease: Option<Lease>) -> Self {
        Self { kind: Kind::Upstream { incoming, lease }, origin: Origin::Organic, _case: None }
    }

    pub(crate) const fn direct(direct: Box<Direct>) -> Self {
        Self { kind: Kind::Direct(direct), origin: Origin::Organic, _case: None }
    }

    /// The answer of a service in this process.
    pub(crate) fn foreign<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if body.is_end_stream() {
            return Self::full(Bytes::new(), Origin::Organic);
        }
        let body = body.map_err(Into::into).boxed_unsync();
        Self { kind: Kind::Foreign(body), origin: Origin::Organic, _case: None }
    }

    pub(crate) const fn shaped(shaped: Box<Shaped>) -> Self {
        Self { kind: Kind::Shaped(shaped), origin: Origin::Organic, _case: None }
    }

    /// Keeps `case` until the body is gone.
    pub(crate) fn keeping(self, case: Box<Case>) -> Self {
        Self { _case: Some(case), ..self }
    }

    /// Who made the answer what it is.
    #[must_use]
    pub(crate) fn origin(&self) -> Origin {
        match &self.kind {
            Kind::Shaped(shaped) => shaped.origin(),
            _ => self.origin,
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.kind {
            Kind::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Upstream { incoming, lease } => {
                let polled = Pin::new(&mut *incoming).poll_frame(cx);
                if let Poll::Ready(frame) = &polled {
                    match frame {
                        Some(Ok(_)) if !incoming.is_end_stream() => {}
                        // The answer is complete: the connection to the server is free for the next request.
                        Some(Ok(_)) | None => Lease::give_back(lease),
                        Some(Err(_)) => *lease = None,
                    }
                }
                polled.map(|frame| frame.map(|frame| frame.map_err(BodyError::Upstream)))
            }
            Kind::Direct(direct) => Pin::new(&mut **direct).poll_frame(cx),
            Kind::Foreign(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(BodyError::Service))),
            Kind::Shaped(shaped) => Pin::new(&mut **shaped).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Full(bytes) => bytes.is_empty(),
            Kind::Upstream { incoming, .. } => incoming.is_end_stream(),
            Kind::Direct(direct) => direct.is_end_stream(),
            Kind::Foreign(body) => body.is_end_stream(),
            Kind::Shaped(shaped) => shaped.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Upstream { incoming, .. } => incoming.size_hint(),
            Kind::Direct(direct) => direct.size_hint(),
            Kind::Foreign(body) => body.size_hint(),
            Kind::Shaped(shaped) => shaped.size_hint(),
        }
    }
}
