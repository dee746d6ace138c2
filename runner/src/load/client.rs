//! Connections to the target: opened when needed, kept for the next request, driven by whoever uses them.
//!
//! A connection is polled by the same task as its answer, so that bytes need no second task to get from the socket to
//! the reader; that halves the wake-ups of a stream, and lets the reader see when the socket was read.

use super::Target;
use super::io::{Marked, Marks};
use super::outcome::End;
use super::tls::Stream;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

type Wire = http1::Connection<TokioIo<Stream>, Full<Bytes>>;

/// One connection. Dropping it closes it, which is how a server learns that its answer is no longer wanted.
pub(super) struct Connection {
    send: http1::SendRequest<Full<Bytes>>,
    /// None once it has ended.
    wire: Option<Pin<Box<Wire>>>,
    pub(super) marks: Rc<Marks>,
    /// Of what the server says, inside TLS where it is spoken.
    heard: Rc<Marks>,
    /// How often it had said something when the request under way was handed over.
    heard_before: u64,
    /// Whether it has carried a request before.
    pub(super) used: bool,
    /// When the request under way was handed over.
    sent: Instant,
}

/// A kept connection that ends so soon after a request was sent on it, with no byte of an answer, was most likely closed
/// by the server before it saw the request: the close was on its way already. No round trip takes longer.
const CLOSE_UNDER_WAY: Duration = Duration::from_millis(200);

impl Connection {
    /// Moves bytes between socket and HTTP.
    fn turn(&mut self, cx: &mut Context<'_>) {
        if let Some(wire) = &mut self.wire
            && wire.as_mut().poll(cx).is_ready()
        {
            self.wire = None;
        }
    }

    /// Completes `work` while moving bytes.
    pub(super) async fn drive<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.turn(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Sends a request and waits for the answer's headers.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<http::Response<hyper::body::Incoming>, http1_error::TrySend> {
        self.sent = Instant::now();
        self.heard_before = self.heard.reads.get();
        let answer = self.send.try_send_request(request);
        self.drive(answer).await
    }

    /// Whether another request can be sent, as far as can be told without waiting.
    async fn is_usable(&mut self) -> bool {
        poll_fn(|cx| {
            self.turn(cx);
            let ready = self.wire.is_some() && matches!(self.send.poll_ready(cx), Poll::Ready(Ok(())));
            Poll::Ready(ready)
        })
        .await
    }

    /// What a failure on this connection was.
    pub(super) fn end_of(&self, error: &hyper::Error, answered: bool) -> End {
        let unheard = !answered && self.heard.reads.get() == self.heard_before;
        let stale = self.used && unheard && !error.is_parse() && self.sent.elapsed() < CLOSE_UNDER_WAY;
        if stale {
            return End::Stale(innermost(error));
        }
        if let Some(kind) = self.marks.failure.get() {
            return End::Reset(kind.to_string());
        }
        match (answered, self.marks.end_of_file.get()) {
            (false, _) if error.is_parse() => End::NotHttp(error.to_string()),
            (false, true) => End::Reset("closed before the answer".to_owned()),
            (false, false) => End::Reset(error.to_string()),
            (true, true) => End::Incomplete("the connection closed before the body's end".to_owned()),
            (true, false) => End::Incomplete(innermost(error)),
        }
    }
}

/// The error of a request that may not have left, with the request.
pub(super) mod http1_error {
    use super::{Bytes, Full, Request};

    pub(crate) type TrySend = hyper::client::conn::TrySendError<Request<Full<Bytes>>>;
}

fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// Opens and keeps connections.
pub(super) struct Client {
    target: Target,
    connect_timeout: Duration,
    /// The address that answered last.
    preferred: Cell<usize>,
    idle: RefCell<Vec<Connection>>,
}

impl Client {
    pub(super) const fn new(target: Target, connect_timeout: Duration) -> Self {
        Self { target, connect_timeout, preferred: Cell::new(0), idle: RefCell::new(Vec::new()) }
    }

    /// A kept connection that still works, else a new one.
    pub(super) async fn connection(&self) -> Result<Connection, End> {
        loop {
            // The borrow must not last over the wait.
            let kept = self.idle.borrow_mut().pop();
            let Some(mut connection) = kept else { break };
            // A turn of the event loop: the server's close of this connection, where it is here already, is seen now
            // and not by the request.
            tokio::task::yield_now().await;
            if connection.is_usable().await {
                return Ok(connection);
            }
        }
        self.open().await
    }

    /// A new connection.
    pub(super) async fn open(&self) -> Result<Connection, End> {
        let all = &self.target.addresses;
        let mut last = End::ConnectTimeout;
        for turn in 0..all.len() {
            let index = (self.preferred.get() + turn) % all.len();
            match tokio::time::timeout(self.connect_timeout, self.open_to(all[index])).await {
                Ok(Ok(connection)) => {
                    self.preferred.set(index);
                    return Ok(connection);
                }
                // All addresses have one certificate; what is said of it is not to be hidden by a closed port.
                Ok(Err(end @ End::Tls(_))) => return Err(end),
                Ok(Err(end)) => last = end,
                Err(_) => last = End::ConnectTimeout,
            }
        }
        Err(last)
    }

    async fn open_to(&self, address: SocketAddr) -> Result<Connection, End> {
        let socket = TcpStream::connect(address).await.map_err(|error| not_connected(&error))?;
        // A request is one write: holding it back for more only adds delay.
        socket.set_nodelay(true).map_err(|error| not_connected(&error))?;
        let (socket, marks) = Marked::new(socket);
        let (stream, heard) = match self.target.tls() {
            Some(tls) => tls.connect(socket).await.map_err(End::Tls)?,
            None => (Stream::Left(socket), Rc::clone(&marks)),
        };
        let (send, wire) = http1::Builder::new()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| End::Refused(error.to_string()))?;
        Ok(Connection {
            send,
            wire: Some(Box::pin(wire)),
            marks,
            heard,
            heard_before: 0,
            used: false,
            sent: Instant::now(),
        })
    }

    /// Keeps a connection whose answer has been read to its end.
    pub(super) async fn keep(&self, mut connection: Connection) {
        // One turn lets HTTP take note of the end; a connection that the server wants closed ends here.
        poll_fn(|cx| {
            connection.turn(cx);
            Poll::Ready(())
        })
        .await;
        if connection.wire.is_some() {
            connection.used = true;
            self.idle.borrow_mut().push(connection);
        }
    }
}

fn not_connected(error: &std::io::Error) -> End {
    use rustix::io::Errno;
    use std::io::ErrorKind;
    let ours = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    match error.kind() {
        ErrorKind::TimedOut => End::ConnectTimeout,
        ErrorKind::AddrNotAvailable => End::Client(format!("the client has no port left: {error}")),
        _ if error.raw_os_error().is_some_and(|code| ours.contains(&code)) => {
            End::Client(format!("the client has no socket left: {error}"))
        }
        _ => End::Refused(error.to_string()),
    }
}
