//! The clock of control blocks.

use core::mem::MaybeUninit;
use core::time::Duration;

/// Nanoseconds on the system's monotonic clock.
pub(crate) fn now() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the C library fills it, from the kernel's page and without a system call; zeroes are a value too.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Time between two readings.
pub(crate) const fn between(from: u64, to: u64) -> Duration {
    Duration::from_nanos(to.saturating_sub(from))
}
