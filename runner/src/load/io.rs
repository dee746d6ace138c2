//! A socket that remembers when it was last read and how it ended, which HTTP libraries do not tell.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a socket remembers.
#[derive(Debug)]
pub(super) struct Marks {
    /// Number of reads that brought bytes.
    pub(super) reads: Cell<u64>,
    /// When the last of them returned.
    pub(super) read_at: Cell<Instant>,
    /// The peer ended its side in order.
    pub(super) end_of_file: Cell<bool>,
    /// What failed first, a read or a write. What is tried on a broken connection afterwards only says that it is broken.
    pub(super) failure: Cell<Option<io::ErrorKind>>,
}

/// A socket with [`Marks`], or whatever speaks over one.
pub(super) struct Marked<S = TcpStream> {
    socket: S,
    marks: Rc<Marks>,
}

impl<S> Marked<S> {
    pub(super) fn new(socket: S) -> (Self, Rc<Marks>) {
        let marks = Rc::new(Marks {
            reads: Cell::new(0),
            read_at: Cell::new(Instant::now()),
            end_of_file: Cell::new(false),
            failure: Cell::new(None),
        });
        (Self { socket, marks: Rc::clone(&marks) }, marks)
    }

    fn noted<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let (Poll::Ready(Err(error)), None) = (&result, self.marks.failure.get()) {
            self.marks.failure.set(Some(error.kind()));
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Marked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.socket).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = result {
            if buf.filled().len() > before {
                self.marks.read_at.set(Instant::now());
                self.marks.reads.set(self.marks.reads.get() + 1);
            } else if buf.remaining() > 0 {
                self.marks.end_of_file.set(true);
            }
        }
        self.noted(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Marked<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.noted(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.socket).poll_flush(cx);
        self.noted(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.noted(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn what_broke_a_connection_stays_known_whatever_is_tried_on_it_afterwards() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (ours, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut socket, marks) = Marked::new(ours.expect("it listens"));
        let (peer, _) = accepted.expect("it was asked");
        socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).expect("a socket");
        drop(peer);
        socket.read_u8().await.expect_err("it was reset");
        let written = socket.write_all(b"x").await.expect_err("it is broken");
        assert_eq!(written.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(marks.failure.get(), Some(io::ErrorKind::ConnectionReset));
    }
}
