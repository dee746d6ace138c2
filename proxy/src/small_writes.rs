//! Small writes go out as one piece.

use hyper::rt::Write;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Up to this many bytes are copied together before they are written: an answer with a few hundred bytes of JSON, an
/// event with its chunk's framing. A copy of this size costs less than what the kernel spends on a list of pieces.
const SMALL: usize = 1 << 10;

/// Writes some of `pieces`: all of them at once where they are small.
pub(crate) fn poll_write_pieces(
    io: Pin<&mut (impl Write + ?Sized)>,
    cx: &mut Context<'_>,
    pieces: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    if let [only] = pieces {
        return io.poll_write(cx, only);
    }
    let mut room = [0_u8; SMALL];
    let mut length = 0;
    for piece in pieces {
        let Some(free) = room.get_mut(length..length + piece.len()) else {
            return io.poll_write_vectored(cx, pieces);
        };
        free.copy_from_slice(piece);
        length += piece.len();
    }
    io.poll_write(cx, &room[..length])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes everything, and notes in how many pieces it came.
    #[derive(Default)]
    struct Sink {
        bytes: Vec<u8>,
        vectored: bool,
    }

    impl Write for Sink {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.bytes.extend_from_slice(buf);
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            pieces: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.vectored = true;
            let before = self.bytes.len();
            pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
            Poll::Ready(Ok(self.bytes.len() - before))
        }
    }

    proptest! {
        #[test]
        fn the_bytes_are_the_same_in_one_piece_or_many(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..5),
        ) {
            let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let all = pieces.concat();
            let mut sink = Sink::default();
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let written = poll_write_pieces(Pin::new(&mut sink), &mut cx, &slices);
            prop_assert!(matches!(written, Poll::Ready(Ok(n)) if n == all.len()));
            prop_assert_eq!(&sink.bytes, &all);
            prop_assert_eq!(sink.vectored, pieces.len() > 1 && all.len() > SMALL);
        }
    }
}
