//! A thread that follows the clock for what no call would: mappings change when a window opens, and are healed when it
//! shuts or the lease is lost.
//!
//! It is the kernel's thread alone: the C library does not know it, so starting it allocates nothing and is possible in
//! the child of a fork. It makes system calls only, and touches nothing that is a thread's own.

use crate::file::maps;
use crate::{control, sys};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use core::time::Duration;

/// How often it looks: a fault outlives its end by so much at most.
const EVERY: Duration = Duration::from_millis(10);

/// Where nothing is left to look after.
const RARELY: Duration = Duration::from_millis(100);

const STACK: usize = 256 << 10;

#[repr(align(64))]
struct Stack(UnsafeCell<[u8; STACK]>);

// SAFETY: used by the one thread alone.
unsafe impl Sync for Stack {}

static THREADS_STACK: Stack = Stack(UnsafeCell::new([0; STACK]));

/// The process in which the thread runs.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);

/// Starts the thread, if it does not run yet.
pub(crate) fn start() {
    let (own, before) = (sys::pid(), RUNS_IN.load(Acquire));
    if before == own || RUNS_IN.compare_exchange(before, own, AcqRel, Acquire).is_err() {
        return;
    }
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // A signal is the program's, never this thread's to handle; it keeps what it is born with.
    let signals = sys::block_signals();
    // SAFETY: a stack of its own, of which clone takes the end.
    let thread =
        unsafe { libc::clone(follow, THREADS_STACK.0.get().add(1).cast(), flags, core::ptr::null_mut()) };
    sys::restore_signals(signals);
    if thread < 0 {
        RUNS_IN.store(0, Release);
    }
}

extern "C" fn follow(_: *mut c_void) -> c_int {
    sys::name_thread(c"brownout");
    loop {
        sys::sleep(if maps::follow() { EVERY } else { RARELY });
    }
}

/// The child of a fork has the mappings of its parent, and not its threads.
pub(crate) fn survive_forks() {
    unsafe extern "C" fn in_parent() {
        maps::after_fork();
    }
    unsafe extern "C" fn in_child() {
        maps::after_fork();
        if control::has_left() {
            start();
        }
    }
    // SAFETY: functions that live as long as the process. Refused, only the children of forks are not healed.
    unsafe { libc::pthread_atfork(Some(maps::before_fork), Some(in_parent), Some(in_child)) };
}
