//! The C functions that the shim stands before. Each looks at one word, and is the real function where nothing concerns
//! it.

use crate::control;
use crate::file::reads::{self, At};
use crate::file::{forget, maps, opens, sizes, streams};
use crate::real::Real;
use crate::sys::{self, Errno};
use brownout_control::directive::Family;
use core::ffi::{c_char, c_int, c_uint, c_void};
use libc::{FILE, iovec, mode_t, off_t, size_t, ssize_t};

/// What a C function gives when it fails.
trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}
impl Failed for isize {
    const FAILED: Self = -1;
}
impl Failed for i64 {
    const FAILED: Self = -1;
}
impl Failed for usize {
    const FAILED: Self = 0;
}
impl Failed for *mut c_void {
    const FAILED: Self = libc::MAP_FAILED;
}
impl Failed for *mut FILE {
    const FAILED: Self = core::ptr::null_mut();
}

/// `Family name(arguments) -> result = |real| what happens where the family concerns somebody;`, where `real` is the
/// real function. Defines the C function of that name, and knows it by name.
macro_rules! hooks {
    ($($family:ident $name:ident($($arg:ident: $type:ty),*) -> $result:ty = |$real:ident| $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                let Some(address) = real::$name.address() else {
                    sys::set_errno(Errno(libc::ENOSYS));
                    return <$result as Failed>::FAILED;
                };
                // SAFETY: what libraries call by this name has this type.
                let $real = unsafe {
                    core::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> $result>(address)
                };
                if !control::concerns(Family::$family) {
                    // SAFETY: as we were called.
                    return unsafe { $real($($arg),*) };
                }
                // SAFETY: as we were called; what is not ours to know is asked of the real function.
                unsafe { $body }
            }
        )*

        #[allow(non_upper_case_globals, reason = "named as the functions are")]
        mod real {
            use super::Real;
            $(
                pub(super) static $name: Real = Real::new(
                    // SAFETY: it ends with a zero, and the name of a function has none.
                    unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
                );
            )*
        }

        /// Looks all of them up, while it is safe to.
        pub(crate) fn find_all() {
            $(real::$name.address();)*
        }
    };
}

fn one(into: *mut c_void, length: usize) -> [iovec; 1] {
    [iovec { iov_base: into, iov_len: length }]
}

/// The pieces of a vectored read.
unsafe fn all<'a>(pieces: *const iovec, count: c_int) -> &'a [iovec] {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: as the caller of the hook says; the kernel takes no more than this.
    if pieces.is_null() || count > 1024 { &[] } else { unsafe { core::slice::from_raw_parts(pieces, count) } }
}

/// Opens, and looks at what was opened where it is only read.
macro_rules! opened {
    ($path:ident, $flags:ident, $call:expr) => {{
        let call = || $call;
        if sys::is_read_only($flags) { opens::around($path, call) } else { opens::unseen(call) }
    }};
}

/// Asks for the size at the place `$at` in what was filled.
macro_rules! sized {
    ($call:expr, $about:ident, $size:ident, $mode:ident, $limit:expr) => {{
        let result = $call;
        if result == 0 && !$about.is_null() && (*$about).$mode as c_uint & libc::S_IFMT == libc::S_IFREG {
            sizes::shorten((&raw mut (*$about).$size).cast(), $limit);
        }
        result
    }};
}

use libc::{stat as Stat, stat64 as Stat64, statx as Statx};

/// `AT_FDCWD`, short.
const HERE: c_int = libc::AT_FDCWD;
const NO_FOLLOW: c_int = libc::AT_SYMLINK_NOFOLLOW;

hooks! {
    // Opening. The mode is there only where a file is made; taking it along hurts nobody.
    Files open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real| opened!(path, flags, real(path, flags, mode));
    Files open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real| opened!(path, flags, real(path, flags, mode));
    Files openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real| opened!(path, flags, real(at, path, flags, mode));
    Files openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real| opened!(path, flags, real(at, path, flags, mode));
    Files __open_2(path: *const c_char, flags: c_int) -> c_int = |real| opened!(path, flags, real(path, flags));
    Files __open64_2(path: *const c_char, flags: c_int) -> c_int = |real| opened!(path, flags, real(path, flags));
    Files __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int = |real| opened!(path, flags, real(at, path, flags));
    Files __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int = |real| opened!(path, flags, real(at, path, flags));

    // Reading.
    Files read(fd: c_int, into: *mut c_void, n: size_t) -> ssize_t = |real| reads::around(fd, At::Position, &one(into, n), |most| real(fd, into, n.min(most)));
    Files pread(fd: c_int, into: *mut c_void, n: size_t, at: off_t) -> ssize_t = |real| reads::around(fd, At::Offset(at), &one(into, n), |most| real(fd, into, n.min(most), at));
    Files pread64(fd: c_int, into: *mut c_void, n: size_t, at: off_t) -> ssize_t = |real| reads::around(fd, At::Offset(at), &one(into, n), |most| real(fd, into, n.min(most), at));
    Files readv(fd: c_int, pieces: *const iovec, n: c_int) -> ssize_t = |real| reads::around(fd, At::Position, all(pieces, n), |_| real(fd, pieces, n));
    Files preadv(fd: c_int, pieces: *const iovec, n: c_int, at: off_t) -> ssize_t = |real| reads::around(fd, At::Offset(at), all(pieces, n), |_| real(fd, pieces, n, at));
    Files preadv64(fd: c_int, pieces: *const iovec, n: c_int, at: off_t) -> ssize_t = |real| reads::around(fd, At::Offset(at), all(pieces, n), |_| real(fd, pieces, n, at));
    Files preadv2(fd: c_int, pieces: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t = |real| reads::around(fd, At::of(at), all(pieces, n), |_| real(fd, pieces, n, at, flags));
    Files preadv64v2(fd: c_int, pieces: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t = |real| reads::around(fd, At::of(at), all(pieces, n), |_| real(fd, pieces, n, at, flags));
    Files __read_chk(fd: c_int, into: *mut c_void, n: size_t, room: size_t) -> ssize_t = |real| reads::around(fd, At::Position, &one(into, n), |most| real(fd, into, n.min(most), room));
    Files __pread_chk(fd: c_int, into: *mut c_void, n: size_t, at: off_t, room: size_t) -> ssize_t = |real| reads::around(fd, At::Offset(at), &one(into, n), |most| real(fd, into, n.min(most), at, room));
    Files __pread64_chk(fd: c_int, into: *mut c_void, n: size_t, at: off_t, room: size_t) -> ssize_t = |real| reads::around(fd, At::Offset(at), &one(into, n), |most| real(fd, into, n.min(most), at, room));

    // Mapping.
    Files mmap(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, at: off_t) -> *mut c_void =
        |real| maps::around(address, length, protection, flags, fd, at, |flags| real(address, length, protection, flags, fd, at));
    Files mmap64(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, at: off_t) -> *mut c_void =
        |real| maps::around(address, length, protection, flags, fd, at, |flags| real(address, length, protection, flags, fd, at));
    Files munmap(address: *mut c_void, length: size_t) -> c_int = |real| {
        maps::forget(address as usize, (address as usize).saturating_add(length));
        real(address, length)
    };
    Files mremap(old: *mut c_void, length: size_t, new: size_t, flags: c_int, to: *mut c_void) -> *mut c_void = |real| {
        maps::forget(old as usize, (old as usize).saturating_add(length));
        if flags & libc::MREMAP_FIXED != 0 {
            maps::forget(to as usize, (to as usize).saturating_add(new));
        }
        real(old, length, new, flags, to)
    };

    // Streams.
    Files fopen(path: *const c_char, mode: *const c_char) -> *mut FILE = |real| streams::around_open(path, mode, || real(path, mode));
    Files fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE = |real| streams::around_open(path, mode, || real(path, mode));
    Files fread(into: *mut c_void, size: size_t, n: size_t, stream: *mut FILE) -> size_t = |real| streams::around_read(into, size, stream, |most| real(into, size, n.min(most), stream));
    Files fread_unlocked(into: *mut c_void, size: size_t, n: size_t, stream: *mut FILE) -> size_t = |real| streams::around_read(into, size, stream, |most| real(into, size, n.min(most), stream));
    Files __fread_chk(into: *mut c_void, room: size_t, size: size_t, n: size_t, stream: *mut FILE) -> size_t =
        |real| streams::around_read(into, size, stream, |most| real(into, room, size, n.min(most), stream));

    // What makes a descriptor another file.
    Files close(fd: c_int) -> c_int = |real| { forget(fd); real(fd) };
    Files dup2(from: c_int, to: c_int) -> c_int = |real| { forget(to); real(from, to) };
    Files dup3(from: c_int, to: c_int, flags: c_int) -> c_int = |real| { forget(to); real(from, to, flags) };

    // Sizes, only where a file seems shorter than it is.
    Sizes stat(path: *const c_char, about: *mut Stat) -> c_int = |real| sized!(real(path, about), about, st_size, st_mode, sizes::limit_at(HERE, path, 0));
    Sizes stat64(path: *const c_char, about: *mut Stat64) -> c_int = |real| sized!(real(path, about), about, st_size, st_mode, sizes::limit_at(HERE, path, 0));
    Sizes lstat(path: *const c_char, about: *mut Stat) -> c_int = |real| sized!(real(path, about), about, st_size, st_mode, sizes::limit_at(HERE, path, NO_FOLLOW));
    Sizes lstat64(path: *const c_char, about: *mut Stat64) -> c_int = |real| sized!(real(path, about), about, st_size, st_mode, sizes::limit_at(HERE, path, NO_FOLLOW));
    Sizes fstat(fd: c_int, about: *mut Stat) -> c_int = |real| sized!(real(fd, about), about, st_size, st_mode, sizes::limit(fd));
    Sizes fstat64(fd: c_int, about: *mut Stat64) -> c_int = |real| sized!(real(fd, about), about, st_size, st_mode, sizes::limit(fd));
    Sizes fstatat(at: c_int, path: *const c_char, about: *mut Stat, flags: c_int) -> c_int = |real| sized!(real(at, path, about, flags), about, st_size, st_mode, sizes::limit_at(at, path, flags));
    Sizes fstatat64(at: c_int, path: *const c_char, about: *mut Stat64, flags: c_int) -> c_int = |real| sized!(real(at, path, about, flags), about, st_size, st_mode, sizes::limit_at(at, path, flags));
    Sizes __xstat(version: c_int, path: *const c_char, about: *mut Stat) -> c_int = |real| sized!(real(version, path, about), about, st_size, st_mode, sizes::limit_at(HERE, path, 0));
    Sizes __xstat64(version: c_int, path: *const c_char, about: *mut Stat64) -> c_int = |real| sized!(real(version, path, about), about, st_size, st_mode, sizes::limit_at(HERE, path, 0));
    Sizes __lxstat(version: c_int, path: *const c_char, about: *mut Stat) -> c_int = |real| sized!(real(version, path, about), about, st_size, st_mode, sizes::limit_at(HERE, path, NO_FOLLOW));
    Sizes __lxstat64(version: c_int, path: *const c_char, about: *mut Stat64) -> c_int = |real| sized!(real(version, path, about), about, st_size, st_mode, sizes::limit_at(HERE, path, NO_FOLLOW));
    Sizes __fxstat(version: c_int, fd: c_int, about: *mut Stat) -> c_int = |real| sized!(real(version, fd, about), about, st_size, st_mode, sizes::limit(fd));
    Sizes __fxstat64(version: c_int, fd: c_int, about: *mut Stat64) -> c_int = |real| sized!(real(version, fd, about), about, st_size, st_mode, sizes::limit(fd));
    Sizes __fxstatat(version: c_int, at: c_int, path: *const c_char, about: *mut Stat, flags: c_int) -> c_int =
        |real| sized!(real(version, at, path, about, flags), about, st_size, st_mode, sizes::limit_at(at, path, flags));
    Sizes __fxstatat64(version: c_int, at: c_int, path: *const c_char, about: *mut Stat64, flags: c_int) -> c_int =
        |real| sized!(real(version, at, path, about, flags), about, st_size, st_mode, sizes::limit_at(at, path, flags));
    Sizes statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, about: *mut Statx) -> c_int =
        |real| sized!(real(at, path, flags, mask, about), about, stx_size, stx_mode, sizes::limit_at(at, path, flags));
    Sizes lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t = |real| {
        let (offset, whence) = sizes::from_end(fd, offset, whence);
        real(fd, offset, whence)
    };
    Sizes lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t = |real| {
        let (offset, whence) = sizes::from_end(fd, offset, whence);
        real(fd, offset, whence)
    };
    Sizes fseek(stream: *mut FILE, offset: libc::c_long, whence: c_int) -> c_int = |real| {
        let (offset, whence) = sizes::from_streams_end(stream, offset, whence);
        real(stream, offset, whence)
    };
    Sizes fseeko(stream: *mut FILE, offset: off_t, whence: c_int) -> c_int = |real| {
        let (offset, whence) = sizes::from_streams_end(stream, offset, whence);
        real(stream, offset, whence)
    };
    Sizes fseeko64(stream: *mut FILE, offset: off_t, whence: c_int) -> c_int = |real| {
        let (offset, whence) = sizes::from_streams_end(stream, offset, whence);
        real(stream, offset, whence)
    };
}
