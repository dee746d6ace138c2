//! Damage to a file as its reader sees it. Planned once, when the file is opened; applied to whatever part of the file
//! is read or mapped. The file itself is never written.
//!
//! What a byte becomes depends on where in the file it is, not on the read that brought it: a loader that reads 8 bytes,
//! one that reads a gigabyte and one that maps the file see the same damaged file.

mod edit;
mod strata;

use core::fmt;
use core::ops::Range;

use crate::{Draw, Kind, Parts, Source};
use edit::Edit;
use strata::Strata;

/// What a page is to [`How::ZeroPage`], whatever it is to the machine.
const PAGE: u64 = 4096;

/// The ways to damage a file. The numbers are what a control block holds; 0 is none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum How {
    /// One bit each in so many places of the tensors.
    BitFlip = 1,
    /// So many pages of the tensors read as zero.
    ZeroPage = 2,
    /// The file is not recognised as what it is.
    Header = 3,
    /// The file ends early.
    Truncate = 4,
    /// A tensor's elements are of another type of the same size.
    Dtype = 5,
    /// A tensor is of another shape.
    Shape = 6,
}

impl How {
    /// The number of this way.
    #[must_use]
    pub const fn to_u32(self) -> u32 {
        self as u32
    }

    /// The way of this number.
    #[must_use]
    pub const fn from_u32(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::BitFlip),
            2 => Some(Self::ZeroPage),
            3 => Some(Self::Header),
            4 => Some(Self::Truncate),
            5 => Some(Self::Dtype),
            6 => Some(Self::Shape),
            _ => None,
        }
    }
}

/// What is wrong with one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    how: How,
    kind: Kind,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// In each stratum of bytes a bit of one of them.
    Bits(Strata),
    /// In each stratum of pages one of them.
    Pages(Strata),
    /// Data that no whole page fits into.
    Zero { from: u64, to: u64 },
    /// Some bytes of the header.
    Edit(Edit),
    /// The file ends at `limit` of `size`.
    Cut { limit: u64, size: u64 },
}

impl Damage {
    /// Plans damage to the file of `size` bytes behind `source`: `count` bits or pages, `keep_permille` of a truncated
    /// file's length, the places drawn from `draw`. `None`: there is nothing in this file to damage so.
    #[must_use]
    pub fn plan(
        how: How,
        count: u64,
        keep_permille: u32,
        draw: Draw,
        source: &dyn Source,
        size: u64,
    ) -> Option<Self> {
        let (kind, what) = match how {
            How::BitFlip | How::ZeroPage => {
                let parts = Parts::find(source, size);
                let places = draw.fork("places");
                let what = match how {
                    How::BitFlip => What::Bits(Strata::new(parts.header..size, count, places)?),
                    _ => zeroes(parts.header..size, count, places)?,
                };
                (parts.kind, what)
            }
            How::Truncate => {
                let keep = u128::from(keep_permille.min(999));
                let limit =
                    u64::try_from(u128::from(size) * keep / 1000).ok().filter(|limit| *limit < size)?;
                (Kind::Other, What::Cut { limit, size })
            }
            How::Header => {
                let kind = Parts::find(source, size).kind;
                (kind, What::Edit(Edit::of_header(kind, draw, source, size)?))
            }
            How::Dtype | How::Shape => {
                let (kind, edit) = Edit::of_tensor(how, draw, source, size)?;
                (kind, What::Edit(edit))
            }
        };
        Some(Self { how, kind, what })
    }

    /// The way in which the file is damaged.
    #[must_use]
    pub const fn how(&self) -> How {
        self.how
    }

    /// Damages `bytes`, which are the file's own from `offset` on, and says how many of them are now others. It must be
    /// done once: a bit that is flipped again is whole again.
    pub fn apply(&self, offset: u64, bytes: &mut [u8]) -> u64 {
        let end = offset.saturating_add(bytes.len() as u64);
        let mut changed: u64 = 0;
        match self.what {
            What::Bits(strata) => {
                for stratum in strata.touching(offset..end) {
                    if let Some(byte) = byte_at(bytes, offset, strata.place(stratum)) {
                        *byte ^= strata.bit(stratum);
                        changed = changed.saturating_add(1);
                    }
                }
            }
            What::Pages(strata) => {
                for stratum in strata.touching(pages_of(offset..end)) {
                    let page = bytes_of(strata.place(stratum));
                    changed = changed.saturating_add(zero(bytes, offset, page));
                }
            }
            What::Zero { from, to } => changed = zero(bytes, offset, from..to),
            What::Edit(edit) => {
                for (at, new) in edit.changes() {
                    if let Some(byte) = byte_at(bytes, offset, at).filter(|byte| **byte != new) {
                        *byte = new;
                        changed = changed.saturating_add(1);
                    }
                }
            }
            What::Cut { .. } => (),
        }
        changed
    }

    /// How long the file pretends to be, where that is not its length.
    #[must_use]
    pub const fn limit(&self) -> Option<u64> {
        match self.what {
            What::Cut { limit, .. } => Some(limit),
            _ => None,
        }
    }

    /// Shows `visit` the begin and end of each range within `from..to` that [`Self::apply`] may change, in order; they
    /// neither overlap nor touch.
    pub fn each_range(&self, from: u64, to: u64, visit: &mut dyn FnMut(u64, u64)) {
        let mut joined = Joined { last: None, within: from..to, visit };
        match self.what {
            What::Bits(strata) => {
                for stratum in strata.touching(from..to) {
                    let at = strata.place(stratum);
                    joined.add(at..at.saturating_add(1));
                }
            }
            What::Pages(strata) => {
                for stratum in strata.touching(pages_of(from..to)) {
                    joined.add(bytes_of(strata.place(stratum)));
                }
            }
            What::Zero { from, to } => joined.add(from..to),
            What::Edit(edit) => {
                for (at, _) in edit.changes() {
                    joined.add(at..at.saturating_add(1));
                }
            }
            What::Cut { .. } => (),
        }
        joined.end();
    }
}

/// Says in a few words what is wrong with the file.
impl fmt::Display for Damage {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.kind == Kind::Other { "file" } else { "tensors" };
        let plural = |n| if n == 1 { "" } else { "s" };
        match self.what {
            What::Bits(strata) => {
                let bits = strata.count();
                write!(into, "{bits} bit{} flipped in the {place}", plural(bits))
            }
            What::Pages(strata) => {
                let pages = strata.count();
                write!(into, "{pages} page{} of {PAGE} bytes zeroed in the {place}", plural(pages))
            }
            What::Zero { from, to } => {
                let bytes = to.saturating_sub(from);
                write!(into, "{bytes} byte{} zeroed in the {place}", plural(bytes))
            }
            What::Edit(edit) => edit.write_note(self.how, self.kind, into),
            What::Cut { limit, size } => write!(into, "ends after {limit} of {size} bytes"),
        }
    }
}

/// Pages lie where the file's own do, all of each within `data`; data too small for that is zeroed as one.
fn zeroes(data: Range<u64>, count: u64, draw: Draw) -> Option<What> {
    let whole = data.start.div_ceil(PAGE)..data.end / PAGE;
    if whole.start < whole.end {
        return Strata::new(whole, count, draw).map(What::Pages);
    }
    let to = data.end.min(data.start.saturating_add(PAGE));
    (count > 0 && data.start < to).then_some(What::Zero { from: data.start, to })
}

/// The pages that bytes of `range` lie in.
fn pages_of(range: Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

fn bytes_of(page: u64) -> Range<u64> {
    let from = page.saturating_mul(PAGE);
    from..from.saturating_add(PAGE)
}

fn byte_at(bytes: &mut [u8], offset: u64, at: u64) -> Option<&mut u8> {
    bytes.get_mut(usize::try_from(at.checked_sub(offset)?).ok()?)
}

/// Zeroes what of `range` is in `bytes`, and counts what was not zero.
fn zero(bytes: &mut [u8], offset: u64, range: Range<u64>) -> u64 {
    let index = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
    let part = index(range.start)..index(range.end);
    let Some(part) = bytes.get_mut(part) else { return 0 };
    let changed = part.iter().filter(|byte| **byte != 0).count() as u64;
    part.fill(0);
    changed
}

/// Joins ranges that touch, and cuts them to what was asked for.
struct Joined<'a> {
    last: Option<Range<u64>>,
    within: Range<u64>,
    visit: &'a mut dyn FnMut(u64, u64),
}

impl Joined<'_> {
    fn add(&mut self, range: Range<u64>) {
        let range = range.start.max(self.within.start)..range.end.min(self.within.end);
        if range.is_empty() {
            return;
        }
        match &mut self.last {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => {
                self.end();
                self.last = Some(range);
            }
        }
    }

    fn end(&mut self) {
        if let Some(last) = self.last.take() {
            (self.visit)(last.start, last.end);
        }
    }
}

#[cfg(test)]
mod tests;
