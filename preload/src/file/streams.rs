//! Reads through the C library's streams, whose own calls of `read` no hook sees.

use super::reads::{self, End};
use super::{Moment, fds, opens, slow, verdict};
use crate::sys;
use brownout_control::directive::Failure;
use core::ffi::{CStr, c_char, c_int, c_void};
use libc::FILE;

/// Flags of a stream in glibc, a part of its ABI (libio.h): the end was met, an error was met.
const END: c_int = 0x10;
const ERROR: c_int = 0x20;

/// Whether a stream opened with `mode` is for reading alone.
///
/// # Safety
/// `mode` is null or ends with a zero.
unsafe fn only_reads(mode: *const c_char) -> bool {
    // SAFETY: as the caller says.
    let mode = if mode.is_null() { &[] } else { unsafe { CStr::from_ptr(mode) }.to_bytes() };
    mode.first() == Some(&b'r') && !mode.contains(&b'+')
}

/// Does `call`, which opens `path` as a stream.
///
/// # Safety
/// `path` and `mode` are null or end with a zero, and the call gives a stream or null.
pub(crate) unsafe fn around_open(
    path: *const c_char,
    mode: *const c_char,
    call: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    let stream = call();
    if stream.is_null() {
        return stream;
    }
    // SAFETY: as the caller says.
    if !unsafe { only_reads(mode) } {
        // SAFETY: a stream, as the caller says.
        fds::forget(unsafe { libc::fileno(stream) });
        return stream;
    }
    // SAFETY: a stream, as the caller says.
    let examined = unsafe { opens::examine(path, libc::fileno(stream)) };
    match examined {
        Ok(()) => stream,
        Err(errno) => {
            // SAFETY: a stream that nobody else has seen.
            unsafe { libc::fclose(stream) };
            sys::set_errno(errno);
            core::ptr::null_mut()
        }
    }
}

/// Does `call`, which reads items of `size` bytes from `stream` into `into`, at most as many as it is given, and gives how
/// many.
///
/// # Safety
/// A stream, and memory for all items.
pub(crate) unsafe fn around_read(
    into: *mut c_void,
    size: usize,
    stream: *mut FILE,
    call: impl FnOnce(usize) -> usize,
) -> usize {
    // SAFETY: a stream, as the caller says.
    let now = if stream.is_null() { None } else { Moment::of(unsafe { libc::fileno(stream) }) };
    let Some(now) = now else { return call(usize::MAX) };
    // SAFETY: likewise; the flags are the first field of a stream.
    let flag = |flag: c_int| unsafe { *stream.cast::<c_int>() |= flag };
    if let Some(errno) = verdict::fails(&now, &[Failure::Io, Failure::Stale]) {
        flag(ERROR);
        sys::set_errno(errno);
        return 0;
    }
    // SAFETY: likewise.
    let from = unsafe { libc::ftello(stream) };
    let (Ok(from), true) = (u64::try_from(from), size > 0) else { return call(usize::MAX) };
    let shown = verdict::shown(now.plan, now.file, now.at);
    let end = End::of(&now, shown);
    let most = end.left(from) / size;
    // What there is of an item beyond the last whole one is left where it is: nobody can tell.
    let items = if most == 0 { 0 } else { call(most) };
    let read = items.saturating_mul(size);
    slow::hold(&now, read as u64);
    if items == most {
        flag(END);
        end.tell(&now, now.file.left(from).saturating_sub(read));
    }
    let piece = libc::iovec { iov_base: into, iov_len: read };
    // SAFETY: the call has written so much.
    unsafe { reads::damage(&now, shown, from, &[piece], read) };
    items
}
