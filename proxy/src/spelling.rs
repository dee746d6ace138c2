//! How header names are spelled. hyper keeps their spelling in a map beside each message, at a tenth of what a small
//! request costs in all. Many servers (all on uvicorn, so vLLM and SGLang) and many clients write only lower case, and
//! what is in lower case anyway needs no map: connections are asked to keep a spelling only where one was seen.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Known by its first head; 0 until then.
const LOWER: u8 = 1;
const CAPITALS: u8 = 2;

/// How one side spells, as far as its heads show.
#[derive(Debug, Default)]
pub(crate) struct Spelling(AtomicU8);

impl Spelling {
    /// A head has come. One with a capital is remembered for good.
    pub(crate) fn saw(&self, head: &[u8]) {
        if self.0.load(Relaxed) != CAPITALS {
            self.0.store(if has_capitals(head) { CAPITALS } else { LOWER }, Relaxed);
        }
    }

    /// The other side of `self` has spelled so.
    pub(crate) fn learn(&self, other: &Self) {
        let seen = other.0.load(Relaxed);
        if seen > self.0.load(Relaxed) {
            self.0.store(seen, Relaxed);
        }
    }

    /// Whether there may be something to keep: until the first head there may.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        self.0.load(Relaxed) != LOWER
    }
}

/// Whether a header's name begins with a capital; `head` begins with its start line.
pub(crate) fn has_capitals(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).any(|end| head.get(end + 1).is_some_and(u8::is_ascii_uppercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spelling_is_worth_keeping_from_the_first_capital_on() {
        let spelling = Spelling::default();
        assert!(spelling.is_worth_keeping());
        spelling.saw(b"HTTP/1.1 200 OK\r\ncontent-type: TEXT/Html\r\nserver: Uvicorn\r\n\r\n");
        assert!(!spelling.is_worth_keeping());
        let server = Spelling::default();
        server.learn(&spelling);
        assert!(!server.is_worth_keeping());
        spelling.saw(b"HTTP/1.1 200 OK\r\ncontent-type: a\r\nX-Mine: b\r\n\r\n");
        spelling.saw(b"HTTP/1.1 200 OK\r\ncontent-type: a\r\n\r\n");
        server.learn(&spelling);
        server.learn(&Spelling::default());
        assert!(spelling.is_worth_keeping() && server.is_worth_keeping());
    }
}
