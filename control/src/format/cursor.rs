//! Reads a file from front to back, a block at a time.

use super::Source;

/// Small enough for the stack of any thread that a hook may run on.
const BLOCK: usize = 4096;

/// A position in a file, and the block around it. `None` from any of its methods: the file ends before.
pub(super) struct Cursor<'a> {
    source: &'a dyn Source,
    block: [u8; BLOCK],
    /// Where in the file the block begins.
    starts: u64,
    filled: usize,
    next: usize,
    end: u64,
}

impl<'a> Cursor<'a> {
    /// At `start`, in a file that is read up to `end`.
    pub(super) fn new(source: &'a dyn Source, start: u64, end: u64) -> Self {
        Self { source, block: [0; BLOCK], starts: start, filled: 0, next: 0, end }
    }

    /// Where the next byte is.
    pub(super) fn at(&self) -> u64 {
        self.starts.saturating_add(self.next as u64)
    }

    /// The next byte, which stays the next.
    pub(super) fn peek(&mut self) -> Option<u8> {
        if self.next >= self.filled {
            self.fill()?;
        }
        self.block.get(self.next).copied()
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.next = self.next.saturating_add(1);
        Some(byte)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut array = [0; N];
        for byte in &mut array {
            *byte = self.byte()?;
        }
        Some(array)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Leaves out `n` bytes; those beyond the block are never read.
    pub(super) fn skip(&mut self, n: u64) -> Option<()> {
        let to = self.at().checked_add(n).filter(|to| *to <= self.end)?;
        match to.checked_sub(self.starts).and_then(|next| usize::try_from(next).ok()) {
            Some(next) if next <= self.filled => self.next = next,
            _ => (self.starts, self.next, self.filled) = (to, 0, 0),
        }
        Some(())
    }

    fn fill(&mut self) -> Option<()> {
        self.starts = self.at();
        (self.next, self.filled) = (0, 0);
        let left = self.end.saturating_sub(self.starts);
        let block = self.block.get_mut(..usize::try_from(left).unwrap_or(BLOCK).min(BLOCK))?;
        let asked = block.len();
        if asked == 0 {
            return None;
        }
        self.filled = self.source.read_at(self.starts, block).min(asked);
        if self.filled < asked {
            self.end = self.starts.saturating_add(self.filled as u64);
        }
        (self.filled > 0).then_some(())
    }
}
