//! Safetensors: the length of the header in 8 bytes, the header, a JSON object of tensors, and their bytes.

use super::{Cursor, MOST, Source};

/// Bytes of the header's length.
const LENGTH: u64 = 8;
/// Longer headers the safetensors crate refuses, so that no real file has one.
const LONGEST: u64 = 100_000_000;
/// Longer than any word that is looked for.
const WORD: usize = 16;

/// Something that damage may change.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    /// The text of a tensor's type: where it begins, behind its quote.
    Dtype(u64, Word),
    /// A digit of a tensor's shape.
    Digit(Digit),
    /// The shape that the digits since the last one belong to is whole.
    ShapeEnds,
}

/// A digit of a number.
#[derive(Clone, Copy)]
pub(crate) struct Digit {
    pub(crate) at: u64,
    /// As it is written, `b'0'..=b'9'`.
    pub(crate) is: u8,
    /// Whether it is the first of its number.
    pub(crate) leads: bool,
}

/// A JSON string as it is written, escapes and all, as far as it matters.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    bytes: [u8; WORD],
    length: usize,
}

impl Word {
    /// The whole text; `None` of a text too long to be one that is looked for.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        self.bytes.get(..self.length)
    }

    fn is(&self, text: &[u8]) -> bool {
        self.text() == Some(text)
    }
}

/// Where the tensors' bytes begin, if this is such a file.
pub(crate) fn header(source: &dyn Source, size: u64) -> Option<u64> {
    let mut cursor = Cursor::new(source, 0, size.min(LENGTH + 1));
    let length = cursor.u64().filter(|length| *length <= LONGEST)?;
    let header = length.checked_add(LENGTH).filter(|header| *header <= size)?;
    // A length of 0 leaves no place for the brace; what stands there then is a tensor's.
    (length > 0 && cursor.byte()? == b'{').then_some(header)
}

/// Shows what a header of `header` bytes has to `visit`, up to its end or to the first thing that is odd.
pub(crate) fn scan(source: &dyn Source, header: u64, visit: &mut dyn FnMut(Found)) {
    let mut cursor = Cursor::new(source, LENGTH, header.min(MOST));
    // Where it stopped makes no difference to what was found before.
    let _ = file(&mut cursor, visit);
}

fn file(cursor: &mut Cursor<'_>, visit: &mut dyn FnMut(Found)) -> Option<()> {
    if token(cursor)? != b'{' {
        return None;
    }
    while let Some(name) = key(cursor)? {
        match token(cursor)? {
            b'{' if !name.is(b"__metadata__") => tensor(cursor, visit)?,
            first => rest_of_value(cursor, first)?,
        }
    }
    Some(())
}

fn tensor(cursor: &mut Cursor<'_>, visit: &mut dyn FnMut(Found)) -> Option<()> {
    while let Some(name) = key(cursor)? {
        match token(cursor)? {
            b'"' if name.is(b"dtype") => {
                let at = cursor.at();
                visit(Found::Dtype(at, rest_of_string(cursor)?));
            }
            b'[' if name.is(b"shape") => shape(cursor, visit)?,
            first => rest_of_value(cursor, first)?,
        }
    }
    Some(())
}

fn shape(cursor: &mut Cursor<'_>, visit: &mut dyn FnMut(Found)) -> Option<()> {
    let mut leads = true;
    loop {
        let at = cursor.at();
        match cursor.byte()? {
            is @ b'0'..=b'9' => {
                visit(Found::Digit(Digit { at, is, leads }));
                leads = false;
            }
            b',' | b' ' | b'\t' | b'\n' | b'\r' => leads = true,
            b']' => {
                visit(Found::ShapeEnds);
                return Some(());
            }
            _ => return None,
        }
    }
}

/// The next key of an object and the colon behind it; `Some(None)` at the object's end.
fn key(cursor: &mut Cursor<'_>) -> Option<Option<Word>> {
    loop {
        match token(cursor)? {
            b'}' => return Some(None),
            b',' => (),
            b'"' => {
                let name = rest_of_string(cursor)?;
                return (token(cursor)? == b':').then_some(Some(name));
            }
            _ => return None,
        }
    }
}

/// The next byte that is not blank.
fn token(cursor: &mut Cursor<'_>) -> Option<u8> {
    loop {
        let byte = cursor.byte()?;
        if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return Some(byte);
        }
    }
}

fn rest_of_string(cursor: &mut Cursor<'_>) -> Option<Word> {
    let mut word = Word { bytes: [0; WORD], length: 0 };
    let mut escaped = false;
    loop {
        let byte = cursor.byte()?;
        if byte == b'"' && !escaped {
            return Some(word);
        }
        escaped = byte == b'\\' && !escaped;
        if let Some(place) = word.bytes.get_mut(word.length) {
            *place = byte;
        }
        word.length = word.length.saturating_add(1);
    }
}

/// Passes a value that begins with `first`. Brackets are counted, not matched: the reader of the file will do that.
fn rest_of_value(cursor: &mut Cursor<'_>, first: u8) -> Option<()> {
    let mut depth: u64 = 0;
    let mut byte = first;
    loop {
        match byte {
            b'"' => {
                rest_of_string(cursor)?;
            }
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => (),
        }
        if depth == 0 && (matches!(byte, b'"' | b'}' | b']') || matches!(cursor.peek()?, b',' | b'}' | b']'))
        {
            return Some(());
        }
        byte = cursor.byte()?;
    }
}
