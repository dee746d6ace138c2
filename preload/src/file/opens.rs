//! Opening files.

use super::{Moment, fds, verdict};
use crate::sys::Errno;
use crate::{control, plan, sys};
use brownout_control::directive::Failure;
use core::ffi::{CStr, c_char, c_int};

/// Looks at what `open` gave for `path`: remembers the file, and gives the error that it ends with instead, if any.
///
/// # Safety
/// `path` is null or ends with a zero.
pub(super) unsafe fn examine(path: *const c_char, fd: c_int) -> Result<(), Errno> {
    fds::forget(fd);
    let Some(plan) = plan::now() else { return Ok(()) };
    // SAFETY: as the caller says.
    let given = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes());
    let (Some(file), Some(at)) = (fds::look(plan, fd, given), control::since_armed()) else { return Ok(()) };
    match verdict::fails(&Moment { plan, file, at }, &[Failure::NotFound, Failure::Stale]) {
        Some(errno) => Err(errno),
        None => Ok(()),
    }
}

/// Does `call`, which opens `path`.
///
/// # Safety
/// `path` is null or ends with a zero.
pub(crate) unsafe fn around(path: *const c_char, call: impl FnOnce() -> c_int) -> c_int {
    let fd = call();
    // SAFETY: as the caller says.
    match if fd < 0 { Ok(()) } else { unsafe { examine(path, fd) } } {
        Ok(()) => fd,
        Err(errno) => {
            sys::close(fd);
            fds::forget(fd);
            sys::set_errno(errno);
            -1
        }
    }
}

/// Does `call`, which opens something that no directive can be about.
pub(crate) fn unseen(call: impl FnOnce() -> c_int) -> c_int {
    let fd = call();
    fds::forget(fd);
    fd
}
