//! What is known of each file that directives are about.

use super::tally::Tally;
use crate::once::{Once, Turn};
use crate::plan::Plan;
use crate::sys::{self, Stat};
use brownout_control::block::SLOTS;
use brownout_control::damage::{Damage, How};
use brownout_control::directive::Act;
use brownout_control::draw::stable_hash;
use brownout_control::{Directive, Text, glob};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::AcqRel, Ordering::Acquire};

/// Most files at a time; those beyond are left alone.
pub(super) const ROOM: usize = 1024;

/// So many places are tried for one file.
const TRIES: usize = 16;

/// One file.
pub(crate) struct File {
    ready: Once,
    known: UnsafeCell<MaybeUninit<Known>>,
    /// Slots that have decided about this file, and those of them that chose it.
    pub(super) decided: AtomicU32,
    pub(super) chosen: AtomicU32,
    /// A descriptor of our own, for reading it as it is, plus 1; 0 for none, so that unused memory is all zero.
    held: AtomicI32,
    pub(super) tallies: [Tally; SLOTS],
}

#[derive(Clone, Copy)]
struct Known {
    stat: Stat,
    slots: u32,
    path: Text<192>,
    number: u64,
    damages: [Option<Damage>; SLOTS],
}

// SAFETY: what is known is written only by who has the turn, and read only when it is ready.
unsafe impl Sync for File {}

static FILES: [File; ROOM] = [const { File::none() }; ROOM];

impl File {
    const fn none() -> Self {
        Self {
            ready: Once::new(),
            known: UnsafeCell::new(MaybeUninit::uninit()),
            decided: AtomicU32::new(0),
            chosen: AtomicU32::new(0),
            held: AtomicI32::new(0),
            tallies: [const { Tally::new() }; SLOTS],
        }
    }

    /// The file with this number.
    pub(super) fn numbered(number: usize) -> Option<&'static Self> {
        FILES.get(number)
    }

    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        FILES.iter()
    }

    /// The file that is open as `fd`, with its number, if a directive is about it. `given`: the path that the program
    /// opened it by, where that is known.
    pub(super) fn of(
        plan: &Plan,
        fd: c_int,
        stat: &Stat,
        given: Option<&[u8]>,
    ) -> Option<(usize, &'static Self)> {
        let mut path = [0; 4096];
        let real = sys::path_of(fd, &mut path)?;
        let fits = |directive: &Directive| {
            let pattern = directive.file.bytes();
            directive.act().is_some()
                && (glob(pattern, real) || given.is_some_and(|given| glob(pattern, given)))
        };
        let slots = plan
            .directives()
            .filter(|(_, directive)| fits(directive))
            .fold(0, |bits, (slot, _)| bits | (1 << slot));
        if slots == 0 {
            return None;
        }
        let tag = tag(plan.generation(), stat, slots);
        let first = (tag % ROOM as u64) as usize;
        (0..TRIES).map(|i| (first + i) % ROOM).find_map(|number| {
            let file = FILES.get(number)?;
            match file.ready.turn(tag, |_| false) {
                Turn::Ready => Some((number, file)),
                Turn::Never => None,
                Turn::Mine => {
                    // SAFETY: it is this thread's turn, and nobody reads before it is ready.
                    unsafe { (*file.known.get()).write(Known::of(plan, fd, stat, slots, real)) };
                    file.ready.done(tag);
                    Some((number, file))
                }
            }
        })
    }

    /// Whether there is one.
    pub(super) fn is_known(&self) -> bool {
        self.ready.is_ready()
    }

    fn known(&self) -> &Known {
        // SAFETY: a file is only given out when it is ready, and not prepared again.
        unsafe { (*self.known.get()).assume_init_ref() }
    }

    /// Whether it is the file that `stat` tells of.
    pub(super) fn is(&self, stat: &Stat) -> bool {
        let own = self.known().stat;
        (own.device, own.inode) == (stat.device, stat.inode)
    }

    /// The directives that are about it, as bits.
    pub(super) fn slots(&self) -> u32 {
        self.known().slots
    }

    /// How many bytes it really has from `from` on.
    pub(super) fn left(&self, from: u64) -> usize {
        usize::try_from(self.known().stat.size.saturating_sub(from)).unwrap_or(usize::MAX)
    }

    /// The end of its path.
    pub(super) fn path(&self) -> &[u8] {
        self.known().path.bytes()
    }

    /// Its number in decisions: the same wherever a file of this name lies.
    pub(super) fn number(&self) -> u64 {
        self.known().number
    }

    /// How the directive in `slot` damages it.
    pub(super) fn damage(&self, slot: usize) -> Option<&Damage> {
        self.known().damages.get(slot)?.as_ref()
    }

    /// Keeps a descriptor of it for later, made from `fd`.
    pub(super) fn hold(&self, fd: c_int) {
        if self.held().is_none()
            && let Some(own) = sys::raised(fd)
        {
            // Two may come at once; the one that is late gives its own back.
            if self.held.compare_exchange(0, own + 1, AcqRel, Acquire).is_err() {
                sys::close(own);
            }
        }
    }

    /// The descriptor that was kept, unless the program has closed it or put another file there.
    pub(super) fn held(&self) -> Option<c_int> {
        let held = self.held.load(Acquire);
        let fd = held.checked_sub(1).filter(|fd| *fd >= 0)?;
        if sys::stat(fd).is_some_and(|stat| self.is(&stat)) {
            return Some(fd);
        }
        let _ = self.held.compare_exchange(held, 0, AcqRel, Acquire);
        None
    }
}

impl Known {
    fn of(plan: &Plan, fd: c_int, stat: &Stat, slots: u32, real: &[u8]) -> Self {
        let name = real.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let number = stable_hash(name);
        let mut damages = [None; SLOTS];
        let source = |offset: u64, into: &mut [u8]| sys::pread(fd, into, offset);
        for (slot, directive) in
            plan.among(slots).filter(|(_, directive)| directive.act() == Some(Act::Corrupt))
        {
            let damage = How::from_u32(directive.how).and_then(|how| {
                let keep = u32::try_from(directive.keep).unwrap_or(0);
                Damage::plan(
                    how,
                    directive.count,
                    keep,
                    directive.draw(number).fork("damage"),
                    &source,
                    stat.size,
                )
            });
            if let Some(place) = damages.get_mut(slot) {
                *place = damage;
            }
        }
        Self { stat: *stat, slots, path: Text::ending(real), number, damages }
    }
}

/// Tells files apart, also one from what it was before it was written anew.
fn tag(generation: u64, stat: &Stat, slots: u32) -> u64 {
    let mut bytes = [0; 48];
    let words = [generation, stat.device, stat.inode, stat.size, stat.changed, slots.into()];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.iter_mut().zip(word.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    (stable_hash(&bytes) >> 1) | 1
}
