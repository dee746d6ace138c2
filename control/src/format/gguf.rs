//! GGUF, versions 2 and 3, little endian: magic, version, counts; metadata; infos of the tensors; their bytes, aligned.
//!
//! Limits and refusals are those of llama.cpp's `gguf.cpp`, but that arrays of arrays, which the format allows, pass.

use super::{Cursor, MOST, Source};

const UINT32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const MOST_DIMENSIONS: u32 = 4;
/// Arrays within arrays: far beyond what any file has, and little enough for the stack.
const DEEPEST: u32 = 4;
const ALIGNMENT_KEY: &[u8; 17] = b"general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;

/// What the header says of a tensor, and where.
#[derive(Clone, Copy)]
pub(crate) struct Tensor {
    /// Where the first dimension is written, and what it is.
    pub(crate) first_dimension: Option<(u64, u64)>,
    pub(crate) type_at: u64,
    pub(crate) type_id: u32,
}

/// Shows each tensor to `visit`, and says where their bytes begin. `None`: this is no such file after all.
pub(crate) fn walk(source: &dyn Source, size: u64, visit: &mut dyn FnMut(Tensor)) -> Option<u64> {
    let mut cursor = Cursor::new(source, 0, size.min(MOST));
    if cursor.array()? != *b"GGUF" || !matches!(cursor.u32()?, 2 | 3) {
        return None;
    }
    // Counts may be anything: what ends the loops is that each turn takes bytes, and the cursor runs out of those.
    let (tensors, values) = (cursor.u64()?, cursor.u64()?);
    let mut alignment = DEFAULT_ALIGNMENT;
    for _ in 0..values {
        let is_alignment = key(&mut cursor)?;
        match (is_alignment, cursor.u32()?) {
            (true, UINT32) => alignment = u64::from(cursor.u32()?),
            (true, _) => return None,
            (false, kind) => value(&mut cursor, kind)?,
        }
    }
    for _ in 0..tensors {
        visit(tensor(&mut cursor)?);
    }
    if !alignment.is_power_of_two() {
        return None;
    }
    // A file that ends within the padding has no tensors, or lost them.
    Some(cursor.at().checked_next_multiple_of(alignment)?.min(size))
}

fn key(cursor: &mut Cursor<'_>) -> Option<bool> {
    let length = cursor.u64()?;
    if length == ALIGNMENT_KEY.len() as u64 {
        return Some(cursor.array()? == *ALIGNMENT_KEY);
    }
    cursor.skip(length)?;
    Some(false)
}

fn string(cursor: &mut Cursor<'_>) -> Option<()> {
    let length = cursor.u64()?;
    cursor.skip(length)
}

fn value(cursor: &mut Cursor<'_>, kind: u32) -> Option<()> {
    match kind {
        STRING => string(cursor),
        ARRAY => array(cursor, DEEPEST),
        _ => cursor.skip(width(kind)?),
    }
}

fn array(cursor: &mut Cursor<'_>, deepest: u32) -> Option<()> {
    let deeper = deepest.checked_sub(1)?;
    let (kind, count) = (cursor.u32()?, cursor.u64()?);
    match kind {
        STRING => (0..count).try_for_each(|_| string(cursor)),
        ARRAY => (0..count).try_for_each(|_| array(cursor, deeper)),
        _ => cursor.skip(count.checked_mul(width(kind)?)?),
    }
}

/// How many bytes a value of a fixed width takes.
fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn tensor(cursor: &mut Cursor<'_>) -> Option<Tensor> {
    string(cursor)?;
    let dimensions = cursor.u32()?;
    if dimensions > MOST_DIMENSIONS {
        return None;
    }
    let mut first_dimension = None;
    for _ in 0..dimensions {
        let here = (cursor.at(), cursor.u64()?);
        first_dimension = first_dimension.or(Some(here));
    }
    let (type_at, type_id) = (cursor.at(), cursor.u32()?);
    cursor.skip(size_of::<u64>() as u64)?;
    Some(Tensor { first_dimension, type_at, type_id })
}
