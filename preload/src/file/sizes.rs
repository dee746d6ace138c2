//! What tells how long a file is: a file that seems cut off must seem so to all who ask.

use super::{Moment, fds, verdict};
use crate::{control, plan, sys};
use core::ffi::{CStr, c_char, c_int};

/// The length that the open file `fd` seems to have, where that is not its own.
pub(crate) fn limit(fd: c_int) -> Option<u64> {
    let now = Moment::of(fd)?;
    verdict::told_limit(now.file, verdict::shown(now.plan, now.file, now.at))
}

/// As [`limit`], of the file at `path`, seen from the folder `at`; an empty path means `at` itself.
///
/// # Safety
/// `path` is null or ends with a zero.
pub(crate) unsafe fn limit_at(at: c_int, path: *const c_char, flags: c_int) -> Option<u64> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    let path = unsafe { CStr::from_ptr(path) };
    if path.is_empty() {
        return limit(at);
    }
    let follow = if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { libc::O_NOFOLLOW } else { 0 };
    let since = control::since_armed()?;
    let plan = plan::now()?;
    // Whoever asked knows that it is a file; nothing else would be opened without an effect.
    let fd = sys::open_at(at, path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | follow).ok()?;
    let file = fds::look(plan, fd, Some(path.to_bytes()));
    fds::forget(fd);
    sys::close(fd);
    let file = file?;
    verdict::told_limit(file, verdict::shown(plan, file, since))
}

/// Puts `limit` in place of a size that is larger.
///
/// # Safety
/// `size` is null or may be read and written.
pub(crate) unsafe fn shorten(size: *mut i64, limit: Option<u64>) {
    // SAFETY: as the caller says.
    if let (Some(size), Some(limit)) =
        (unsafe { size.as_mut() }, limit.and_then(|limit| i64::try_from(limit).ok()))
    {
        *size = limit.min(*size);
    }
}

/// Where a seek from the end goes, in a file that seems to end elsewhere.
pub(crate) fn from_end(fd: c_int, offset: i64, whence: c_int) -> (i64, c_int) {
    let limit = if whence == libc::SEEK_END { limit(fd) } else { None };
    match limit.and_then(|limit| i64::try_from(limit).ok()?.checked_add(offset)) {
        // A place before the beginning is the real function's to refuse.
        Some(place) => (place, libc::SEEK_SET),
        None => (offset, whence),
    }
}

/// As [`from_end`], of a stream.
///
/// # Safety
/// `stream` is null or a stream.
pub(crate) unsafe fn from_streams_end(stream: *mut libc::FILE, offset: i64, whence: c_int) -> (i64, c_int) {
    if stream.is_null() || whence != libc::SEEK_END {
        return (offset, whence);
    }
    // SAFETY: a stream, as the caller says.
    from_end(unsafe { libc::fileno(stream) }, offset, whence)
}
