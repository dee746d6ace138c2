//! Something that one thread prepares and all use, with neither a lock nor a wait for a thread that is gone.

use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use core::time::Duration;

/// Set while somebody prepares; the rest is then the process that does.
const BUSY: u64 = 1 << 63;

/// How long others wait for who prepares; then they do without.
const PATIENCE: u32 = 20_000;
const NAP: Duration = Duration::from_micros(100);

/// What is prepared is known by a tag: 0 for nothing yet, else anything below 2^63.
pub(crate) struct Once(AtomicU64);

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The caller's: prepare it, then say [`Once::done`] or [`Once::undo`].
    Mine,
    /// It is ready under the tag that was asked for.
    Ready,
    /// It is there under another tag that may not be replaced, or did not get ready in time.
    Never,
}

impl Once {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether it is ready under `tag`.
    pub(crate) fn is(&self, tag: u64) -> bool {
        self.0.load(Acquire) == tag
    }

    /// Whether it is ready under whatever tag.
    pub(crate) fn is_ready(&self) -> bool {
        let tag = self.0.load(Acquire);
        tag != 0 && tag & BUSY == 0
    }

    /// Waits until it is ready under `tag`, or gives the caller the turn to prepare it: where there is nothing, or
    /// something under a tag that `may_go`.
    pub(crate) fn turn(&self, tag: u64, may_go: impl Fn(u64) -> bool) -> Turn {
        let own = BUSY | u64::from(sys::pid());
        for _ in 0..PATIENCE {
            let seen = self.0.load(Acquire);
            if seen == tag {
                return Turn::Ready;
            }
            // Where another process is said to prepare, ours was forked meanwhile: nobody here does.
            let free = if seen & BUSY == 0 { seen == 0 || may_go(seen) } else { seen != own };
            if free && self.0.compare_exchange(seen, own, AcqRel, Acquire).is_ok() {
                return Turn::Mine;
            }
            if !free && seen & BUSY == 0 {
                return Turn::Never;
            }
            if !free {
                sys::sleep(NAP);
            }
        }
        Turn::Never
    }

    /// It is ready under `tag`.
    pub(crate) fn done(&self, tag: u64) {
        self.0.store(tag, Release);
    }

    /// It could not be prepared.
    pub(crate) fn undo(&self) {
        self.0.store(0, Release);
    }
}
