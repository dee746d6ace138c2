//! Server-sent events, split without touching a byte (WHATWG HTML, section 9.2.6).
//!
//! Lines end with LF, CRLF or CR, also across frame borders; a blank line ends an event. The pieces given out, one
//! after the other, are exactly the bytes that were pushed in.

use bytes::{Bytes, BytesMut};
use std::borrow::Cow;

/// Bytes that no event was made of yet.
#[derive(Debug)]
enum Held {
    /// What is left of one frame: nothing was copied.
    Frame(Bytes),
    /// Several frames, joined. It grows in place, by doubling, so that an event in any number of frames costs a few
    /// copies of its bytes and no more.
    Joined(BytesMut),
}

impl Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Frame(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }

    fn split_to(&mut self, end: usize) -> Bytes {
        match self {
            Self::Frame(bytes) => bytes.split_to(end),
            Self::Joined(bytes) => bytes.split_to(end).freeze(),
        }
    }
}

/// Splits a byte stream into events. No copy where an event lies within one frame.
#[derive(Debug)]
pub struct SseSplitter {
    held: Held,
    /// Where the search for the next line end goes on.
    scan: usize,
    /// Where the current line began.
    line: usize,
    /// The line before ended with CR; an LF right here belongs to it.
    after_cr: bool,
    /// The event under way was larger than `limit` and is given out in pieces.
    oversized: bool,
    limit: usize,
}

/// One piece of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes, with the blank line.
    pub raw: Bytes,
    /// Whether it is a whole event. Otherwise it is part of one that is over the limit, or the stream's last bytes
    /// with no blank line after them.
    pub whole: bool,
}

impl SseSplitter {
    /// A splitter that holds back at most about `limit` bytes of one event.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { held: Held::Frame(Bytes::new()), scan: 0, line: 0, after_cr: false, oversized: false, limit }
    }

    /// Takes the next frame in.
    pub fn push(&mut self, frame: Bytes) {
        match &mut self.held {
            held if held.bytes().is_empty() => *held = Held::Frame(frame),
            Held::Joined(joined) => joined.extend_from_slice(&frame),
            Held::Frame(first) => {
                let mut joined = BytesMut::with_capacity(2 * (first.len() + frame.len()));
                joined.extend_from_slice(first);
                joined.extend_from_slice(&frame);
                self.held = Held::Joined(joined);
            }
        }
    }

    /// The next event, as soon as the blank line that ends it is there.
    pub fn next_event(&mut self) -> Option<Piece> {
        let buffer = self.held.bytes();
        while let Some(found) = memchr::memchr2(b'\n', b'\r', &buffer[self.scan..]) {
            let at = self.scan + found;
            let is_cr = buffer[at] == b'\r';
            let completes_crlf = !is_cr && self.after_cr && at == self.line;
            let blank = at == self.line && !completes_crlf;
            self.after_cr = is_cr;
            self.scan = at + 1;
            self.line = at + 1;
            if blank {
                let mut end = at + 1;
                if is_cr && buffer.get(end) == Some(&b'\n') {
                    end += 1;
                    self.after_cr = false;
                }
                return Some(self.take(end, true));
            }
        }
        let length = buffer.len();
        self.scan = length;
        (length > self.limit).then(|| {
            // The line goes on in the next piece: `line` must not look like a line's beginning there.
            let at_line_start = self.line == length;
            let piece = self.take(length, false);
            self.line = if at_line_start { 0 } else { usize::MAX };
            self.oversized = true;
            piece
        })
    }

    /// The stream has ended: what is left, where there is any.
    pub fn finish(&mut self) -> Option<Piece> {
        self.holds_back().then(|| self.take(self.held.bytes().len(), false))
    }

    /// Whether bytes of an unfinished event are held back.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        !self.held.bytes().is_empty()
    }

    fn take(&mut self, end: usize, ends_event: bool) -> Piece {
        let raw = self.held.split_to(end);
        (self.scan, self.line) = (0, 0);
        let whole = ends_event && !self.oversized;
        if ends_event {
            self.oversized = false;
        }
        Piece { raw, whole }
    }
}

/// The fields of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The event's name.
    pub event: Option<&'a [u8]>,
    /// The data lines, joined by LF; nothing where there is no data line (a comment, a ping).
    pub data: Option<Cow<'a, [u8]>>,
}

/// Reads the fields of one whole event. Comments, ids and retry times are passed over.
#[must_use]
pub fn fields(raw: &[u8]) -> Fields<'_> {
    let mut fields = Fields { event: None, data: None };
    let mut rest = raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(raw);
    while !rest.is_empty() {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at(end);
        // The LF of a CRLF is an empty line more, which says nothing.
        rest = after.get(1..).unwrap_or_default();
        if let Some(value) = value_of(line, b"data") {
            match &mut fields.data {
                None => fields.data = Some(Cow::Borrowed(value)),
                Some(data) => {
                    let data = data.to_mut();
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            }
        } else if let Some(value) = value_of(line, b"event") {
            fields.event = Some(value);
        }
    }
    fields
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest.strip_prefix(b":") {
        Some(value) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        None => rest.is_empty().then_some(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(frames: &[&[u8]], limit: usize) -> (Vec<Piece>, usize) {
        let mut splitter = SseSplitter::new(limit);
        let (mut pieces, mut most) = (Vec::new(), 0);
        for frame in frames {
            splitter.push(Bytes::copy_from_slice(frame));
            while let Some(piece) = splitter.next_event() {
                pieces.push(piece);
            }
            most = most.max(splitter.held.bytes().len());
        }
        pieces.extend(splitter.finish());
        (pieces, most)
    }

    fn datas(frames: &[&[u8]]) -> Vec<String> {
        let (pieces, _) = split(frames, 1 << 20);
        pieces
            .iter()
            .filter_map(|piece| {
                fields(&piece.raw).data.map(|data| String::from_utf8_lossy(&data).into_owned())
            })
            .collect()
    }

    /// Where the event that begins at `from` ends, found from the very beginning of the stream: after the first blank
    /// line behind it. An LF that came only after an event had ended with CR belongs to that line end.
    fn naive_end(stream: &[u8], from: usize) -> Option<usize> {
        let belongs_to_cr = |at: usize| at > 0 && stream[at - 1] == b'\r' && stream[at] == b'\n';
        let mut line = from;
        let mut at = from;
        while at < stream.len() {
            if !matches!(stream[at], b'\n' | b'\r') {
                at += 1;
                continue;
            }
            if belongs_to_cr(at) && at == line {
                (at, line) = (at + 1, at + 1);
                continue;
            }
            let end = if stream[at] == b'\r' && stream.get(at + 1) == Some(&b'\n') { at + 2 } else { at + 1 };
            if at == line {
                return Some(end);
            }
            (at, line) = (end, end);
        }
        None
    }

    #[test]
    fn every_line_end_ends_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let text =
                format!("data: one{end}{end}event: x{end}data:two{end}data{end}data:  three{end}{end}");
            assert_eq!(datas(&[text.as_bytes()]), ["one", "two\n\n three"], "{end:?}");
        }
    }

    #[test]
    fn an_event_is_there_as_soon_as_its_blank_line_begins() {
        let mut splitter = SseSplitter::new(1 << 20);
        splitter.push(Bytes::from_static(b"data: a\r\n\r"));
        assert_eq!(splitter.next_event().expect("the CR ended it").raw, &b"data: a\r\n\r"[..]);
        splitter.push(Bytes::from_static(b"\ndata: b\n\n"));
        assert_eq!(
            splitter.next_event().expect("the LF of before is no blank line").raw,
            &b"\ndata: b\n\n"[..]
        );
    }

    #[test]
    fn comments_and_blank_lines_are_events_without_data() {
        let (pieces, _) = split(&[b": ping\n\n\n\ndata: : keepalive\n\n"], 1 << 20);
        let data: Vec<_> = pieces.iter().map(|piece| fields(&piece.raw).data).collect();
        assert_eq!(data, [None, None, None, Some(Cow::Borrowed(&b": keepalive"[..]))]);
    }

    proptest! {
        /// However the bytes are cut into frames: the same events, and not a byte changed.
        #[test]
        fn frames_do_not_matter(
            lines in prop::collection::vec(prop_oneof!["data: [a-c\u{e9}]{0,5}", ": x", "", "event: e"], 0..20),
            ends in prop::collection::vec(prop_oneof!["\n", "\r\n", "\r"], 20),
            cuts in prop::collection::vec(1_usize..7, 1..80),
        ) {
            let text: String = lines.iter().zip(&ends).flat_map(|(line, end)| [line.as_str(), end]).collect();
            let (whole, _) = split(&[text.as_bytes()], 1 << 20);
            let (mut frames, mut rest, mut cuts) = (Vec::new(), text.as_bytes(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (frame, after) = rest.split_at((*cuts.next().expect("endless")).min(rest.len()));
                frames.push(frame);
                rest = after;
            }
            let (cut, _) = split(&frames, 1 << 20);
            let bytes = |pieces: &[Piece]| pieces.iter().flat_map(|p| p.raw.to_vec()).collect::<Vec<u8>>();
            prop_assert_eq!(bytes(&whole), text.as_bytes());
            prop_assert_eq!(bytes(&cut), text.as_bytes());
            let meaning = |pieces: &[Piece]| {
                pieces.iter().filter_map(|p| fields(&p.raw).data.map(Cow::into_owned)).collect::<Vec<_>>()
            };
            prop_assert_eq!(meaning(&whole), meaning(&cut));
        }

        /// The same pieces as from a splitter that joins and searches everything anew for each frame.
        #[test]
        fn a_naive_splitter_finds_the_same_pieces(
            frames in prop::collection::vec("[a\n\r]{0,6}", 0..60),
        ) {
            let mut splitter = SseSplitter::new(1 << 20);
            let (mut all, mut given) = (Vec::new(), 0);
            for frame in &frames {
                splitter.push(Bytes::copy_from_slice(frame.as_bytes()));
                all.extend_from_slice(frame.as_bytes());
                while let Some(end) = naive_end(&all, given) {
                    let piece = splitter.next_event();
                    prop_assert_eq!(piece.as_ref().map(|piece| &piece.raw[..]), Some(&all[given..end]));
                    given = end;
                }
                prop_assert_eq!(splitter.next_event(), None);
            }
        }

        #[test]
        fn memory_is_bounded_and_nothing_is_lost(sizes in prop::collection::vec(1_usize..200, 1..50)) {
            let frames: Vec<Vec<u8>> = sizes.iter().map(|n| vec![b'x'; *n]).collect();
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            let (pieces, most) = split(&frames, 100);
            prop_assert!(most <= 300);
            prop_assert_eq!(pieces.iter().map(|p| p.raw.len()).sum::<usize>(), sizes.iter().sum::<usize>());
        }
    }

    /// Each time the buffer grows, all that it holds may be copied: as many times as its length doubles, and not once a
    /// frame.
    #[test]
    fn an_event_in_tiny_frames_is_copied_a_few_times_and_not_once_a_frame() {
        let mut splitter = SseSplitter::new(1 << 20);
        let (mut moves, mut capacity) = (0, 0);
        for _ in 0..100_000 {
            splitter.push(Bytes::from_static(b"data"));
            assert_eq!(splitter.next_event(), None);
            if let Held::Joined(joined) = &splitter.held
                && joined.capacity() != capacity
            {
                (moves, capacity) = (moves + 1, joined.capacity());
            }
        }
        assert!((10..=20).contains(&moves), "{moves} copies");
        splitter.push(Bytes::from_static(b"\n\n"));
        assert_eq!(splitter.next_event().map(|piece| piece.raw.len()), Some(400_002));
    }

    #[test]
    fn an_event_over_the_limit_is_cut_without_making_line_ends_of_the_cut() {
        for (frames, raw) in [
            // At the limit it is held back, one byte more and it is given out.
            (&[&b"data: 01"[..], b"\n\n"][..], &["data: 01\n\n"][..]),
            (&[b"data: 012", b"\n\ndata: b\n\n"], &["data: 012", "\n\n", "data: b\n\n"]),
            (&[b"data: 012\n", b"\ndata: b\n\n"], &["data: 012\n", "\n", "data: b\n\n"]),
        ] {
            let (pieces, _) = split(frames, 8);
            let found: Vec<&[u8]> = pieces.iter().map(|piece| &piece.raw[..]).collect();
            assert_eq!(found, raw.iter().map(|raw| raw.as_bytes()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_lines_of_the_very_name_are_data_behind_a_byte_order_mark_too() {
        let data = |raw: &'static [u8]| fields(raw).data.map(Cow::into_owned);
        assert_eq!(data(b"\xef\xbb\xbfdata: a\n\n").as_deref(), Some(&b"a"[..]));
        assert_eq!(data(b"dataset: a\n\n"), None);
        assert_eq!(fields(b"event: x\r\ndata: a\r\n\r\n").event, Some(&b"x"[..]));
    }

    #[test]
    fn the_rest_of_an_oversized_event_is_no_whole_event() {
        let (pieces, _) = split(&[b"data: 0123456789", b"0123\n\ndata: b\n\n"], 8);
        let whole: Vec<bool> = pieces.iter().map(|piece| piece.whole).collect();
        assert_eq!(whole, [false, false, true]);
    }
}
