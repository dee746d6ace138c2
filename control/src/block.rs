//! The control block: one piece of memory that who arms faults and the processes they fire in share.
//!
//! ```text
//! writer ── directives, times, lease ──► Block ──► shim: one word says whether anything concerns a hook
//! reader ◄── counters, ring of events ──       ◄── shim
//! ```
//!
//! Times are nanoseconds of the system's monotonic clock, which all processes of a machine share. Nothing in the block
//! fires before it is armed, after its end, or when nobody has renewed its lease; each process sees to that by itself.

use crate::directive::Directive;
use crate::plain::Shared;
use crate::ring::Ring;
use crate::trigger::Counters;
use core::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence,
};
use core::time::Duration;

/// The variable that names the file of the block to a shim.
pub const VARIABLE: &str = "BROWNOUT_CONTROL";

/// The most directives at a time.
pub const SLOTS: usize = 16;

/// "brownout" in ASCII.
const MAGIC: u64 = u64::from_be_bytes(*b"brownout");

/// The version of this layout: both sides must be built with the same.
const LAYOUT: u32 = 1;

/// See the module.
#[repr(C)]
pub struct Block {
    magic: AtomicU64,
    layout: AtomicU32,
    size: AtomicU32,
    /// The families of hooks that a directive is about; 0 where nothing is in the block.
    concerns: AtomicU64,
    /// Odd while directives are being written; how often they were, twice, else.
    generation: AtomicU64,
    /// When time zero of the directives was; `u64::MAX` where they wait for it.
    armed: AtomicU64,
    /// Nothing fires from here on, unless it is renewed.
    lease: AtomicU64,
    slots: [Slot; SLOTS],
    /// What happened.
    pub ring: Ring,
}

#[repr(C)]
struct Slot {
    directive: Shared<Directive>,
    counters: Counters,
}

impl Block {
    /// How long it is, in bytes.
    pub const SIZE: usize = size_of::<Self>();

    /// Makes a block of zeroed memory one that nothing is in.
    pub fn begin(&self) {
        self.armed.store(u64::MAX, Relaxed);
        self.layout.store(LAYOUT, Relaxed);
        self.size.store(u32::try_from(Self::SIZE).unwrap_or(0), Relaxed);
        self.magic.store(MAGIC, Release);
    }

    /// Whether this is a block, and of this layout.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.magic.load(Acquire) == MAGIC
            && self.layout.load(Relaxed) == LAYOUT
            && self.size.load(Relaxed) as usize == Self::SIZE
    }

    /// The families that something is about: the one word that a hook looks at.
    #[inline]
    #[must_use]
    pub fn concerns(&self) -> u64 {
        self.concerns.load(Relaxed)
    }

    /// How often directives were written: whoever remembers anything about them remembers it with this number.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Puts `directives` there in place of those before; they wait to be armed. The first [`SLOTS`] have room. One
    /// writer at a time.
    pub fn write(&self, directives: &[Directive]) {
        self.heal();
        let generation = self.generation.load(Relaxed) | 1;
        self.generation.store(generation, Relaxed);
        fence(Release);
        let mut concerns = 0;
        for (i, slot) in self.slots.iter().enumerate() {
            let directive = directives.get(i).copied().unwrap_or(Directive::NOTHING);
            concerns |= directive.families();
            slot.counters.eligible.store(0, Relaxed);
            slot.counters.hits.store(0, Relaxed);
            slot.directive.store(&directive);
        }
        self.generation.store(generation + 1, Release);
        self.concerns.store(concerns, Release);
    }

    /// The directive in `slot`, if there is one and `generation` is still that of the block.
    #[must_use]
    pub fn directive(&self, slot: usize, generation: u64) -> Option<Directive> {
        let directive = self.slots.get(slot)?.directive.load();
        fence(Acquire);
        let whole = generation.is_multiple_of(2) && self.generation.load(Relaxed) == generation;
        (whole && directive.act().is_some()).then_some(directive)
    }

    /// The counters of `slot`.
    #[must_use]
    pub fn counters(&self, slot: usize) -> Option<&Counters> {
        self.slots.get(slot).map(|slot| &slot.counters)
    }

    /// Arms what is there: `now` is time zero of the directives.
    pub fn arm(&self, now: u64, lease: Duration) {
        self.renew(now, lease);
        self.armed.store(now, Release);
    }

    /// Lets what is armed live on.
    pub fn renew(&self, now: u64, lease: Duration) {
        self.lease.store(now.saturating_add(nanos(lease)), Release);
    }

    /// Ends all that is armed; for good, as far as these directives go. Says whether anything was.
    pub fn heal(&self) -> bool {
        self.lease.store(0, Release);
        let was = self.armed.swap(u64::MAX, Release) != u64::MAX;
        self.concerns.store(0, Release);
        was
    }

    /// Time since arming, if at `now` anything may fire at all.
    #[must_use]
    pub fn since_armed(&self, now: u64) -> Option<Duration> {
        let armed = self.armed.load(Acquire);
        (armed <= now && now < self.lease.load(Acquire)).then(|| Duration::from_nanos(now - armed))
    }
}

/// Whole nanoseconds, as the block counts them.
#[must_use]
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::{Act, Family};

    const SECOND: u64 = 1_000_000_000;

    fn block() -> Box<Block> {
        let layout = std::alloc::Layout::new::<Block>();
        #[allow(unsafe_code, reason = "as the system gives it: zeroed, and too large for a stack")]
        // SAFETY: zeroes are a block (all atomics and plain numbers), and the layout is that of a block.
        let block = unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<Block>()) };
        assert!(!block.is_ours());
        block.begin();
        block
    }

    fn directive() -> Directive {
        Directive { act: Act::Fail as u32, how: 1, ..Directive::NOTHING }
    }

    #[test]
    fn a_new_block_is_ours_and_empty() {
        let block = block();
        assert!(block.is_ours());
        assert_eq!(block.concerns(), 0);
        assert_eq!(block.directive(0, block.generation()), None);
        assert_eq!(block.since_armed(SECOND), None);
    }

    #[test]
    fn directives_wait_to_be_armed_and_end_with_the_lease() {
        let block = block();
        block.write(&[directive()]);
        assert_eq!(block.concerns(), Family::Files.bit());
        assert_eq!(block.directive(0, block.generation()), Some(directive()));
        assert_eq!(block.directive(1, block.generation()), None);
        assert_eq!(block.directive(SLOTS, block.generation()), None);
        assert_eq!(block.since_armed(SECOND), None);
        block.arm(10 * SECOND, Duration::from_secs(5));
        assert_eq!(block.since_armed(10 * SECOND - 1), None);
        assert_eq!(block.since_armed(12 * SECOND), Some(Duration::from_secs(2)));
        assert_eq!(block.since_armed(15 * SECOND), None, "nobody renewed the lease");
        block.renew(15 * SECOND, Duration::from_secs(5));
        assert_eq!(block.since_armed(19 * SECOND), Some(Duration::from_secs(9)));
        assert!(block.heal() && !block.heal());
        assert_eq!((block.concerns(), block.since_armed(19 * SECOND)), (0, None));
    }

    #[test]
    fn a_directive_of_another_generation_is_not_given() {
        let block = block();
        block.write(&[directive()]);
        let before = block.generation();
        block.write(&[directive(), directive()]);
        assert_eq!(block.directive(0, before), None);
        assert_eq!(block.directive(0, before + 1), None, "odd: it is being written");
        assert!(block.directive(1, block.generation()).is_some());
    }

    /// Threads that read while another writes see whole directives or none.
    #[test]
    fn no_torn_directive_is_given() {
        let block = block();
        let odd = Directive { count: 1, seed: 1, repeat: 1, ..directive() };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..5_000 {
                    block.write(&[directive()]);
                    block.write(&[odd]);
                }
            });
            let mut seen = 0;
            while !writer.is_finished() || seen == 0 {
                if let Some(directive) = block.directive(0, block.generation()) {
                    seen += 1;
                    assert!(directive.seed == directive.count && directive.count == directive.repeat);
                }
            }
        });
    }
}
