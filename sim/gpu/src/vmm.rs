//! Memory and addresses apart: physical memory that is mapped into reserved ranges, as PyTorch's expandable segments and sleeping
//! servers do.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::sync::atomic::Ordering;

use crate::error::{Error, Outcome, code};
use crate::memory::{self, Kind};
use crate::put;
use crate::root::{Root, root};
use crate::state::{Locked, State};

/// What mappings and sizes are multiples of, as on real devices.
const GRANULARITY: u64 = 2 << 20;

/// `CUmemLocation`: a kind (1 for a device) and a number.
#[repr(C)]
#[derive(Clone, Copy)]
struct Location {
    kind: c_int,
    number: c_int,
}

/// The beginning of `CUmemAllocationProp`.
#[repr(C)]
struct Properties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
}

fn initialised() -> Outcome<(&'static Root, &'static State)> {
    let root = root()?;
    root.initialised()?;
    Ok((root, root.state()?))
}

fn whole(size: u64) -> Outcome<u64> {
    if size != 0 && size.is_multiple_of(GRANULARITY) { Ok(size) } else { Err(Error::INVALID_VALUE) }
}

/// Marks physical memory whose handle was released, and which lives on while it is mapped.
const RELEASED: u64 = 1;

/// Physical memory whose handle is still held.
fn held(locked: &Locked<'_>, handle: u64) -> Outcome<usize> {
    let table = &locked.state.table;
    table
        .find(locked.own_slot()?, Kind::Physical, handle)
        .filter(|place| table.entry(*place).of.load(Ordering::Relaxed) != RELEASED)
        .ok_or(Error::INVALID_VALUE)
}

/// One use less; the last one gives the memory back.
fn let_go(locked: &Locked<'_>, place: usize, handle: u64) {
    let entry = locked.state.table.entry(place);
    if entry.uses.fetch_sub(1, Ordering::Relaxed) == 1 {
        memory::unmap(handle, entry.size.load(Ordering::Relaxed));
        locked.strike(place);
    }
}

/// A range without memory behind it.
fn hollow(address: u64, size: u64) -> Outcome {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: replaces what we ourselves mapped there.
    let at = unsafe { libc::mmap(address as *mut c_void, size as usize, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(Error::OPERATING_SYSTEM) } else { Ok(()) }
}

exports! { code => SYMBOLS;
    fn cuMemGetAllocationGranularity(out: *mut usize, _properties: *const c_void, _option: c_int) {
        put(out, GRANULARITY as usize)
    }

    fn cuMemCreate(out: *mut c_ulonglong, size: usize, properties: *const c_void, _flags: c_ulonglong) {
        let (root, state) = initialised()?;
        if properties.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the caller's structure, of which we know the beginning.
        let device = root.device(unsafe { properties.cast::<Properties>().read_unaligned() }.location.number)?;
        let size = whole(size as u64)?;
        let locked = state.locked();
        locked.check_room(device, size)?;
        // Shared, so that it can be shown at several places.
        let handle = memory::map(size, libc::PROT_NONE, libc::MAP_SHARED)?;
        locked
            .enter(Kind::Physical, handle, device, size, 0)
            .inspect_err(|_| memory::unmap(handle, size))?;
        put(out, handle)
    }

    fn cuMemRelease(handle: c_ulonglong) {
        let (_, state) = initialised()?;
        let locked = state.locked();
        let place = held(&locked, handle)?;
        state.table.entry(place).of.store(RELEASED, Ordering::Relaxed);
        let_go(&locked, place, handle);
        Ok(())
    }

    fn cuMemAddressReserve(
        out: *mut u64,
        size: usize,
        _alignment: usize,
        _wish: u64,
        _flags: c_ulonglong,
    ) {
        initialised()?;
        put(out, memory::map(whole(size as u64)?, libc::PROT_NONE, libc::MAP_PRIVATE)?)
    }

    fn cuMemAddressFree(address: u64, size: usize) {
        initialised()?;
        memory::unmap(address, whole(size as u64)?);
        Ok(())
    }

    fn cuMemMap(address: u64, size: usize, offset: usize, handle: c_ulonglong, _flags: c_ulonglong) {
        let (_, state) = initialised()?;
        let size = whole(size as u64)?;
        let locked = state.locked();
        let owner = locked.own_slot()?;
        let place = held(&locked, handle)?;
        let entry = state.table.entry(place);
        let end = (offset as u64).checked_add(size).ok_or(Error::INVALID_VALUE)?;
        if end > entry.size.load(Ordering::Relaxed) {
            return Err(Error::INVALID_VALUE);
        }
        let device = entry.device.load(Ordering::Relaxed) as usize;
        locked.enter(Kind::Mapping, address, device, size, handle)?;
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: an old size of 0 on shared memory shows it at a second place, in a range that the caller has reserved.
        let shown = unsafe {
            let memory = (handle + offset as u64) as *mut c_void;
            libc::mremap(memory, 0, size as usize, how, address as *mut c_void)
        };
        if shown == libc::MAP_FAILED {
            if let Some(mapping) = state.table.find(owner, Kind::Mapping, address) {
                locked.strike(mapping);
            }
            return Err(Error::INVALID_VALUE);
        }
        entry.uses.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Unmaps all mappings of which the range is made.
    fn cuMemUnmap(address: u64, size: usize) {
        let (_, state) = initialised()?;
        let locked = state.locked();
        let owner = locked.own_slot()?;
        let end = address.checked_add(whole(size as u64)?).ok_or(Error::INVALID_VALUE)?;
        let mut at = address;
        while at < end {
            let place = state.table.find(owner, Kind::Mapping, at).ok_or(Error::INVALID_VALUE)?;
            let mapping = state.table.entry(place);
            let (size, handle) = (mapping.size.load(Ordering::Relaxed), mapping.of.load(Ordering::Relaxed));
            hollow(at, size)?;
            locked.strike(place);
            if let Some(physical) = state.table.find(owner, Kind::Physical, handle) {
                let_go(&locked, physical, handle);
            }
            at += size;
        }
        Ok(())
    }

    /// Whatever is asked for: memory that was mapped can now be read and written.
    fn cuMemSetAccess(address: u64, size: usize, descriptors: *const c_void, _count: usize) {
        initialised()?;
        if descriptors.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a range that the caller has mapped; the kernel refuses what is no mapping at all.
        let done = unsafe { libc::mprotect(address as *mut c_void, whole(size as u64)? as usize, access) };
        if done == 0 { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }
}
