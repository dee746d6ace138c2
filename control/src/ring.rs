//! What happened in the processes: a ring of events that many write and one reads.
//!
//! A writer takes a ticket, writes its event and publishes it. One that dies in between leaves a ticket without an
//! event, which the reader steps over after a while. Where the reader does not keep up, events are lost and counted.

use crate::plain::{Plain, Shared};
use crate::text::Text;
use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};
use core::time::Duration;

/// Events that may wait for the reader.
pub const ROOM: usize = 2048;

/// After so long a ticket without an event is stepped over.
const PATIENCE: Duration = Duration::from_secs(1);

/// A fault did something in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// When, on the monotonic clock, in nanoseconds.
    pub at: u64,
    /// The generation of the directives.
    pub generation: u64,
    /// Which of them.
    pub slot: u64,
    /// The number of the decision.
    pub n: u64,
    /// Bytes or calls that were touched.
    pub touched: u64,
    /// Nanoseconds of waiting that were asked for.
    pub asked: u64,
    /// Nanoseconds of waiting that were given.
    pub given: u64,
    /// The process.
    pub pid: u64,
    /// Its rank, [`crate::Directive::ANY_RANK`] where it has none.
    pub rank: u64,
    /// The name of its executable.
    pub exe: Text<32>,
    /// The end of the path of the file.
    pub path: Text<192>,
    /// In words.
    pub note: Text<96>,
}

#[allow(unsafe_code, reason = "see `Plain`")]
// SAFETY: words and texts of whole words; no padding.
unsafe impl Plain for Event {}

/// See the module.
#[repr(C)]
pub struct Ring {
    /// Tickets given out.
    head: AtomicU64,
    /// Tickets read.
    tail: AtomicU64,
    lost: AtomicU64,
    places: [Place; ROOM],
}

#[repr(C)]
struct Place {
    /// One more than the ticket whose event is here.
    published: AtomicU64,
    event: Shared<Event>,
}

impl Ring {
    fn place(&self, ticket: u64) -> Option<&Place> {
        self.places.get((ticket % ROOM as u64) as usize)
    }

    /// Tells of `event`; where there is no room, counts it as lost.
    pub fn tell(&self, event: &Event) {
        let taken = self.head.fetch_update(Relaxed, Relaxed, |head| {
            (head.wrapping_sub(self.tail.load(Acquire)) < ROOM as u64).then_some(head + 1)
        });
        let place = taken.ok().and_then(|ticket| Some((ticket, self.place(ticket)?)));
        let Some((ticket, place)) = place else {
            self.lost.fetch_add(1, Relaxed);
            return;
        };
        place.event.store(event);
        place.published.store(ticket + 1, Release);
    }

    /// Events lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// The one reader of a ring.
#[derive(Debug, Default)]
pub struct Reader {
    /// Since when the next ticket lacks its event.
    missing: Option<u64>,
    /// Tickets that never got one.
    skipped: u64,
}

impl Reader {
    /// The next event, if one is there at `now`.
    pub fn next(&mut self, ring: &Ring, now: u64) -> Option<Event> {
        loop {
            let tail = ring.tail.load(Relaxed);
            if ring.head.load(Acquire) == tail {
                return None;
            }
            let place = ring.place(tail)?;
            if place.published.load(Acquire) == tail + 1 {
                let event = place.event.load();
                fence(Acquire);
                self.missing = None;
                ring.tail.store(tail + 1, Release);
                return Some(event);
            }
            let since = *self.missing.get_or_insert(now);
            if now.saturating_sub(since) < crate::block::nanos(PATIENCE) {
                return None;
            }
            // Its writer died, or is stopped and may yet write over a later event: that one then looks unpublished and
            // is stepped over as well.
            self.missing = None;
            self.skipped += 1;
            ring.tail.store(tail + 1, Release);
        }
    }

    /// Events that are known to be lost: for want of room, or with the process that was writing them.
    #[must_use]
    pub fn lost(&self, ring: &Ring) -> u64 {
        ring.lost() + self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Box<Ring> {
        let layout = std::alloc::Layout::new::<Ring>();
        #[allow(unsafe_code, reason = "as the system gives it: zeroed, and too large for a stack")]
        // SAFETY: zeroes are a ring, and the layout is that of a ring.
        unsafe {
            Box::from_raw(std::alloc::alloc_zeroed(layout).cast())
        }
    }

    fn event(n: u64) -> Event {
        let (exe, path, note) = (Text::EMPTY, Text::EMPTY, Text::EMPTY);
        Event {
            at: n,
            generation: 2,
            slot: 0,
            n,
            touched: n,
            asked: 0,
            given: n,
            pid: 1,
            rank: 0,
            exe,
            path,
            note,
        }
    }

    #[test]
    fn events_come_in_order_and_what_has_no_room_is_counted() {
        let (ring, mut reader) = (ring(), Reader::default());
        for n in 0..ROOM as u64 + 3 {
            ring.tell(&event(n));
        }
        for n in 0..ROOM as u64 {
            assert_eq!(reader.next(&ring, 0), Some(event(n)));
        }
        assert_eq!((reader.next(&ring, 0), reader.lost(&ring)), (None, 3));
        ring.tell(&event(7));
        assert_eq!(reader.next(&ring, 0), Some(event(7)));
    }

    #[test]
    fn a_writer_that_died_is_stepped_over_after_a_while() {
        let (ring, mut reader) = (ring(), Reader::default());
        // What a dead writer leaves: a ticket that was taken.
        ring.head.fetch_add(1, Relaxed);
        ring.tell(&event(5));
        let second = 1_000_000_000;
        assert_eq!(reader.next(&ring, 0), None);
        assert_eq!(reader.next(&ring, second - 1), None);
        assert_eq!(reader.next(&ring, second), Some(event(5)));
        assert_eq!(reader.lost(&ring), 1);
    }

    #[test]
    fn many_writers_lose_nothing_that_is_not_counted_and_tear_nothing() {
        let ring = ring();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    let ring = &ring;
                    scope.spawn(move || (0..20_000).for_each(|n| ring.tell(&event(writer * 100_000 + n))))
                })
                .collect();
            let (mut reader, mut read, mut last) = (Reader::default(), 0, [None; 4]);
            loop {
                let done = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
                while let Some(event) = reader.next(&ring, 0) {
                    assert!(event.n == event.at && event.n == event.touched && event.n == event.given);
                    let last = &mut last[(event.n / 100_000) as usize];
                    assert!(
                        last.is_none_or(|before| before < event.n),
                        "one writer's events keep their order"
                    );
                    *last = Some(event.n);
                    read += 1;
                }
                if done {
                    break;
                }
            }
            assert_eq!(read + reader.lost(&ring), 80_000);
        });
    }
}
