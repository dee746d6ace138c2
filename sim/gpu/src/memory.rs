//! Device memory. A device only counts; what stands behind a pointer is the process's own memory, taken when touched.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::{Error, Outcome};
use crate::state::{Device, Locked, State};

const ALLOCATIONS: usize = 32768;
/// Sizes are counted in steps of this.
const GRAIN: u64 = 512;

/// All that all processes hold. A key is a process's own address, so that two may hold the same.
#[repr(C)]
pub(crate) struct Table {
    /// All used places are below this one.
    high: AtomicU64,
    /// No place below this one is free.
    full_below: AtomicU64,
    /// 0 for a free place. Apart from the rest, for these are searched.
    keys: [AtomicU64; ALLOCATIONS],
    entries: [Entry; ALLOCATIONS],
}

/// What a process holds.
#[repr(C)]
pub(crate) struct Entry {
    /// The process's slot.
    owner: AtomicU32,
    kind: AtomicU32,
    pub(crate) device: AtomicU32,
    /// By how many mappings memory is in use, its handle counted too.
    pub(crate) uses: AtomicU32,
    pub(crate) size: AtomicU64,
    /// For a mapping, the key of what it maps; for physical memory, whether its handle was released.
    pub(crate) of: AtomicU64,
}

/// What an entry stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Memory with an address.
    Memory = 1,
    /// Memory that is to be mapped.
    Physical = 2,
    /// An address range that shows physical memory, which counts, while this does not.
    Mapping = 3,
}

impl Table {
    /// Where a process holds something, with the lock held.
    pub(crate) fn find(&self, owner: u32, kind: Kind, key: u64) -> Option<usize> {
        let high = self.high.load(Ordering::Relaxed) as usize;
        (0..high).find(|place| {
            self.keys[*place].load(Ordering::Relaxed) == key
                && key != 0
                && self.entries[*place].owner.load(Ordering::Relaxed) == owner
                && self.entries[*place].kind.load(Ordering::Relaxed) == kind as u32
        })
    }

    pub(crate) fn entry(&self, place: usize) -> &Entry {
        &self.entries[place]
    }

    fn free_place(&self) -> Option<usize> {
        let from = self.full_below.load(Ordering::Relaxed) as usize;
        (from..ALLOCATIONS).find(|place| self.keys[*place].load(Ordering::Relaxed) == 0)
    }

    /// Drops all that a process held.
    pub(crate) fn forget(&self, owner: u32) {
        for (key, entry) in self.keys.iter().zip(&self.entries) {
            if key.load(Ordering::Relaxed) != 0 && entry.owner.load(Ordering::Relaxed) == owner {
                key.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Makes sums and hints true again after someone died.
    pub(crate) fn count_again(&self, devices: &[Device]) {
        let mut used = vec![0; devices.len()];
        let mut high = 0;
        for (place, (key, entry)) in self.keys.iter().zip(&self.entries).enumerate() {
            if key.load(Ordering::Relaxed) != 0 {
                high = place + 1;
                if entry.kind.load(Ordering::Relaxed) != Kind::Mapping as u32 {
                    let device = entry.device.load(Ordering::Relaxed) as usize;
                    used[device.min(devices.len() - 1)] += entry.size.load(Ordering::Relaxed);
                }
            }
        }
        devices.iter().zip(used).for_each(|(device, used)| device.used.store(used, Ordering::Relaxed));
        self.high.store(high as u64, Ordering::Relaxed);
        self.full_below.store(0, Ordering::Relaxed);
    }
}

impl Locked<'_> {
    /// Notes that this process holds something; only memory is counted.
    pub(crate) fn enter(&self, kind: Kind, key: u64, device: usize, size: u64, of: u64) -> Outcome {
        let owner = self.own_slot()?;
        let table = &self.state.table;
        let place = table.free_place().ok_or(Error::OUT_OF_MEMORY)?;
        let entry = &table.entries[place];
        entry.owner.store(owner, Ordering::Relaxed);
        entry.kind.store(kind as u32, Ordering::Relaxed);
        entry.device.store(device as u32, Ordering::Relaxed);
        entry.uses.store(1, Ordering::Relaxed);
        entry.size.store(size, Ordering::Relaxed);
        entry.of.store(of, Ordering::Relaxed);
        table.high.fetch_max(place as u64 + 1, Ordering::Relaxed);
        table.full_below.store(place as u64 + 1, Ordering::Relaxed);
        // From here on it counts, even if we die now.
        table.keys[place].store(key, Ordering::Release);
        if kind != Kind::Mapping {
            self.state.device[device].used.fetch_add(size, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Strikes an entry out.
    pub(crate) fn strike(&self, place: usize) {
        let table = &self.state.table;
        let entry = &table.entries[place];
        table.keys[place].store(0, Ordering::Release);
        table.full_below.fetch_min(place as u64, Ordering::Relaxed);
        if entry.kind.load(Ordering::Relaxed) != Kind::Mapping as u32 {
            let device = &self.state.device[entry.device.load(Ordering::Relaxed) as usize];
            device.used.fetch_sub(entry.size.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Whether so much is free; the dead give back first.
    pub(crate) fn check_room(&self, device: usize, size: u64) -> Outcome {
        let room =
            || self.state.memory().saturating_sub(self.state.device[device].used.load(Ordering::Relaxed));
        if size <= room() {
            return Ok(());
        }
        self.reap();
        if size <= room() { Ok(()) } else { Err(Error::OUT_OF_MEMORY) }
    }
}

/// What a size counts for.
pub(crate) fn counted(size: u64) -> Outcome<u64> {
    size.checked_next_multiple_of(GRAIN).ok_or(Error::OUT_OF_MEMORY)
}

/// Takes device memory.
pub(crate) fn allocate(state: &State, device: usize, size: u64) -> Outcome<u64> {
    let size = counted(size)?;
    let locked = state.locked();
    locked.check_room(device, size)?;
    let address = map(size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE)?;
    let entered = locked.enter(Kind::Memory, address, device, size, 0);
    if entered.is_err() {
        unmap(address, size);
    }
    entered.map(|()| address)
}

/// Gives device memory back.
pub(crate) fn free(state: &State, address: u64) -> Outcome {
    let locked = state.locked();
    let place = locked.state.table.find(locked.own_slot()?, Kind::Memory, address);
    let place = place.ok_or(Error::INVALID_VALUE)?;
    let size = state.table.entry(place).size.load(Ordering::Relaxed);
    locked.strike(place);
    unmap(address, size);
    Ok(())
}

/// Free and total bytes.
pub(crate) fn info(state: &State, device: usize) -> (u64, u64) {
    state.locked().reap();
    let total = state.memory();
    (total.saturating_sub(state.device[device].used.load(Ordering::Relaxed)), total)
}

/// New address space, with memory behind it once it is touched.
pub(crate) fn map(size: u64, access: i32, sharing: i32) -> Outcome<u64> {
    let flags = sharing | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let size = usize::try_from(size).map_err(|_| Error::OUT_OF_MEMORY)?;
    // SAFETY: a new mapping, at a place that is free.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(Error::OUT_OF_MEMORY) } else { Ok(address as u64) }
}

/// Gives address space back that `map` gave.
pub(crate) fn unmap(address: u64, size: u64) {
    // SAFETY: callers pass what they mapped, and know that nobody uses it any more.
    unsafe { libc::munmap(address as *mut c_void, size as usize) };
}
