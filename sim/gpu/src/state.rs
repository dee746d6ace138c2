//! The state of the devices: one mapping of fixed layout, shared by all processes that name the same file.
//!
//! Processes may be killed at any moment. So the lock says who holds it and is taken from the dead, every entry becomes valid by one
//! store, and sums are counted again from the entries where a holder died.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::collective::Communicator;
use crate::error::{Error, Outcome};
use crate::memory::Table;
use crate::process::{self, Identity};
use crate::settings::Settings;
use crate::stream::Rest;

const MAGIC: u64 = u64::from_le_bytes(*b"brownGPU");
/// Layout version above, size below: another build's file is not touched.
const LAYOUT: u64 = (1 << 48) | size_of::<State>() as u64;

/// How many devices there may be.
pub(crate) const DEVICES: usize = 16;
const PROCESSES: usize = 256;
const COMMUNICATORS: usize = 16;

/// All that is shared. Only atomics and bytes, all valid when zero.
#[repr(C)]
pub(crate) struct State {
    magic: AtomicU64,
    layout: AtomicU64,
    /// Who holds the lock; 0 for nobody.
    lock: AtomicU64,
    devices: AtomicU64,
    memory: AtomicU64,
    pub(crate) device: [Device; DEVICES],
    /// Who has something here; 0 for a free slot.
    processes: [AtomicU64; PROCESSES],
    pub(crate) table: Table,
    pub(crate) communicators: [Communicator; COMMUNICATORS],
}

/// One device.
#[repr(C)]
pub(crate) struct Device {
    /// Bytes taken.
    pub(crate) used: AtomicU64,
    /// Kernels and graphs that have run.
    pub(crate) launched: AtomicU64,
    /// Until when (nanoseconds of the monotonic clock) some stream has work.
    pub(crate) busy_until: AtomicU64,
}

impl State {
    /// Maps the state that the settings name.
    pub(crate) fn open(settings: &Settings) -> Outcome<&'static Self> {
        let file = match &settings.state {
            Some(path) => shared_file(path)?,
            None => memory_file(c"brownout-gpu-state")?,
        };
        let descriptor = file.as_raw_fd();
        let _alone = FileLock::new(&file)?;
        // SAFETY: plain calls on a descriptor that we own.
        unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            if libc::fstat(descriptor, &mut status) != 0 {
                return Err(Error::OPERATING_SYSTEM);
            }
            let size = size_of::<Self>() as libc::off_t;
            if status.st_size == 0 && libc::ftruncate(descriptor, size) != 0 {
                return Err(Error::OPERATING_SYSTEM);
            }
            if status.st_size != 0 && status.st_size != size {
                return Err(Error::DRIVER_MISMATCH);
            }
        }
        // SAFETY: the file is as large as the structure, page-aligned, and any bytes are a valid `State`; it is never unmapped.
        let state: &'static Self = unsafe {
            let address = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Self>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                descriptor,
                0,
            );
            if address == libc::MAP_FAILED {
                return Err(Error::OPERATING_SYSTEM);
            }
            &*address.cast()
        };
        state.prepare(settings)?;
        Ok(state)
    }

    /// First come, first set: later processes take the settings that they find, unless everybody before them is gone.
    fn prepare(&self, settings: &Settings) -> Outcome {
        match (self.magic.load(Ordering::Acquire), self.layout.load(Ordering::Relaxed)) {
            (0, _) => {
                self.layout.store(LAYOUT, Ordering::Relaxed);
                self.devices.store(settings.devices().min(DEVICES as u64), Ordering::Relaxed);
                self.memory.store(settings.memory(), Ordering::Relaxed);
                self.magic.store(MAGIC, Ordering::Release);
            }
            (MAGIC, LAYOUT) => {
                let locked = self.locked();
                locked.reap();
                if self.processes.iter().all(|slot| slot.load(Ordering::Relaxed) == 0) {
                    let take = |from: Option<u64>, to: &AtomicU64| {
                        from.into_iter().for_each(|value| to.store(value, Ordering::Relaxed));
                    };
                    take(settings.devices.map(|count| count.min(DEVICES as u64)), &self.devices);
                    take(settings.memory, &self.memory);
                }
            }
            _ => return Err(Error::DRIVER_MISMATCH),
        }
        Ok(())
    }

    /// How many devices there are.
    pub(crate) fn devices(&self) -> usize {
        (self.devices.load(Ordering::Relaxed) as usize).min(DEVICES)
    }

    /// How many bytes each device holds.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Takes the lock, from a dead holder if need be.
    pub(crate) fn locked(&self) -> Locked<'_> {
        let own = process::own();
        let mut rest = Rest::default();
        let take = |from: Identity| {
            self.lock.compare_exchange(from, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        loop {
            if take(0) {
                return Locked { state: self, own };
            }
            if rest.rest() {
                let holder = self.lock.load(Ordering::Relaxed);
                if holder != 0 && !process::alive(holder) && take(holder) {
                    self.table.count_again(&self.device);
                    return Locked { state: self, own };
                }
            }
        }
    }
}

/// The state, while this thread holds the lock.
pub(crate) struct Locked<'a> {
    pub(crate) state: &'a State,
    own: Identity,
}

impl Locked<'_> {
    /// The number under which this process holds things.
    pub(crate) fn own_slot(&self) -> Outcome<u32> {
        let find = |wanted: Identity| {
            let slots = &self.state.processes;
            slots.iter().position(|slot| slot.load(Ordering::Relaxed) == wanted)
        };
        if let Some(slot) = find(self.own) {
            return Ok(slot as u32);
        }
        if find(0).is_none() {
            self.reap();
        }
        let slot = find(0).ok_or(Error::OPERATING_SYSTEM)?;
        self.state.processes[slot].store(self.own, Ordering::Release);
        Ok(slot as u32)
    }

    /// Gives back what the dead held.
    pub(crate) fn reap(&self) {
        for (slot, process) in self.state.processes.iter().enumerate() {
            let identity = process.load(Ordering::Relaxed);
            if identity != 0 && !process::alive(identity) {
                self.state.table.forget(slot as u32);
                self.state.table.count_again(&self.state.device);
                // Last: whoever takes over from us in the middle finds the slot and begins anew.
                process.store(0, Ordering::Release);
            }
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.state.lock.store(0, Ordering::Release);
    }
}

/// Keeps others from a file until dropped, or until we die. To close the file is not enough: a mapping keeps it open.
struct FileLock<'a>(&'a OwnedFd);

impl<'a> FileLock<'a> {
    fn new(file: &'a OwnedFd) -> Outcome<Self> {
        // SAFETY: a plain call on an open file.
        while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
            if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                return Err(Error::OPERATING_SYSTEM);
            }
        }
        Ok(Self(file))
    }
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

fn shared_file(path: &OsStr) -> Outcome<OwnedFd> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map(OwnedFd::from).map_err(|_| Error::OPERATING_SYSTEM)
}

/// A file without a place, to map.
pub(crate) fn memory_file(name: &std::ffi::CStr) -> Outcome<OwnedFd> {
    // SAFETY: the name is a C string, and the descriptor that comes back belongs to nobody else.
    unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 { Err(Error::OPERATING_SYSTEM) } else { Ok(OwnedFd::from_raw_fd(descriptor)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{allocate, info};

    #[test]
    fn the_lock_of_a_dead_process_is_taken_and_what_it_was_counting_is_counted_again() {
        let state = State::open(&Settings::default()).expect("a state of our own");
        allocate(state, 0, 4096).expect("room");
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        child.wait().expect("it ends");
        state.device[0].used.store(12345, Ordering::Relaxed);
        state.lock.store(u64::from(child.id()) << 32 | 1, Ordering::Relaxed);
        let (free, total) = info(state, 0);
        assert_eq!(total - free, 4096);
        assert_eq!(state.lock.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn another_process_with_the_same_number_is_another() {
        let own = process::own();
        assert!(process::alive(own));
        let parent = u64::from(std::os::unix::process::parent_id());
        assert!(!process::alive(parent << 32), "the parent did not start with the machine");
        assert!(!process::alive(own ^ 1), "that one started at another time");
    }
}
