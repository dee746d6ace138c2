//! A connection to the server, as hyper's client sees it, with a way to get the socket back.
//!
//! hyper passes each frame of an answer from the connection's task to ours over a channel, out of an 8 KiB buffer of
//! its own. For an event stream, which is long and comes in small pieces, that is most of the cost of passing it. So
//! this socket looks at the head of each answer on its way to hyper; where it announces an event stream, nothing
//! behind the head is given out, and the request's own task takes the socket over ([`crate::direct`]). All other
//! answers stay with hyper.
//!
//! So do the streams of a connection by TLS. What that costs is little beside decrypting, and such a connection is
//! worth keeping: a new one takes two or three more ways to the server and back before the first token.

use crate::call::Sending;
use crate::small_writes::poll_write_pieces;
use crate::spelling::Spelling;
use crate::tls::Stream;
use bytes::{Buf, Bytes};
use futures_util::task::AtomicWaker;
use hyper::client::conn::http1::Connection;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::oneshot;

/// Bytes read at a time: a few hundred events, or a usual answer head many times over.
pub(crate) const READ: usize = 8 << 10;

/// An answer head is to come, and is looked at.
const HEAD: u8 = 0;
/// What comes is hyper's.
const OPEN: u8 = 1;
/// The head of an event stream went to hyper, what comes behind it is kept.
const HELD: u8 = 2;

/// What the request's task and the connection's task share.
#[derive(Debug, Default)]
pub(crate) struct Link {
    mode: AtomicU8,
    /// Streams are taken over.
    direct: bool,
    /// The request has been sent whole, as far as its body goes.
    sent: AtomicBool,
    /// The socket did not take all bytes of the last write.
    blocked: AtomicBool,
    taking_over: AtomicBool,
    /// How the server spells, where heads are looked at.
    pub(crate) spelling: Spelling,
    waker: AtomicWaker,
}

impl Link {
    /// A request is going out.
    pub(crate) fn begin(&self) {
        self.sent.store(false, Relaxed);
        self.mode.store(if self.direct { HEAD } else { OPEN }, Relaxed);
    }

    /// The request's body has been given to hyper whole.
    pub(crate) fn sent(&self) {
        self.sent.store(true, Relaxed);
    }

    /// Whether an event stream follows, and nothing is left to be sent for its request.
    pub(crate) fn can_take_over(&self) -> bool {
        self.mode.load(Relaxed) == HELD && self.sent.load(Relaxed) && !self.blocked.load(Relaxed)
    }

    /// Leaves the answer to hyper after all.
    pub(crate) fn open(&self) {
        if self.mode.swap(OPEN, Relaxed) == HELD {
            self.waker.wake();
        }
    }

    /// Asks the connection's task for the socket.
    pub(crate) fn take_over(&self) {
        self.taking_over.store(true, Relaxed);
        self.waker.wake();
    }
}

/// The socket.
#[derive(Debug)]
pub(crate) struct ServerIo {
    io: TokioIo<Stream>,
    link: Arc<Link>,
    /// What was read behind the head of an event stream.
    kept: Bytes,
    /// An answer head under way that did not come in one piece.
    head: Vec<u8>,
}

impl ServerIo {
    pub(crate) fn new(stream: Stream) -> Self {
        let link = Link { direct: matches!(stream, Stream::Left(_)), ..Link::default() };
        Self { io: TokioIo::new(stream), link: Arc::new(link), kept: Bytes::new(), head: Vec::new() }
    }

    /// Whether the server has neither closed the connection nor said anything that nobody asked for.
    pub(crate) fn is_quiet(&self) -> bool {
        let Stream::Left(tcp) = self.io.inner() else { return true };
        let mut about = [PollFd::new(tcp, PollFlags::IN | PollFlags::RDHUP)];
        poll(&mut about, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
    }

    /// For another request.
    pub(crate) fn again(self) -> Self {
        Self::new(self.io.into_inner())
    }

    pub(crate) const fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Reads some bytes, and hands them to `take`; none at the end of the stream.
    pub(crate) fn poll_bytes<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Poll<io::Result<R>> {
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            return Poll::Ready(Ok(take(&kept)));
        }
        let mut room = [const { MaybeUninit::uninit() }; READ];
        let mut buffer = ReadBuf::uninit(&mut room);
        ready!(Pin::new(self.io.inner_mut()).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(take(buffer.filled())))
    }

    /// How many of these bytes may go to hyper while an answer head is looked for.
    fn admit(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (head, end) = if self.head.is_empty() {
                // Nearly always a head comes in one piece.
                let Some(end) = memchr::memmem::find(rest, b"\r\n\r\n") else {
                    self.head.extend_from_slice(rest);
                    return bytes.len();
                };
                (&rest[..end + 4], at + end + 4)
            } else {
                // The end of the head may lie across the border: look again from a little before it.
                let before = self.head.len();
                self.head.extend_from_slice(rest);
                let from = before.saturating_sub(3);
                let Some(end) = memchr::memmem::find(&self.head[from..], b"\r\n\r\n") else {
                    return bytes.len();
                };
                let end = from + end + 4;
                (&self.head[..end], at + end - before)
            };
            // `HTTP/1.1 100 Continue`: the answer proper is still to come.
            let interim = head.get(9) == Some(&b'1') && head.get(9..12) != Some(b"101");
            let stream = announces_events(head);
            self.link.spelling.saw(head);
            self.head = Vec::new();
            at = end;
            if !interim {
                self.link.mode.store(if stream { HELD } else { OPEN }, Relaxed);
                return if stream { at } else { bytes.len() };
            }
        }
        bytes.len()
    }
}

/// Whether an answer head says that its body is a stream of server-sent events.
fn announces_events(head: &[u8]) -> bool {
    const NAME: &[u8] = b"content-type:";
    const KIND: &[u8] = b"text/event-stream";
    // Slashes are few in heads: each is looked at, and at the line it stands in.
    memchr::memchr_iter(b'/', head).any(|slash| {
        let Some(kind) = slash.checked_sub(4) else { return false };
        if !head[kind..].get(..KIND.len()).is_some_and(|found| found.eq_ignore_ascii_case(KIND)) {
            return false;
        }
        let line = memchr::memrchr(b'\n', &head[..kind]).map_or(0, |end| end + 1);
        head[line..kind].trim_ascii_end().eq_ignore_ascii_case(NAME)
    })
}

impl Read for ServerIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match this.link.mode.load(Relaxed) {
            // Whoever opens or takes over wakes this task.
            HELD => return Poll::Pending,
            OPEN if !this.kept.is_empty() => {
                let n = this.kept.len().min(buf.remaining());
                buf.put_slice(&this.kept[..n]);
                this.kept.advance(n);
                return Poll::Ready(Ok(()));
            }
            OPEN => return Pin::new(&mut this.io).poll_read(cx, buf),
            _ => {}
        }
        let mut room = [const { MaybeUninit::uninit() }; READ];
        let most = buf.remaining().min(READ);
        let mut buffer = ReadBuf::uninit(&mut room[..most]);
        ready!(Pin::new(this.io.inner_mut()).poll_read(cx, &mut buffer))?;
        let bytes = buffer.filled();
        let n = this.admit(bytes);
        buf.put_slice(&bytes[..n]);
        this.kept = Bytes::copy_from_slice(&bytes[n..]);
        Poll::Ready(Ok(()))
    }
}

impl Write for ServerIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.link.blocked.store(written.is_pending(), Relaxed);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        let written = poll_write_pieces(Pin::new(&mut self.io), cx, bufs);
        self.link.blocked.store(written.is_pending(), Relaxed);
        written
    }
}

/// Drives hyper's side of a connection until it ends or its socket is asked for.
pub(crate) struct Drive {
    connection: Option<Connection<ServerIo, Sending>>,
    link: Arc<Link>,
    hand_over: Option<oneshot::Sender<ServerIo>>,
    registered: bool,
}

impl Drive {
    pub(crate) fn new(
        connection: Connection<ServerIo, Sending>,
        link: Arc<Link>,
    ) -> (Self, oneshot::Receiver<ServerIo>) {
        let (hand_over, taken) = oneshot::channel();
        (Self { connection: Some(connection), link, hand_over: Some(hand_over), registered: false }, taken)
    }
}

impl Future for Drive {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.registered {
            // A task's waker stays valid for the task's whole life, so once is enough.
            self.link.waker.register(cx.waker());
            self.registered = true;
        }
        if self.link.taking_over.load(Relaxed) {
            if let (Some(connection), Some(hand_over)) = (self.connection.take(), self.hand_over.take()) {
                // Nothing behind the head went to hyper, so nothing is lost with its buffer.
                let _ = hand_over.send(connection.into_parts().io);
            }
            return Poll::Ready(());
        }
        match &mut self.connection {
            // How it ends is told to whoever waits for an answer on it.
            Some(connection) => Pin::new(connection).poll(cx).map(|_| ()),
            None => Poll::Ready(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_event_streams_are_held() {
        for (head, is) in [
            ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\ncontent-type:TEXT/Event-Stream; charset=utf-8\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Type: text/event-strea\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nX-Content-Type: text/event-stream\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX: text/event-stream\r\n\r\n", false),
        ] {
            assert_eq!(announces_events(head.as_bytes()), is, "{head}");
        }
    }
}
