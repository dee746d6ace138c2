//! A client's connection: the socket as hyper sees it, and a handle by which a fault can close it under hyper.

use crate::meter::bump;
use crate::site::Site;
use crate::small_writes::poll_write_pieces;
use crate::worker::Worker;
use brownout_injector::effect::Close;
use futures_util::task::AtomicWaker;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;

const OPEN: u8 = 0;
const CUT: u8 = 1;
const DRAIN: u8 = 2;

/// The handle of one client connection, shared by its socket, its requests and its worker.
#[derive(Debug)]
pub(crate) struct Client {
    site: Arc<Site>,
    id: u64,
    h2: bool,
    state: AtomicU8,
    /// Whether the socket is reset rather than closed when it is dropped.
    reset: AtomicU8,
    waker: AtomicWaker,
    /// Whether something was written to it since the last look.
    wrote: AtomicBool,
    /// Whether its socket is to see if the client is still there.
    doubted: AtomicBool,
    /// Requests on it that are not answered yet.
    busy: AtomicU32,
    /// When the first byte of the request head under way came, in worker milliseconds; 0 for none.
    head_since: AtomicU32,
    /// When it had nothing more to do, in worker milliseconds.
    idle_since: AtomicU32,
}

impl Client {
    /// A connection that this worker serves.
    pub(crate) fn new(worker: &Worker, id: u64, h2: bool) -> Arc<Self> {
        let client = Arc::new(Self::of(worker.site().clone(), id, h2));
        worker.register(id, &client);
        client
    }

    /// Stands for all connections of a server that is not ours. Nothing can be closed by it, and nobody looks whether
    /// it is idle.
    pub(crate) fn elsewhere(site: Arc<Site>) -> Arc<Self> {
        Arc::new(Self::of(site, 0, false))
    }

    fn of(site: Arc<Site>, id: u64, h2: bool) -> Self {
        let now = site.millis();
        Self {
            id,
            h2,
            state: AtomicU8::new(OPEN),
            reset: AtomicU8::new(0),
            waker: AtomicWaker::new(),
            wrote: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            busy: AtomicU32::new(0),
            head_since: AtomicU32::new(0),
            idle_since: AtomicU32::new(now),
            site,
        }
    }

    /// What the layers share that serve it.
    pub(crate) const fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Whether it speaks HTTP/2.
    pub(crate) const fn h2(&self) -> bool {
        self.h2
    }

    /// Makes the socket close in this way when hyper lets go of it. On HTTP/2 a request is one stream of many, so the
    /// connection stays and only the stream is reset.
    pub(crate) fn close_as(&self, close: Close) {
        if !self.h2 {
            self.reset.store(u8::from(close == Close::Rst), Relaxed);
        }
    }

    /// Ends the connection at once.
    fn cut(&self) {
        self.state.store(CUT, Relaxed);
        self.waker.wake();
    }

    /// Lets the requests in flight finish, and takes no new one.
    pub(crate) fn drain(&self) {
        if self.state.compare_exchange(OPEN, DRAIN, Relaxed, Relaxed).is_ok() {
            self.waker.wake();
        }
    }

    /// A request has come in whole.
    pub(crate) fn request_begins(&self) {
        bump_u32(&self.busy, 1);
        self.head_since.store(0, Relaxed);
    }

    /// A request is over.
    pub(crate) fn request_ends(&self) {
        bump_u32(&self.busy, u32::MAX);
        self.idle_since.store(self.site.millis(), Relaxed);
    }

    /// Cuts the connection where its client dawdles: a head that does not end, or nothing at all for too long; and
    /// where it waits for an answer of which nothing comes, has its socket see whether it is still there.
    pub(crate) fn enforce(&self, now: u32, header_read: Duration, idle: Duration) {
        if self.busy.load(Relaxed) > 0 {
            if !self.h2 && !self.wrote.swap(false, Relaxed) {
                self.doubted.store(true, Relaxed);
                self.waker.wake();
            }
            return;
        }
        let (since, longest) = match self.head_since.load(Relaxed) {
            0 => (self.idle_since.load(Relaxed), idle),
            since => (since, header_read),
        };
        if u128::from(now.saturating_sub(since)) > longest.as_millis() {
            self.cut();
        }
    }

    fn bytes_came(&self) {
        if !self.h2 && self.busy.load(Relaxed) == 0 && self.head_since.load(Relaxed) == 0 {
            self.head_since.store(self.site.millis().max(1), Relaxed);
        }
    }
}

fn bump_u32(counter: &AtomicU32, by: u32) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// The socket as hyper sees it.
#[derive(Debug)]
pub(crate) struct ClientIo {
    io: TokioIo<TcpStream>,
    client: Arc<Client>,
    worker: Arc<Worker>,
}

impl ClientIo {
    pub(crate) fn new(stream: TcpStream, client: Arc<Client>, worker: Arc<Worker>) -> Self {
        bump(&worker.meter.connections, 1);
        Self { io: TokioIo::new(stream), client, worker }
    }
}

impl ClientIo {
    /// Whether the client has closed its side. hyper sees that by reading, but does not read on while it has bytes that
    /// came behind the request that it is at, such as a request sent ahead.
    fn has_left(&self) -> bool {
        let mut about = [PollFd::new(self.io.inner(), PollFlags::RDHUP)];
        poll(&mut about, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

impl Drop for ClientIo {
    fn drop(&mut self) {
        self.worker.unregister(self.client.id);
        bump(&self.worker.meter.connections, u64::MAX);
        if self.client.reset.load(Relaxed) == 1 {
            // With a linger time of zero, closing sends RST and forgets what was not sent yet (socket(7)).
            let _ = socket2::SockRef::from(self.io.inner()).set_linger(Some(Duration::ZERO));
        }
    }
}

impl Read for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = read {
            self.client.bytes_came();
        }
        read
    }
}

impl Write for ClientIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.client.wrote.store(true, Relaxed);
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    /// hyper comes here whenever it is polled and has nothing to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.client.doubted.load(Relaxed) {
            self.client.doubted.store(false, Relaxed);
            if self.has_left() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.client.reset.load(Relaxed) == 1 {
            // An orderly FIN now would hide the reset that follows.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.client.wrote.store(true, Relaxed);
        poll_write_pieces(Pin::new(&mut self.io), cx, bufs)
    }
}

/// A connection that hyper serves and that can be told to stop.
pub(crate) trait Graceful: Future {
    fn stop(self: Pin<&mut Self>);
}

pin_project_lite::pin_project! {
    /// Serves a connection until it ends, its worker drains, or somebody cuts it.
    pub(crate) struct Serve<C> {
        #[pin]
        connection: C,
        client: Arc<Client>,
        registered: bool,
        stopping: bool,
    }
}

impl<C> Serve<C> {
    pub(crate) const fn new(connection: C, client: Arc<Client>) -> Self {
        Self { connection, client, registered: false, stopping: false }
    }
}

impl<C: Graceful> Future for Serve<C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        // A task's waker stays valid for the task's whole life, so once is enough, and once more after it was used.
        if !*this.registered || this.client.doubted.load(Relaxed) {
            this.client.waker.register(cx.waker());
            *this.registered = true;
        }
        match this.client.state.load(Relaxed) {
            CUT => return Poll::Ready(()),
            DRAIN if !*this.stopping => {
                *this.stopping = true;
                this.connection.as_mut().stop();
            }
            _ => {}
        }
        // Why a connection ended is counted where it was seen: per request.
        this.connection.poll(cx).map(|_| ())
    }
}
