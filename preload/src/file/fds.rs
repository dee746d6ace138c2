//! Which file an open descriptor is: remembered, so that a call on any other file costs one look.

use super::files::File;
use crate::plan::Plan;
use crate::sys;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

/// Descriptors that are remembered; those beyond are looked up each time.
const ROOM: usize = 65_536;

const UNKNOWN: u16 = 0;
const OTHER: u16 = 1;
/// From here on: the number of a file.
const FIRST: u16 = 2;

static MARKS: [AtomicU16; ROOM] = [const { AtomicU16::new(UNKNOWN) }; ROOM];

/// The generation of the directives that the marks were made by.
static MADE_BY: AtomicU64 = AtomicU64::new(0);

fn mark(fd: c_int) -> Option<&'static AtomicU16> {
    MARKS.get(usize::try_from(fd).ok()?)
}

/// The descriptor is closed, or another file now.
pub(crate) fn forget(fd: c_int) {
    if let Some(mark) = mark(fd) {
        mark.store(UNKNOWN, Relaxed);
    }
}

/// The file that `fd` is, if a directive is about it.
pub(super) fn file(plan: &Plan, fd: c_int) -> Option<&'static File> {
    if MADE_BY.swap(plan.generation(), Relaxed) != plan.generation() {
        MARKS.iter().for_each(|mark| mark.store(UNKNOWN, Relaxed));
    }
    match mark(fd).map_or(UNKNOWN, |mark| mark.load(Relaxed)) {
        UNKNOWN => look(plan, fd, None),
        OTHER => None,
        number => {
            let file = File::numbered(usize::from(number - FIRST))?;
            // A descriptor can become another file's in ways that no hook sees. To break the wrong file is worse than
            // to ask once more.
            if sys::stat(fd).is_some_and(|stat| file.is(&stat)) { Some(file) } else { look(plan, fd, None) }
        }
    }
}

/// Finds out what `fd` is, and remembers it.
pub(super) fn look(plan: &Plan, fd: c_int, given: Option<&[u8]>) -> Option<&'static File> {
    let stat = sys::stat(fd)?;
    // Whoever may write to the file must see it as it is: what it reads damaged it would write back.
    let found = if stat.is_file && sys::reads_only(fd) { File::of(plan, fd, &stat, given) } else { None };
    if let Some(mark) = mark(fd) {
        let number = found.and_then(|(number, _)| u16::try_from(number).ok()?.checked_add(FIRST));
        mark.store(number.unwrap_or(OTHER), Relaxed);
    }
    found.map(|(_, file)| file)
}
