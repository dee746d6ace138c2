//! Faults of files: what a program opens, reads and maps is damaged, fails or is slow. The file itself is never touched.
//!
//! ```text
//! open, read, mmap ──► fds: which file is this? ──► files: what is it to the directives? ──► verdict: what shows now?
//!                          ├─ opens, reads, streams, sizes: in the call, once
//!                          └─ maps: in the mapping's pages, which are brought back at the end (cover, watch)
//! ```

mod cover;
mod fds;
mod files;
pub(crate) mod maps;
pub(crate) mod opens;
pub(crate) mod reads;
pub(crate) mod sizes;
mod slow;
pub(crate) mod streams;
mod tally;
mod verdict;

pub(crate) use fds::forget;
pub(crate) use tally::tell_all;

use crate::control;
use crate::plan::Plan;
use core::ffi::c_int;
use core::time::Duration;
use files::File;

/// A file that directives are about, at a time when something may fire.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    plan: &'static Plan,
    file: &'static File,
    /// Time since arming.
    at: Duration,
}

impl Moment {
    /// What `fd` is now, if it is anything to us.
    fn of(fd: c_int) -> Option<Self> {
        let at = control::since_armed()?;
        let plan = crate::plan::now()?;
        Some(Self { plan, file: fds::file(plan, fd)?, at })
    }
}
