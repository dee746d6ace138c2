//! What driver and runtime both ask of streams.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Outcome};
use crate::memory;
use crate::root::{Root, root};
use crate::state::State;
use crate::stream::{Rest, Stream};

/// A device as one call sees it.
#[derive(Clone, Copy)]
pub(crate) struct On {
    pub(crate) root: &'static Root,
    pub(crate) state: &'static State,
    pub(crate) device: usize,
}

impl On {
    /// The calling thread's device, by the driver's rules.
    pub(crate) fn driver() -> Outcome<Self> {
        let root = root()?;
        Ok(Self { root, device: root.driver_device()?, state: root.state()? })
    }

    /// The calling thread's device, by the runtime's rules.
    pub(crate) fn runtime() -> Outcome<Self> {
        let root = root()?;
        Ok(Self { root, device: root.runtime_device()?, state: root.state()? })
    }

    pub(crate) fn stream(&self, handle: *mut c_void) -> Outcome<Arc<Stream>> {
        self.root.stream(handle, self.device)
    }

    /// Frees memory once the device has done with it.
    pub(crate) fn free(&self, address: u64) -> Outcome {
        self.root.wait_for_device(self.device, false);
        memory::free(self.state, address)
    }

    /// Frees memory when the stream comes there. What is no memory is noticed by nobody, as the call has long returned.
    pub(crate) fn free_later(&self, address: u64, stream: *mut c_void) -> Outcome {
        let state = self.state;
        self.give(stream, move || {
            let _ = memory::free(state, address);
        })
    }

    /// Gives a stream something to do in its turn.
    pub(crate) fn give(&self, stream: *mut c_void, act: impl FnOnce() + Send + 'static) -> Outcome {
        let mut act = Some(act);
        let step = move |clock: &mut crate::stream::Clock| {
            if let Some(act) = act.take() {
                act();
            }
            clock.ended = Instant::now();
            true
        };
        self.stream(stream)?.give(self.root, Box::new(step));
        Ok(())
    }

    /// Gives a stream something to wait for.
    pub(crate) fn hold_up(&self, stream: *mut c_void, over: impl Fn() -> bool + Send + 'static) -> Outcome {
        let step = move |clock: &mut crate::stream::Clock| {
            let over = over();
            if over {
                clock.ended = Instant::now();
            }
            over
        };
        self.stream(stream)?.give(self.root, Box::new(step));
        Ok(())
    }

    /// A kernel, or a graph: keeps its stream busy for the set time from the end of the work before.
    pub(crate) fn launch(&self, stream: *mut c_void) -> Outcome {
        let (state, device, time) = (self.state, self.device, self.root.settings.kernel);
        let given = Instant::now();
        let step = move |clock: &mut crate::stream::Clock| {
            let end = clock.ended.max(given) + time;
            let left = end.saturating_duration_since(Instant::now());
            state.device[device].busy_until.fetch_max(monotonic() + nanoseconds(left), Ordering::Relaxed);
            if !left.is_zero() {
                return false;
            }
            clock.ended = end;
            state.device[device].launched.fetch_add(1, Ordering::Relaxed);
            true
        };
        self.stream(stream)?.give(self.root, Box::new(step));
        Ok(())
    }

    /// Copies once the device's blocking streams have done what they were given before.
    pub(crate) fn copy(&self, to: u64, from: u64, size: usize) -> Outcome {
        check(to, from, size)?;
        self.root.wait_for_device(self.device, true);
        Copy { to, from, size }.act();
        Ok(())
    }

    /// Copies in a stream's turn.
    pub(crate) fn copy_later(&self, to: u64, from: u64, size: usize, stream: *mut c_void) -> Outcome {
        check(to, from, size)?;
        let copy = Copy { to, from, size };
        self.give(stream, move || copy.act())
    }

    /// Copies from the host in a stream's turn. What the host then does with its memory does not matter.
    pub(crate) fn upload_later(&self, to: u64, from: u64, size: usize, stream: *mut c_void) -> Outcome {
        check(to, from, size)?;
        if self.stream(stream)?.idle() {
            return self.copy_later(to, from, size, stream);
        }
        // SAFETY: the caller's memory is as long as it says.
        let kept = unsafe { std::slice::from_raw_parts(from as *const u8, size) }.to_vec();
        self.give(stream, move || Copy { to, from: kept.as_ptr() as u64, size }.act())
    }

    /// Fills in a stream's turn.
    pub(crate) fn fill_later(&self, to: u64, value: u8, size: usize, stream: *mut c_void) -> Outcome {
        check(to, to, size)?;
        // SAFETY: the caller's device memory is as long as it says, and stays until the stream has come there.
        self.give(stream, move || unsafe { std::ptr::write_bytes(to as *mut u8, value, size) })
    }

    /// Whether an event lies in the past.
    pub(crate) fn reached(&self, event: *mut c_void) -> Outcome<bool> {
        Ok(self.root.event(event)?.reached())
    }

    pub(crate) fn wait_event(&self, event: *mut c_void) -> Outcome {
        let event = self.root.event(event)?;
        let mut rest = Rest::default();
        while !event.reached() {
            rest.rest();
        }
        Ok(())
    }

    /// `cuStreamWaitValue32`: by the low bits of `flags` waits until the value is at least, equal to, has a bit of, or with
    /// `value` leaves a bit unset.
    pub(crate) fn wait_value(&self, stream: *mut c_void, at: u64, value: u32, flags: u32) -> Outcome {
        let flag = word(at)?;
        let over: fn(u32, u32) -> bool = match flags & 3 {
            0 => |now, value| now.wrapping_sub(value) as i32 >= 0,
            1 => |now, value| now == value,
            2 => |now, value| now & value != 0,
            _ => |now, value| !(now | value) != 0,
        };
        self.hold_up(stream, move || over(flag.load(Ordering::Acquire), value))
    }

    /// `cuStreamWriteValue32`.
    pub(crate) fn write_value(&self, stream: *mut c_void, at: u64, value: u32) -> Outcome {
        let flag = word(at)?;
        self.give(stream, move || flag.store(value, Ordering::Release))
    }
}

struct Copy {
    to: u64,
    from: u64,
    size: usize,
}

impl Copy {
    fn act(&self) {
        // SAFETY: the caller of the C function named both ranges; they may overlap.
        unsafe { std::ptr::copy(self.from as *const u8, self.to as *mut u8, self.size) };
    }
}

fn check(to: u64, from: u64, size: usize) -> Outcome {
    if size != 0 && (to == 0 || from == 0) { Err(Error::INVALID_VALUE) } else { Ok(()) }
}

fn word(at: u64) -> Outcome<&'static AtomicU32> {
    if at == 0 || !at.is_multiple_of(4) {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: aligned memory of the caller, which it keeps until the stream has passed, as with a real device.
    Ok(unsafe { &*(at as *const AtomicU32) })
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Nanoseconds on the clock that all processes share.
pub(crate) fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a plain call with a place to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
