//! The shim: preloaded into a process, it stands between the program and the libraries that it calls, and makes calls
//! fail, wait or lie where a control block says so.
//!
//! ```text
//! program ──read, mmap, open, ...──► hook ── nothing concerns it ──────────────► the real function
//!                                     └──── control block says: now, here ──► delay, error, other bytes; an event
//! ```
//!
//! A hook runs inside somebody else's call, perhaps in a signal handler, before `main`, or in the child of a fork. So
//! nothing here allocates, panics, logs or takes a lock that another could wait on for ever; system calls are made
//! directly, as the C library's functions would come back to our own hooks; `errno` is only ever set by a fault.
#![allow(unsafe_code, reason = "a library of C functions")]
#![cfg(all(target_os = "linux", target_env = "gnu"))]
// Without the standard library where panics abort, as in what is shipped: unwinding, as tests of a workspace do, needs it.
#![cfg_attr(panic = "abort", no_std)]

mod clock;
mod control;
mod file;
mod hooks;
mod once;
mod plan;
mod real;
mod sys;
mod watch;

/// Runs when the library is loaded; hooks may run before it, and find their way by themselves.
#[used]
#[unsafe(link_section = ".init_array")]
static ATTACH: extern "C" fn() = {
    extern "C" fn attach() {
        hooks::find_all();
        control::attach();
    }
    attach
};

/// Runs when the process ends in good order.
#[used]
#[unsafe(link_section = ".fini_array")]
static LEAVE: extern "C" fn() = {
    extern "C" fn leave() {
        file::tell_all();
    }
    leave
};

/// There is none: a test looks for what would lead here.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        sys::sleep(core::time::Duration::MAX);
    }
}
