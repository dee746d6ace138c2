//! One request on its way down the stack.

use crate::case::Case;
use crate::client::Client;
use crate::link::Link;
use brownout_injector::wire::Api;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tower::BoxError;

/// One request on its way down the stack.
#[derive(Debug)]
pub(crate) struct Call {
    /// Method, path, headers.
    pub(crate) head: Parts,
    /// The body.
    pub(crate) body: RequestBody,
    /// The protocol of its path.
    pub(crate) api: Api,
    /// When its head was there.
    pub(crate) arrived: Instant,
    /// The connection it came on.
    pub(crate) client: Arc<Client>,
    /// What was read of it for a plan; nothing where none is armed.
    pub(crate) known: Option<Box<crate::facts::Known>>,
    /// What the plan says of it; nothing where no fault fires.
    pub(crate) case: Option<Box<Case>>,
}

impl Call {
    /// A request whose head is there now.
    pub(crate) fn new(head: Parts, body: RequestBody, client: Arc<Client>) -> Self {
        let api = Api::of_path(head.uri.path());
        Self { head, body, api, arrived: Instant::now(), client, known: None, case: None }
    }
}

/// A body from or for a server that is not ours; boxed, as it can be of any type.
pub(crate) type Foreign = UnsyncBoxBody<Bytes, BoxError>;

/// The body of a request: as it comes, or as far as it was read.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// As it comes from hyper.
    Incoming(Incoming),
    /// As it comes from whoever calls the layer.
    Foreign(Foreign),
    /// Read whole.
    Full(Bytes),
    /// Read in part, because it turned out too large.
    Partly {
        /// What was read.
        read: VecDeque<Bytes>,
        /// What was not.
        rest: Box<RequestBody>,
    },
}

impl RequestBody {
    /// Whether nothing is left of it.
    pub(crate) fn is_spent(&self) -> bool {
        match self {
            Self::Incoming(body) => body.is_end_stream(),
            Self::Foreign(body) => body.is_end_stream(),
            Self::Full(bytes) => bytes.is_empty(),
            Self::Partly { read, rest } => read.is_empty() && rest.is_end_stream(),
        }
    }

    /// Reads the body whole where it has at most `limit` bytes.
    ///
    /// # Errors
    /// The client broke off.
    pub(crate) async fn read(mut self, limit: usize) -> Result<Self, BoxError> {
        if matches!(self, Self::Full(_) | Self::Partly { .. }) || self.size_hint().lower() > limit as u64 {
            return Ok(self);
        }
        let (mut frames, mut size) = (VecDeque::new(), 0);
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await {
            // Trailers of requests are of no use to anyone here; a body with trailers is read on without them.
            let Ok(data) = frame?.into_data() else { continue };
            size += data.len();
            frames.push_back(data);
            if size > limit {
                return Ok(Self::Partly { read: frames, rest: Box::new(self) });
            }
        }
        Ok(Self::Full(match frames.len() {
            1 => frames.pop_front().unwrap_or_default(),
            _ => frames
                .iter()
                .fold(BytesMut::with_capacity(size), |mut all, frame| {
                    all.extend_from_slice(frame);
                    all
                })
                .freeze(),
        }))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Incoming(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            Self::Foreign(body) => Pin::new(body).poll_frame(cx),
            Self::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Partly { read, rest } => match read.pop_front() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => Pin::new(&mut **rest).poll_frame(cx),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_spent()
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Incoming(body) => body.size_hint(),
            Self::Foreign(body) => body.size_hint(),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Partly { read, rest } => {
                let read: u64 = read.iter().map(|bytes| bytes.len() as u64).sum();
                let mut hint = rest.size_hint();
                if let Some(upper) = hint.upper() {
                    hint.set_upper(upper + read);
                }
                hint.set_lower(hint.lower() + read);
                hint
            }
        }
    }
}

/// A request's body on its way to the server; it tells the connection when it has been given out whole.
#[derive(Debug)]
pub(crate) struct Sending {
    body: RequestBody,
    link: Option<Arc<Link>>,
}

impl Sending {
    pub(crate) const fn new(body: RequestBody) -> Self {
        Self { body, link: None }
    }

    /// It goes out on this connection.
    pub(crate) fn begin(&mut self, link: &Arc<Link>) {
        link.begin();
        self.link = Some(link.clone());
        self.tell();
    }

    fn tell(&self) {
        if let Some(link) = self.link.as_ref().filter(|_| self.body.is_spent()) {
            link.sent();
        }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(_) => self.tell(),
            None => {
                if let Some(link) = &self.link {
                    link.sent();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_spent()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
