//! One mapping of a file: its pages are changed to what shows, byte by byte, and back.
//!
//! Bytes are written through `/proc/self/mem`, which copies the page first (the mapping is private) and asks for no
//! right to write. Only bytes that are as they were left are changed: what the program wrote over them stays. A page
//! that raises `SIGBUS` is an empty file's, put where the page was; the page itself waits elsewhere.

use super::files::File;
use super::tally::{self, Done};
use super::verdict::{self, Shown};
use crate::plan::{Plan, choose};
use crate::sys;
use brownout_control::directive::Failure;
use core::ffi::c_int;
use core::ops::Range;
use core::time::Duration;

/// So much is looked at at a time.
const CHUNK: usize = 4096;

/// See the module.
pub(super) struct Map {
    plan: &'static Plan,
    file: &'static File,
    memory: Range<usize>,
    offset: u64,
    protection: c_int,
    /// What its pages show.
    shown: Shown,
    /// The slots whose failure has been decided on in this window, and those that chose it.
    decided: u32,
    failing: u32,
    dead: Option<Dead>,
    /// The kernel does not move pages away as we need it.
    immovable: bool,
}

/// Pages that raise `SIGBUS`.
struct Dead {
    memory: Range<usize>,
    /// Where the pages are that belong there.
    aside: usize,
}

impl Map {
    /// The mapping of `file` from `offset` on at `memory`.
    pub(super) fn new(
        plan: &'static Plan,
        file: &'static File,
        memory: Range<usize>,
        offset: u64,
        protection: c_int,
    ) -> Option<Self> {
        let (shown, dead) = (Shown::NOTHING, None);
        let map = Self {
            plan,
            file,
            memory,
            offset,
            protection,
            shown,
            decided: 0,
            failing: 0,
            dead,
            immovable: false,
        };
        (!map.memory.is_empty()).then_some(map)
    }

    pub(super) fn start(&self) -> usize {
        self.memory.start
    }

    pub(super) fn end(&self) -> usize {
        self.memory.end
    }

    /// Whether it is as without us.
    pub(super) fn is_healed(&self) -> bool {
        self.shown == Shown::NOTHING && self.dead.is_none()
    }

    /// Shows the file as it is.
    pub(super) fn heal(&mut self) {
        self.follow(None);
    }

    /// Shows what the directives say at this time since arming; the file as it is where nothing may fire.
    pub(super) fn follow(&mut self, at: Option<Duration>) {
        let wanted = at.map_or(Shown::NOTHING, |at| verdict::shown(self.plan, self.file, at));
        let dead = self.dead_range(at, wanted);
        if self.dead.as_ref().map(|dead| &dead.memory) != dead.as_ref() {
            self.revive();
        }
        if self.shown != wanted {
            self.bring(wanted);
        }
        if self.dead.is_none()
            && let Some(range) = dead
        {
            self.kill(range, wanted);
        }
    }

    /// The pages that should raise `SIGBUS`.
    fn dead_range(&mut self, at: Option<Duration>, wanted: Shown) -> Option<Range<usize>> {
        self.decide(at);
        if self.immovable {
            return None;
        }
        if self.failing != 0 {
            return Some(self.memory.clone());
        }
        // Of a file that was cut off, the pages beyond its end.
        let limit = verdict::limit(self.file, wanted)?.next_multiple_of(sys::page() as u64);
        let from = usize::try_from(limit.saturating_sub(self.offset)).ok()?.saturating_add(self.memory.start);
        (from < self.memory.end).then_some(from..self.memory.end)
    }

    /// Decides, once a window, whether touching the mapping fails.
    fn decide(&mut self, at: Option<Duration>) {
        for (slot, directive) in self.plan.among(self.file.slots()) {
            let in_maps = |failure| failure != Failure::NotFound;
            if !directive.failure().is_some_and(in_maps) {
                continue;
            }
            let bit = 1 << slot;
            let open = at.filter(|at| directive.trigger().window.since_open(*at).is_some());
            let Some(at) = open else {
                self.decided &= !bit;
                self.failing &= !bit;
                continue;
            };
            if self.decided & bit == 0 {
                self.decided |= bit;
                if choose(slot, directive, None, at).is_some() {
                    self.failing |= bit;
                }
            }
        }
    }

    /// Changes the bytes from what shows to what is wanted.
    fn bring(&mut self, wanted: Shown) {
        let (Some(held), Ok(memory)) = (self.file.held(), sys::own_memory()) else { return };
        let (file, shown) = (self.file, self.shown);
        let from = self.offset;
        let to = from.saturating_add((self.memory.end - self.memory.start) as u64);
        for slot in verdict::slots(Shown(shown.0 | wanted.0)) {
            let Some(damage) = file.damage(slot) else { continue };
            let mut changed = 0;
            let mut visit = |low: u64, high: u64| {
                let mut at = low;
                while at < high {
                    let length = usize::try_from(high - at).unwrap_or(CHUNK).min(CHUNK);
                    let address = (self.memory.start as u64).saturating_add(at - from);
                    changed += patch(memory, held, file, at, address, length, shown, wanted);
                    at += length as u64;
                }
            };
            damage.each_range(from, to, &mut visit);
            if let Some(limit) = damage.limit().filter(|limit| (from..to).contains(limit)) {
                // The rest of the page in which a file ends is zero.
                visit(limit, limit.next_multiple_of(sys::page() as u64).min(to));
            }
            if changed > 0 && verdict::slots(wanted).any(|other| other == slot) {
                tally::count(file, slot, &Done::touched(changed));
            }
        }
        sys::close(memory);
        self.shown = wanted;
    }

    /// Makes touching these pages raise `SIGBUS`.
    fn kill(&mut self, range: Range<usize>, wanted: Shown) {
        let length = range.end - range.start;
        let flags = libc::MREMAP_MAYMOVE | sys::MREMAP_DONTUNMAP;
        // SAFETY: pages of this mapping; they stay mapped here until the empty file's take their place at once.
        let moved = unsafe { sys::mremap(range.start, length, length, flags, 0) };
        let (Ok(aside), Ok(empty)) = (moved, sys::empty_file()) else {
            self.immovable = true;
            return;
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        // SAFETY: the same pages, whose contents are aside.
        let killed = unsafe { sys::mmap(range.start, length, self.protection, flags, empty, 0) };
        sys::close(empty);
        let dead = Dead { memory: range, aside };
        if killed.is_err() {
            self.immovable = true;
            self.put_back(&dead);
            return;
        }
        self.dead = Some(dead);
        let failing = verdict::slots(Shown(self.failing)).next();
        let cut = || {
            verdict::slots(wanted).find(|slot| self.file.damage(*slot).is_some_and(|d| d.limit().is_some()))
        };
        if let Some(slot) = failing.or_else(cut) {
            let note = "SIGBUS wherever the mapping is touched";
            tally::count(self.file, slot, &Done { note, ..Done::touched(length as u64) });
        }
    }

    fn revive(&mut self) {
        if let Some(dead) = self.dead.take() {
            self.put_back(&dead);
        }
    }

    fn put_back(&self, dead: &Dead) {
        let length = dead.memory.end - dead.memory.start;
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: from where `kill` has put the pages to where they belong.
        let _ = unsafe { sys::mremap(dead.aside, length, length, flags, dead.memory.start) };
    }
}

/// Changes `length` bytes at `address`, which map those at `at` of the file; gives how many were.
#[allow(clippy::too_many_arguments, reason = "a place in the file, a place in memory, and before and after")]
fn patch(
    memory: c_int,
    held: c_int,
    file: &File,
    at: u64,
    address: u64,
    length: usize,
    shown: Shown,
    wanted: Shown,
) -> u64 {
    let (mut old, mut now) = ([0; CHUNK], [0; CHUNK]);
    let (Some(old), Some(now)) = (old.get_mut(..length), now.get_mut(..length)) else { return 0 };
    // Beyond the end of the file the page is zero, as here.
    sys::pread(held, old, at);
    let mut new = [0; CHUNK];
    let Some(new) = new.get_mut(..length) else { return 0 };
    new.copy_from_slice(old);
    look(file, shown, at, old);
    look(file, wanted, at, new);
    if sys::pread(memory, now, address) < length {
        return 0;
    }
    let (mut changed, mut run) = (0, 0);
    for i in 0..=length {
        let differs = old
            .get(i)
            .zip(new.get(i))
            .zip(now.get(i))
            .is_some_and(|((old, new), now)| old != new && now == old);
        if differs {
            run += 1;
        } else if run > 0 {
            let begin = i - run;
            let written =
                new.get(begin..i).is_some_and(|bytes| sys::pwrite(memory, bytes, address + begin as u64));
            changed += if written { run as u64 } else { 0 };
            run = 0;
        }
    }
    changed
}

/// What `bytes` of the file look like with this damage.
fn look(file: &File, shown: Shown, at: u64, bytes: &mut [u8]) {
    verdict::apply(file, shown, at, bytes, |_, _| {});
    if let Some(limit) = verdict::limit(file, shown) {
        let kept = usize::try_from(limit.saturating_sub(at)).unwrap_or(usize::MAX);
        bytes.iter_mut().skip(kept).for_each(|byte| *byte = 0);
    }
}
