//! Where the proxy writes what its faults did. Writing never waits: a journal that cannot keep up loses lines, and
//! says how many.

use brownout_injector::journal::{Entry, What, seconds};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// Takes journal lines; called on the threads that serve traffic, so it must not wait.
pub trait JournalSink: Send + Sync {
    /// Takes one line; `false` where there is no room for it.
    fn offer(&self, entry: Entry) -> bool;
}

impl JournalSink for SyncSender<Entry> {
    fn offer(&self, entry: Entry) -> bool {
        self.try_send(entry).is_ok()
    }
}

/// The writing end of a journal. Clones write to the same one.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    begun: Instant,
    sink: Option<Box<dyn JournalSink>>,
    lost: AtomicU64,
}

impl Journal {
    /// A journal whose lines count their seconds from `begun`.
    #[must_use]
    pub fn new(begun: Instant, sink: Box<dyn JournalSink>) -> Self {
        Self(Arc::new(Inner { begun, sink: Some(sink), lost: AtomicU64::new(0) }))
    }

    /// A journal that nobody reads.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(Inner { begun: Instant::now(), sink: None, lost: AtomicU64::new(0) }))
    }

    /// A journal into a channel that holds at most `capacity` lines.
    ///
    /// ```
    /// use brownout_injector::journal::What;
    /// use brownout_proxy::Journal;
    ///
    /// let (journal, lines) = Journal::channel(1);
    /// journal.write(What::Healed { reason: "asked".to_owned() });
    /// journal.write(What::Healed { reason: "asked again".to_owned() });
    /// assert_eq!((lines.try_iter().count(), journal.lost()), (1, 1));
    /// ```
    #[must_use]
    pub fn channel(capacity: usize) -> (Self, Receiver<Entry>) {
        let (sender, receiver) = sync_channel(capacity);
        (Self::new(Instant::now(), Box::new(sender)), receiver)
    }

    /// Writes one line, now.
    pub fn write(&self, what: What) {
        if let Some(sink) = &self.0.sink {
            let at = seconds(self.0.begun.elapsed());
            if !sink.offer(Entry { at, what }) {
                self.0.lost.fetch_add(1, Relaxed);
            }
        }
    }

    /// How many lines found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Relaxed)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_have_their_times_to_the_microsecond() {
        let (sender, lines) = sync_channel(1000);
        let begun =
            Instant::now().checked_sub(Duration::from_nanos(300_000_001)).expect("the clock is older");
        let journal = Journal::new(begun, Box::new(sender));
        for _ in 0..1000 {
            journal.write(What::Healed { reason: "asked".to_owned() });
        }
        for entry in lines.try_iter() {
            let text = entry.at.to_string();
            let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            assert!(decimals <= 6 && entry.at >= 0.3, "{text}");
        }
    }
}
