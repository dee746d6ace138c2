//! The connections to the server that a worker keeps.

use crate::call::Sending;
use crate::direct::Direct;
use crate::link::{Link, ServerIo};
use crate::measure::is_event_stream;
use crate::worker::Worker;
use http::Response;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a connection rests after an event stream: some servers (llama.cpp's) close it right then although they
/// promised to keep it, and a request sent in that instant is lost.
const REST: Duration = Duration::from_millis(20);

/// The same, as long as the server has not been seen to keep one. Much longer, as a busy server may be slow to close.
const TRIAL: Duration = Duration::from_millis(100);

/// The connections to the server that a worker keeps.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// With the moment since which each is free.
    idle: Mutex<Vec<(Kept, Instant)>>,
    /// The connection that rested last was still open at the end.
    stays_open: AtomicBool,
    h2: Mutex<Option<http2::SendRequest<Sending>>>,
}

/// A connection that hyper drives, in a task of its own.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) sender: http1::SendRequest<Sending>,
    pub(crate) link: Arc<Link>,
    /// Where the socket comes when it is taken over.
    pub(crate) socket: oneshot::Receiver<ServerIo>,
}

/// A connection that is kept.
#[derive(Debug)]
pub(crate) enum Kept {
    Driven(Driven),
    /// One that was taken from hyper for a stream: until it is used, it needs none of hyper's buffers.
    Bare(ServerIo),
}

impl Kept {
    fn is_closed(&self) -> bool {
        match self {
            Self::Driven(driven) => driven.sender.is_closed(),
            Self::Bare(io) => !io.is_quiet(),
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Self::Driven(driven) => driven.sender.is_ready(),
            Self::Bare(_) => true,
        }
    }
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, Vec<(Kept, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection used last, as it is the least likely to be closed by now.
    /// Nothing that was idle for `longest`: the server may be about to close it.
    pub(crate) fn take(&self, longest: Duration) -> Option<Kept> {
        let now = Instant::now();
        let mut idle = self.idle();
        let mut at = idle.len();
        while at > 0 {
            at -= 1;
            if now - idle[at].1 >= longest || idle[at].0.is_closed() {
                idle.remove(at);
            } else if idle[at].0.is_ready() {
                return Some(idle.remove(at).0);
            }
        }
        None
    }

    /// Keeps a connection, unless there are `most` already.
    fn put(&self, kept: Kept, most: usize) {
        let mut idle = self.idle();
        if idle.len() < most && !kept.is_closed() {
            idle.push((kept, Instant::now()));
        }
    }

    /// Lets go of connections that were idle for longer than `longest`.
    pub(crate) fn prune(&self, longest: Duration) {
        let now = Instant::now();
        self.idle().retain(|(kept, since)| now - *since < longest && !kept.is_closed());
    }

    /// The HTTP/2 connection, shared by all requests.
    pub(crate) fn h2(&self) -> Option<http2::SendRequest<Sending>> {
        let kept = self.h2.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.filter(|sender| !sender.is_closed())
    }

    pub(crate) fn put_h2(&self, sender: http2::SendRequest<Sending>) {
        *self.h2.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    }
}

/// Keeps a connection on which an event stream has ended, once it has rested.
pub(crate) async fn rest(worker: Arc<Worker>, kept: Kept) {
    let pool = &worker.pool;
    tokio::time::sleep(if pool.stays_open.load(Relaxed) { REST } else { TRIAL }).await;
    pool.stays_open.store(!kept.is_closed(), Relaxed);
    pool.put(kept, worker.limits().idle_upstream);
}

/// A connection to the server that a request is using. Dropped, it is closed: so a client that leaves cancels its
/// request.
#[derive(Debug)]
pub(crate) struct Lease {
    driven: Driven,
    worker: Arc<Worker>,
    /// The answer is an event stream.
    streams: bool,
}

impl Lease {
    /// For as long as `response` is read.
    pub(crate) fn new(driven: Driven, worker: Arc<Worker>, response: &Response<Incoming>) -> Self {
        Self { driven, worker, streams: is_event_stream(response.headers()) }
    }

    /// The answer was read whole.
    pub(crate) fn give_back(lease: &mut Option<Self>) {
        if let Some(Self { driven, worker, streams }) = lease.take() {
            let kept = Kept::Driven(driven);
            if streams {
                tokio::spawn(rest(worker, kept));
            } else {
                worker.pool.put(kept, worker.limits().idle_upstream);
            }
        }
    }

    /// Whether the socket can be taken from hyper: the answer is an event stream, and nothing speaks against it. Where
    /// not, hyper reads on.
    pub(crate) fn can_take_over(&self, response: &Response<Incoming>) -> bool {
        let link = &self.driven.link;
        let can = !http_body::Body::is_end_stream(response.body()) && link.can_take_over();
        if !can {
            link.open();
        }
        can
    }

    /// Takes the socket from hyper.
    pub(crate) async fn take_over(self, response: &Response<Incoming>) -> Direct {
        let Driven { sender, link, socket } = self.driven;
        link.take_over();
        // hyper would take a sender that is gone for the end of the connection.
        let taken = socket.await;
        drop(sender);
        // Without a socket its task is gone, so the connection is: what comes of it is an answer that broke off.
        Direct::new(response, taken.ok(), self.worker)
    }
}
