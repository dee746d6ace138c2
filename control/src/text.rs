//! Short texts of a fixed size: names, patterns and paths in shared memory.

use crate::plain::Plain;
use core::fmt;

/// Up to `N` bytes of text, the rest zero; bytes rather than characters, since paths are. `N` is a multiple of 8.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Text<const N: usize>([u8; N]);

#[allow(unsafe_code, reason = "see `Plain`")]
// SAFETY: bytes, aligned and, as `Shared` checks, whole words.
unsafe impl<const N: usize> Plain for Text<N> {}

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Self = Self([0; N]);

    /// As much of `bytes` as there is room for, from its beginning.
    #[must_use]
    pub fn beginning(bytes: &[u8]) -> Self {
        let mut text = Self::EMPTY;
        text.0.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        text
    }

    /// As much of `bytes` as there is room for, up to its end: of a path the end tells more.
    #[must_use]
    pub fn ending(bytes: &[u8]) -> Self {
        Self::beginning(bytes.get(bytes.len().saturating_sub(N)..).unwrap_or_default())
    }

    /// Whether all of `bytes` has room.
    #[must_use]
    pub const fn holds(bytes: &[u8]) -> bool {
        bytes.len() <= N
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(N);
        self.0.get(..end).unwrap_or_default()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }
}

/// Appends; what finds no room is left out.
impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let begun = self.bytes().len();
        self.0.iter_mut().skip(begun).zip(more.as_bytes()).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write as _;

    #[test]
    fn what_has_no_room_is_cut_at_the_end_that_tells_less() {
        type Short = Text<8>;
        assert_eq!(Short::beginning(b"weights.gguf").bytes(), b"weights.");
        assert_eq!(Short::ending(b"weights.gguf").bytes(), b"hts.gguf");
        assert_eq!(Short::ending(b"a").bytes(), b"a");
        assert!(Short::EMPTY.is_empty() && Short::holds(b"12345678") && !Short::holds(b"123456789"));
        let mut text = Short::beginning(b"n = ");
        write!(text, "{}", 123_456).expect("it never fails");
        assert_eq!(text.bytes(), b"n = 1234");
    }
}
