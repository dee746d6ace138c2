//! System calls, made directly: the C library's functions of these names may be our own hooks, and set `errno`.

use core::arch::asm;
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use core::time::Duration;
use libc::c_long;

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// A system call with up to six arguments, as the kernel answers it.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result;
    let [a, b, c, d, e, f] = args;
    // SAFETY: the kernel's convention; what the call does is up to the caller.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result;
    let [a, b, c, d, e, f] = args;
    // SAFETY: the kernel's convention; what the call does is up to the caller.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
    }
    result
}

macro_rules! call {
    ($number:ident $(, $arg:expr)*) => {{
        let given = [$($arg as usize),*];
        let mut args = [0; 6];
        args.iter_mut().zip(given).for_each(|(to, from)| *to = from);
        let result = unsafe { call(libc::$number, args) };
        if (-4095..0).contains(&result) { Err(Errno(-result as c_int)) } else { Ok(result as usize) }
    }};
}

/// Sets `errno`, as a C function that fails does.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the address of this thread's own.
    unsafe { *libc::__errno_location() = errno.0 };
}

pub(crate) fn pid() -> u32 {
    call!(SYS_getpid).unwrap_or(0) as u32
}

pub(crate) fn tid() -> u32 {
    call!(SYS_gettid).unwrap_or(0) as u32
}

/// Sleeps for about `span`, less where a signal comes.
pub(crate) fn sleep(span: Duration) {
    let time = libc::timespec { tv_sec: span.as_secs() as _, tv_nsec: span.subsec_nanos().into() };
    let _ = call!(SYS_nanosleep, &raw const time, 0);
}

/// What is known of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) changed: u64,
    pub(crate) is_file: bool,
}

pub(crate) fn stat(fd: c_int) -> Option<Stat> {
    let mut about = MaybeUninit::<libc::statx>::zeroed();
    let mask = libc::STATX_BASIC_STATS;
    call!(SYS_statx, fd, c"".as_ptr(), libc::AT_EMPTY_PATH, mask, about.as_mut_ptr()).ok()?;
    // SAFETY: zeroes are a value, and the kernel has filled it.
    let about = unsafe { about.assume_init() };
    let nanos = u64::from(about.stx_mtime.tv_nsec);
    Some(Stat {
        device: (u64::from(about.stx_dev_major) << 32) | u64::from(about.stx_dev_minor),
        inode: about.stx_ino,
        size: about.stx_size,
        changed: (about.stx_mtime.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(nanos),
        is_file: u32::from(about.stx_mode) & libc::S_IFMT == libc::S_IFREG,
    })
}

/// Whether a file is open for reading alone.
pub(crate) fn reads_only(fd: c_int) -> bool {
    call!(SYS_fcntl, fd, libc::F_GETFL).is_ok_and(|flags| is_read_only(flags as c_int))
}

/// Whether these flags of `open` are for reading contents and nothing else.
pub(crate) const fn is_read_only(flags: c_int) -> bool {
    flags & libc::O_ACCMODE == libc::O_RDONLY && flags & (libc::O_PATH | libc::O_TRUNC) == 0
}

pub(crate) fn open_at(at: c_int, path: &CStr, flags: c_int) -> Result<c_int, Errno> {
    call!(SYS_openat, at, path.as_ptr(), flags | libc::O_CLOEXEC, 0).map(|fd| fd as c_int)
}

pub(crate) fn close(fd: c_int) {
    let _ = call!(SYS_close, fd);
}

/// Another descriptor of the same file, out of the way of those that a program counts on.
pub(crate) fn raised(fd: c_int) -> Option<c_int> {
    let high = call!(SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, 900);
    high.or_else(|_| call!(SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, 100)).ok().map(|fd| fd as c_int)
}

pub(crate) fn pread(fd: c_int, into: &mut [u8], offset: u64) -> usize {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match call!(SYS_pread64, fd, rest.as_mut_ptr(), rest.len(), offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(Errno(libc::EINTR)) => {}
            Err(_) => break,
        }
    }
    done
}

pub(crate) fn pwrite(fd: c_int, from: &[u8], offset: u64) -> bool {
    call!(SYS_pwrite64, fd, from.as_ptr(), from.len(), offset) == Ok(from.len())
}

pub(crate) fn seek(fd: c_int, offset: i64, whence: c_int) -> Result<u64, Errno> {
    call!(SYS_lseek, fd, offset, whence).map(|at| at as u64)
}

pub(crate) fn read_link<'b>(path: &CStr, into: &'b mut [u8]) -> Option<&'b [u8]> {
    let n = call!(SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), into.as_mut_ptr(), into.len()).ok()?;
    into.get(..n)
}

/// The path of an open file, as the kernel knows it.
pub(crate) fn path_of(fd: c_int, into: &mut [u8]) -> Option<&[u8]> {
    let mut name = *b"/proc/self/fd/0000000000\0";
    let mut rest = u32::try_from(fd).ok()?;
    for digit in name.iter_mut().rev().skip(1).take(10) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The kernel knows no leading zeroes: the digits move to the front.
    let begin = b"/proc/self/fd/".len();
    let zeroes = name.iter().skip(begin).take(9).take_while(|byte| **byte == b'0').count();
    name.copy_within(begin + zeroes.., begin);
    read_link(CStr::from_bytes_until_nul(&name).ok()?, into)
}

pub(crate) unsafe fn mmap(
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: u64,
) -> Result<usize, Errno> {
    call!(SYS_mmap, address, length, protection, flags, fd, offset)
}

pub(crate) unsafe fn mremap(
    address: usize,
    old: usize,
    new: usize,
    flags: c_int,
    to: usize,
) -> Result<usize, Errno> {
    call!(SYS_mremap, address, old, new, flags, to)
}

/// The size of a page.
pub(crate) fn page() -> usize {
    // SAFETY: a number that the kernel gave the process when it began.
    unsafe { libc::getauxval(libc::AT_PAGESZ) as usize }.max(4096)
}

/// Leaves the old pages mapped, as if fresh (Linux 5.13, for files).
pub(crate) const MREMAP_DONTUNMAP: c_int = 4;

/// This process's own memory, as a file.
pub(crate) fn own_memory() -> Result<c_int, Errno> {
    open_at(libc::AT_FDCWD, c"/proc/self/mem", libc::O_RDWR)
}

pub(crate) fn name_thread(name: &CStr) {
    let _ = call!(SYS_prctl, libc::PR_SET_NAME, name.as_ptr());
}

/// A file of memory, empty.
pub(crate) fn empty_file() -> Result<c_int, Errno> {
    call!(SYS_memfd_create, c"brownout".as_ptr(), libc::MFD_CLOEXEC).map(|fd| fd as c_int)
}

/// Lets no signal reach this thread; gives what it let through before.
pub(crate) fn block_signals() -> u64 {
    let (all, mut before) = (u64::MAX, 0_u64);
    let _ = call!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, 8);
    before
}

/// Undoes [`block_signals`].
pub(crate) fn restore_signals(before: u64) {
    let _ = call!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
}
