//! Mappings of files: remembered, so that their pages can be made to show what the directives say, and what is true
//! again afterwards.

use super::cover::Map;
use super::verdict;
use super::{Moment, fds, slow};
use crate::{control, plan, sys, watch};
use brownout_control::directive::{Act, Family};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use core::time::Duration;

/// Most mappings at a time; those beyond show their files as they are.
const ROOM: usize = 1024;

/// How long somebody waits for the table at most, in naps.
const PATIENCE: u32 = 20_000;
const NAP: Duration = Duration::from_micros(100);

/// The table, and the thread that has it: a lock that a thread cannot wait for itself on, and nobody for ever.
struct Table {
    owner: AtomicU32,
    maps: UnsafeCell<[Option<Map>; ROOM]>,
}

// SAFETY: the maps are reached by their owner alone.
unsafe impl Sync for Table {}

static TABLE: Table = Table { owner: AtomicU32::new(0), maps: UnsafeCell::new([const { None }; ROOM]) };

/// All mappings of the table lie between these, so that most calls that unmap need not look into it.
static LOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGH: AtomicUsize = AtomicUsize::new(0);

fn take() -> bool {
    let me = sys::tid();
    for _ in 0..PATIENCE {
        match TABLE.owner.compare_exchange(0, me, Acquire, Relaxed) {
            Ok(_) => return true,
            // This thread has it already, and a signal came in between.
            Err(owner) if owner == me => return false,
            Err(_) => sys::sleep(NAP),
        }
    }
    false
}

fn give_back() {
    TABLE.owner.store(0, Release);
}

fn with<R>(work: impl FnOnce(&mut [Option<Map>; ROOM]) -> R) -> Option<R> {
    // SAFETY: this thread is the owner.
    take().then(|| unsafe { &mut *TABLE.maps.get() }).map(work).inspect(|_| give_back())
}

/// Before a fork: nobody may be in the middle of it.
pub(crate) unsafe extern "C" fn before_fork() {
    // Where it cannot be had, the child waits for an owner that it does not have, and then does without.
    take();
}

/// After a fork, on both sides.
pub(crate) fn after_fork() {
    give_back();
}

/// Does `call`, which maps `length` bytes of `fd` from `offset` on with the flags that it is given, at `wanted` where they
/// say so.
///
/// # Safety
/// The call maps what it says.
pub(crate) unsafe fn around(
    wanted: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
    call: impl FnOnce(c_int) -> *mut c_void,
) -> *mut c_void {
    if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
        forget(wanted as usize, (wanted as usize).saturating_add(length));
    }
    let anonymous = flags & libc::MAP_ANONYMOUS != 0 || fd < 0;
    let plan = if anonymous { None } else { plan::now() };
    let Some((plan, file)) = plan.and_then(|plan| Some((plan, fds::file(plan, fd)?))) else {
        return call(flags);
    };
    let touches = verdict::any(plan, file, Act::Corrupt) || verdict::any(plan, file, Act::Fail);
    // What is changed in a shared mapping would be changed in the file. One that only reads cannot tell the difference.
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let private = if touches && shared { (flags & !libc::MAP_TYPE) | libc::MAP_PRIVATE } else { flags };
    let address = call(private);
    if address == libc::MAP_FAILED {
        return address;
    }
    if let Some(at) = control::since_armed() {
        slow::hold(&Moment { plan, file, at }, length as u64);
    }
    if touches && let Ok(offset) = u64::try_from(offset) {
        file.hold(fd);
        let start = address as usize;
        let end = start.saturating_add(length.next_multiple_of(sys::page()));
        if let Some(map) = Map::new(plan, file, start..end, offset, protection) {
            add(map);
        }
    }
    address
}

fn add(mut map: Map) {
    let (start, end) = (map.start(), map.end());
    LOW.fetch_min(start, Relaxed);
    HIGH.fetch_max(end, Relaxed);
    let added = with(|maps| {
        let free = maps.iter_mut().find(|place| place.is_none())?;
        map.follow(control::since_armed());
        *free = Some(map);
        Some(())
    });
    if added.flatten().is_some() {
        control::keep(Family::Files, true);
        watch::start();
    }
}

/// What lies in `start..end` is about to be unmapped, replaced or moved.
pub(crate) fn forget(start: usize, end: usize) {
    if end <= LOW.load(Relaxed) || start >= HIGH.load(Relaxed) {
        return;
    }
    with(|maps| {
        for place in maps.iter_mut() {
            if let Some(map) = place.as_mut().filter(|map| map.start() < end && start < map.end()) {
                map.heal();
                *place = None;
            }
        }
    });
}

/// Makes all mappings show what they should now. Says whether there is any to look after.
pub(crate) fn follow() -> bool {
    let at = control::since_armed();
    let over = control::block().is_none_or(|block| block.concerns() == 0);
    let left = with(|maps| {
        for place in maps.iter_mut() {
            let Some(map) = place else { continue };
            map.follow(at);
            if over && map.is_healed() {
                *place = None;
            }
        }
        let left = maps.iter().any(Option::is_some);
        if !left {
            control::keep(Family::Files, false);
        }
        left
    });
    left.unwrap_or(true)
}
