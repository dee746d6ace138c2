//! The chunked transfer coding (RFC 9112, 7.1), taken off as bytes come.

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Longest trailer section, and longest chunk extension, that is read.
const LONGEST: usize = 16 << 10;

/// Takes the chunked coding off.
#[derive(Debug)]
pub(crate) struct Chunks {
    state: State,
    /// Bytes of the extension or of the trailer section so far.
    seen: usize,
    line: Vec<u8>,
    trailers: HeaderMap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the size, of which so many digits are read.
    Size { size: u64, digits: u8 },
    /// Behind the size, up to the end of its line.
    Extension { size: u64 },
    /// In the data.
    Data { left: u64 },
    /// Behind the data: CR, LF.
    DataEnd { cr: bool },
    /// In the trailer section.
    Trailers,
    /// All is read.
    End,
}

/// Bytes that are no chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadChunk;

impl Chunks {
    pub(crate) fn new() -> Self {
        let state = State::Size { size: 0, digits: 0 };
        Self { state, seen: 0, line: Vec::new(), trailers: HeaderMap::new() }
    }

    /// Whether the last chunk and the trailers are read.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::End
    }

    /// The trailers, where there are any.
    pub(crate) fn trailers(&mut self) -> Option<HeaderMap> {
        (!self.trailers.is_empty()).then(|| std::mem::take(&mut self.trailers))
    }

    /// Takes the coding off `input`, appends the data to `data`, and returns how many bytes belong to the message.
    pub(crate) fn decode(&mut self, input: &[u8], data: &mut BytesMut) -> Result<usize, BadChunk> {
        let mut at = 0;
        while at < input.len() && self.state != State::End {
            if let State::Data { left } = self.state {
                let n = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                data.extend_from_slice(&input[at..at + n]);
                at += n;
                let left = left - n as u64;
                self.state = if left == 0 { State::DataEnd { cr: false } } else { State::Data { left } };
            } else {
                self.state = self.next(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    fn next(&mut self, byte: u8) -> Result<State, BadChunk> {
        Ok(match (self.state, byte) {
            (State::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < 16 => {
                let digit = (byte as char).to_digit(16).ok_or(BadChunk)?;
                State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (State::Size { size, digits }, b'\r' | b';' | b' ' | b'\t') if digits > 0 => {
                self.seen = 0;
                State::Extension { size }
            }
            (State::Extension { size: 0 }, b'\n') => {
                self.seen = 0;
                State::Trailers
            }
            (State::Extension { size }, b'\n') => State::Data { left: size },
            (State::Extension { size }, _) if self.seen < LONGEST => {
                self.seen += 1;
                State::Extension { size }
            }
            (State::DataEnd { cr: false }, b'\r') => State::DataEnd { cr: true },
            (State::DataEnd { cr: true }, b'\n') => State::Size { size: 0, digits: 0 },
            (State::Trailers, b'\n') => {
                let line = std::mem::take(&mut self.line);
                let line = line.trim_ascii();
                if line.is_empty() {
                    return Ok(State::End);
                }
                let colon = memchr::memchr(b':', line).ok_or(BadChunk)?;
                let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| BadChunk)?;
                let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).map_err(|_| BadChunk)?;
                self.trailers.append(name, value);
                State::Trailers
            }
            (State::Trailers, _) if self.seen < LONGEST => {
                self.seen += 1;
                self.line.push(byte);
                State::Trailers
            }
            _ => return Err(BadChunk),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, Chunks), BadChunk> {
        let (mut chunks, mut data, mut used) = (Chunks::new(), BytesMut::new(), 0);
        for piece in pieces {
            used += chunks.decode(piece, &mut data)?;
        }
        Ok((data.to_vec(), used, chunks))
    }

    proptest! {
        #[test]
        fn data_is_the_same_however_it_is_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..8),
            cut in 1_usize..50,
        ) {
            let mut message = Vec::new();
            for body in &bodies {
                message.extend(format!("{:X};x=\"y\"\r\n", body.len()).as_bytes());
                message.extend(body);
                message.extend(b"\r\n");
            }
            message.extend(b"0\r\nX-Sum: 1\r\n\r\nHTTP/1.1");
            let pieces: Vec<&[u8]> = message.chunks(cut).collect();
            let (data, used, mut chunks) = decode(&pieces).expect("it is right");
            prop_assert_eq!(data, bodies.concat());
            prop_assert_eq!(used, message.len() - "HTTP/1.1".len());
            prop_assert!(chunks.is_done());
            prop_assert_eq!(&chunks.trailers().expect("one")["x-sum"], "1");
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&[&bytes]);
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bad in [
            "x\r\n",
            "\r\n",
            "-1\r\n",
            "11111111111111111\r\n",
            "1\r\nab\r\n",
            "1\r\na\n",
            "0\r\nnonsense\r\n",
        ] {
            assert_eq!(decode(&[bad.as_bytes()]).err(), Some(BadChunk), "{bad:?}");
        }
        let endless = format!("1;{}", "x".repeat(LONGEST + 1));
        assert_eq!(decode(&[endless.as_bytes()]).err(), Some(BadChunk));
    }
}
