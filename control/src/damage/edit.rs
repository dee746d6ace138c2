//! Changes of a few bytes in a header.

use core::fmt;

use super::How;
use crate::format::safetensors::{Digit, Found};
use crate::format::{gguf, safetensors};
use crate::{Draw, Kind, Source};

/// The longest text or number that is ever replaced.
const LONGEST: usize = 8;

/// The types of safetensors that another one takes the place of: same size of an element, same length of the text. The
/// quote is part of it, so that a shorter name fits too.
const DTYPES: [(&[u8], &[u8]); 12] = [
    (b"F32\"", b"I32\""),
    (b"F64\"", b"I64\""),
    (b"F16\"", b"I16\""),
    (b"BF16\"", b"F16\" "),
    (b"I32\"", b"F32\""),
    (b"I64\"", b"F64\""),
    (b"I16\"", b"F16\""),
    (b"U8\"", b"I8\""),
    (b"I8\"", b"U8\""),
    (b"BOOL\"", b"U8\"  "),
    (b"F8_E4M3\"", b"F8_E5M2\""),
    (b"F8_E5M2\"", b"F8_E4M3\""),
];

/// The types of ggml that another one takes the place of, by their numbers in `ggml.h`: as many elements in a block, as
/// many bytes. Most quantised types have a size of their own.
const GGML_TYPES: [(u32, &str, u32); 13] = [
    (0, "F32", 26),
    (1, "F16", 25),
    (2, "Q4_0", 20),
    (11, "Q3_K", 21),
    (16, "IQ2_XXS", 35),
    (20, "IQ4_NL", 2),
    (21, "IQ3_S", 11),
    (25, "I16", 1),
    (26, "I32", 0),
    (27, "I64", 28),
    (28, "F64", 27),
    (30, "BF16", 1),
    (35, "TQ2_0", 16),
];

/// Bytes that others take the place of, as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    at: u64,
    /// Beyond the last byte that is replaced both are alike.
    old: [u8; LONGEST],
    new: [u8; LONGEST],
}

impl Edit {
    /// Of two texts, of which neither may be longer than [`LONGEST`].
    fn of(at: u64, old: &[u8], new: &[u8]) -> Self {
        let padded = |text: &[u8]| {
            let mut bytes = [0; LONGEST];
            bytes.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
            bytes
        };
        Self { at, old: padded(old), new: padded(new) }
    }

    fn of_numbers(at: u64, old: u64, new: u64) -> Self {
        Self { at, old: old.to_le_bytes(), new: new.to_le_bytes() }
    }

    /// Makes a file's first bytes say something else.
    pub(super) fn of_header(kind: Kind, draw: Draw, source: &dyn Source, size: u64) -> Option<Self> {
        let mut is = [0; LONGEST];
        let length = is.len().min(usize::try_from(size).unwrap_or(LONGEST));
        let read = source.read_at(0, is.get_mut(..length)?);
        let first = is.first().copied().filter(|_| read > 0)?;
        Some(match kind {
            Kind::Safetensors => {
                let length = u64::from_le_bytes(is);
                Self::of_numbers(0, length, length ^ (1 << 62))
            }
            Kind::Gguf => Self::of(0, b"GGUF", b"FGUF"),
            Kind::Other => Self::of(0, &[first], &[first ^ (1 << draw.fork("bit").below(0, 8))]),
        })
    }

    /// Makes the header say something else of one of the tensors, any one with the same probability.
    pub(super) fn of_tensor(how: How, draw: Draw, source: &dyn Source, size: u64) -> Option<(Kind, Self)> {
        let mut tensors = OneOf::new(draw.fork("tensor"));
        if let Some(header) = safetensors::header(source, size) {
            let mut digits = OneOf::new(draw.fork("digit"));
            safetensors::scan(source, header, &mut |found| match found {
                Found::Dtype(at, name) if how == How::Dtype => {
                    if let Some(edit) = name.text().and_then(|name| dtype(at, name)) {
                        tensors.offer(edit);
                    }
                }
                Found::Digit(digit) if how == How::Shape => digits.offer(digit),
                Found::ShapeEnds => {
                    if let Some(digit) = digits.take() {
                        tensors.offer(another_digit(digit, draw.fork("value")));
                    }
                }
                _ => (),
            });
            return Some((Kind::Safetensors, tensors.take()?));
        }
        gguf::walk(source, size, &mut |tensor| {
            let edit = match how {
                How::Dtype => ggml_type(tensor.type_at, tensor.type_id),
                _ => tensor.first_dimension.map(|(at, is)| another_dimension(at, is)),
            };
            if let Some(edit) = edit {
                tensors.offer(edit);
            }
        })?;
        Some((Kind::Gguf, tensors.take()?))
    }

    /// Where a byte becomes another, and which.
    pub(super) fn changes(&self) -> impl Iterator<Item = (u64, u8)> {
        let pairs = self.old.into_iter().zip(self.new).zip(self.at..);
        pairs.filter(|((old, new), _)| old != new).map(|((_, new), at)| (at, new))
    }

    pub(super) fn write_note(&self, how: How, kind: Kind, into: &mut dyn fmt::Write) -> fmt::Result {
        let (at, old, new) = (self.at, u64::from_le_bytes(self.old), u64::from_le_bytes(self.new));
        match (how, kind) {
            (How::Dtype, Kind::Gguf) => {
                write!(into, "dtype at byte {at}: {} to {}", ggml_name(old), ggml_name(new))
            }
            (How::Dtype, _) => write!(into, "dtype at byte {at}: {} to {}", text(&self.old), text(&self.new)),
            (How::Shape, Kind::Gguf) => write!(into, "shape at byte {at}: {old} to {new}"),
            (How::Shape, _) => {
                write!(into, "shape at byte {at}: digit {} to {}", text(&self.old), text(&self.new))
            }
            (_, Kind::Safetensors) => write!(into, "header length: {old} to {new}"),
            (_, Kind::Gguf) => write!(into, "magic: {} to {}", text(&self.old), text(&self.new)),
            (_, Kind::Other) => write!(into, "first byte: {old:#04x} to {new:#04x}"),
        }
    }
}

/// A text without its end, which is a quote or padding.
fn text(bytes: &[u8]) -> &str {
    let text = bytes.split(|byte| matches!(byte, b'"' | 0)).next().unwrap_or_default();
    core::str::from_utf8(text).unwrap_or_default()
}

fn dtype(at: u64, name: &[u8]) -> Option<Edit> {
    let (old, new) = DTYPES.iter().find(|(old, _)| old.strip_suffix(b"\"") == Some(name))?;
    Some(Edit::of(at, old, new))
}

fn ggml_type(at: u64, id: u32) -> Option<Edit> {
    let (old, _, new) = GGML_TYPES.iter().find(|(old, ..)| *old == id)?;
    Some(Edit::of_numbers(at, u64::from(*old), u64::from(*new)))
}

fn ggml_name(id: u64) -> &'static str {
    GGML_TYPES.iter().find(|(number, ..)| u64::from(*number) == id).map_or("?", |(_, name, _)| name)
}

/// Any other digit, but never a leading zero: that would be no number to a JSON reader, or a tensor of no elements.
fn another_digit(digit: Digit, draw: Draw) -> Edit {
    let lowest = if digit.leads { b'1' } else { b'0' };
    let others = (lowest..=b'9').filter(|other| *other != digit.is);
    let drawn = usize::try_from(draw.below(0, others.clone().count() as u64)).unwrap_or(0);
    let new = others.clone().nth(drawn).unwrap_or(lowest);
    Edit::of(digit.at, &[digit.is], &[new])
}

/// One more or one less, but never none.
fn another_dimension(at: u64, is: u64) -> Edit {
    let new = if is == 1 { 3 } else { is ^ 1 };
    Edit::of_numbers(at, is, new)
}

/// Keeps one of all that it is offered, each with the same probability (Vitter's algorithm R for a sample of one).
struct OneOf<T> {
    draw: Draw,
    offered: u64,
    kept: Option<T>,
}

impl<T> OneOf<T> {
    const fn new(draw: Draw) -> Self {
        Self { draw, offered: 0, kept: None }
    }

    fn offer(&mut self, one: T) {
        let so_far = self.offered.saturating_add(1);
        if self.draw.below(self.offered, so_far) == 0 {
            self.kept = Some(one);
        }
        self.offered = so_far;
    }

    /// What it kept; it begins anew.
    fn take(&mut self) -> Option<T> {
        self.offered = 0;
        self.kept.take()
    }
}
