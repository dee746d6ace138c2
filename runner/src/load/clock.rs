//! Time as precise as the machine gives it: a timer that does not round to milliseconds, and a thread's CPU time.

use std::io;
use std::time::{Duration, Instant};

/// CPU time that the calling thread has used.
pub(super) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A timer for one waiter. The runtime's own rounds up to whole milliseconds, as much as a fast server's gap between
/// tokens; Linux' timerfd is exact to some tens of microseconds and costs nothing while waiting.
#[cfg(target_os = "linux")]
pub(super) struct Timer(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>);

#[cfg(target_os = "linux")]
impl Timer {
    /// A timer on the current runtime.
    // Deprecated for descriptors that may be closed behind its back. This one is owned, and the successor is unsafe.
    #[allow(deprecated)]
    pub(super) fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self(tokio::io::unix::AsyncFd::with_interest(fd, tokio::io::Interest::READABLE)?))
    }

    /// Waits until `due`.
    pub(super) async fn until(&mut self, due: Instant) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let value = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(
                self.0.get_ref(),
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval: never, it_value: value },
            )?;
            let mut expirations = [0_u8; 8];
            // Readiness from an earlier, abandoned wait may be left over: the read then says so, and waiting goes on.
            while self
                .0
                .readable()
                .await?
                .try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut expirations)?))
                .is_err()
            {}
        }
    }
}

/// A timer for one waiter, by the runtime's own clock.
#[cfg(not(target_os = "linux"))]
pub(super) struct Timer(());

#[cfg(not(target_os = "linux"))]
impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(()))
    }

    pub(super) async fn until(&mut self, due: Instant) -> io::Result<()> {
        tokio::time::sleep_until(due.into()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_timer_is_never_early_and_survives_an_abandoned_wait() {
        let mut timer = Timer::new().expect("a timer");
        let soon = Instant::now() + Duration::from_micros(300);
        tokio::select! {
            biased;
            () = std::future::ready(()) => {}
            _ = timer.until(soon) => {}
        }
        let due = Instant::now() + Duration::from_micros(700);
        timer.until(due).await.expect("a wait");
        assert!(Instant::now() >= due);
        timer.until(due).await.expect("a time that is over is no wait");
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = thread_cpu();
        let mut n = 0_u64;
        while thread_cpu() == before {
            n = std::hint::black_box(n + 1);
        }
        assert!(thread_cpu() > before);
    }
}
