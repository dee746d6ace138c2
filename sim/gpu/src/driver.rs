//! The CUDA driver: `libcuda.so.1`.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use crate::error::{Error, Outcome, code};
use crate::root::root;
use crate::submit::On;
use crate::{memory, put};

/// The version that driver and runtime claim: 12.9.
pub(crate) const VERSION: c_int = 12090;

const NAME: &[u8] = b"Brownout stand-in GPU\0";

/// Device attributes by the numbers of `CUdevice_attribute`, as a middling device of compute capability 9.0 would have them.
pub(crate) fn attribute(number: c_int) -> c_int {
    match number {
        1 => 1024,               // threads per block
        2 | 3 => 1024,           // block, x and y
        4 => 64,                 // block, z
        5 => i32::MAX,           // grid, x
        6 | 7 => 65535,          // grid, y and z
        8 | 81 => 48 << 10,      // shared memory per block and per multiprocessor
        9 => 64 << 10,           // constant memory
        10 => 32,                // warp
        12 | 82 => 65536,        // registers per block and per multiprocessor
        13 => 1_980_000,         // kHz
        14 => 512,               // texture alignment
        15 | 31 | 41 => 1,       // overlap, concurrent kernels, unified addressing
        16 => 132,               // multiprocessors
        36 => 2_619_000,         // memory, kHz
        37 => 5120,              // memory bus, bits
        38 => 50 << 20,          // second-level cache
        39 => 2048,              // threads per multiprocessor
        40 => 3,                 // copy engines
        75 => 9,                 // compute capability, major
        92 | 93 | 94 | 122 => 1, // stream memory operations, since 12 and before
        97 => 227 << 10,         // shared memory per block, by choice
        102 | 115 => 1,          // virtual memory management, memory pools
        _ => 0,
    }
}

/// Bytes to write at an address, once the device is there.
fn fill(address: u64, value: u8, size: usize) -> Outcome {
    let on = On::driver()?;
    on.fill_later(address, value, size, std::ptr::null_mut())?;
    on.root.wait_for_device(on.device, true);
    Ok(())
}

/// A device by its number, without a context.
fn known(device: c_int) -> Outcome<usize> {
    let root = root()?;
    root.initialised()?;
    root.device(device)
}

/// A kernel of no size, or of no function, is refused.
fn launch(function: *mut c_void, stream: *mut c_void) -> Outcome {
    if function.is_null() {
        return Err(Error::INVALID_HANDLE);
    }
    On::driver()?.launch(stream)
}

/// The beginning of `CUlaunchConfig`: grid, block, shared memory, stream.
#[repr(C)]
struct LaunchConfig {
    sizes: [c_uint; 6],
    shared: c_uint,
    stream: *mut c_void,
}

/// Gives an allocation to the caller, or back, where there is no place to write it to.
fn allocated(on: On, out: *mut u64, size: usize) -> Outcome {
    if size == 0 || out.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    put(out, memory::allocate(on.state, on.device, size as u64)?)
}

exports! { code => SYMBOLS;
    fn cuInit(flags: c_uint) {
        if flags == 0 { root()?.initialise() } else { Err(Error::INVALID_VALUE) }
    }

    fn cuDriverGetVersion(out: *mut c_int) {
        put(out, VERSION)
    }

    fn cuDeviceGetCount(out: *mut c_int) {
        let root = root()?;
        root.initialised()?;
        put(out, root.state()?.devices() as c_int)
    }

    fn cuDeviceGet(out: *mut c_int, ordinal: c_int) {
        known(ordinal)?;
        put(out, ordinal)
    }

    fn cuDeviceGetName(out: *mut c_char, length: c_int, device: c_int) {
        known(device)?;
        write_text(out, length, NAME)
    }

    fn cuDeviceTotalMem_v2(out: *mut usize, device: c_int) {
        known(device)?;
        put(out, root()?.state()?.memory() as usize)
    }

    fn cuDeviceGetAttribute(out: *mut c_int, number: c_int, device: c_int) {
        known(device)?;
        put(out, attribute(number))
    }

    fn cuCtxCreate_v2(out: *mut *mut c_void, _flags: c_uint, device: c_int) {
        let device = known(device)?;
        let root = root()?;
        let context = root.create_context(device);
        root.set_current(context);
        put(out, context)
    }

    fn cuCtxDestroy_v2(context: *mut c_void) {
        let root = root()?;
        root.destroy_context(context)?;
        if root.current() == context {
            root.set_current(std::ptr::null_mut());
        }
        Ok(())
    }

    fn cuCtxSetCurrent(context: *mut c_void) {
        let root = root()?;
        root.initialised()?;
        if !context.is_null() {
            root.device_of(context)?;
        }
        root.set_current(context);
        Ok(())
    }

    fn cuCtxGetCurrent(out: *mut *mut c_void) {
        let root = root()?;
        root.initialised()?;
        put(out, root.current())
    }

    fn cuCtxGetDevice(out: *mut c_int) {
        put(out, On::driver()?.device as c_int)
    }

    fn cuCtxSynchronize() {
        let on = On::driver()?;
        on.root.wait_for_device(on.device, false);
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(out: *mut *mut c_void, device: c_int) {
        let context = root()?.primary(known(device)?);
        context.retained.fetch_add(1, Ordering::Relaxed);
        put(out, context.handle())
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let retained = &root()?.primary(known(device)?).retained;
        let release = |count: u32| count.checked_sub(1);
        let released = retained.fetch_update(Ordering::Relaxed, Ordering::Relaxed, release);
        released.map(|_| ()).map_err(|_| Error::INVALID_CONTEXT)
    }

    fn cuDevicePrimaryCtxRelease(device: c_int) {
        code_to_outcome(cuDevicePrimaryCtxRelease_v2(device))
    }

    fn cuMemAlloc_v2(out: *mut u64, size: usize) {
        allocated(On::driver()?, out, size)
    }

    fn cuMemAllocAsync(out: *mut u64, size: usize, stream: *mut c_void) {
        let on = On::driver()?;
        on.stream(stream)?;
        allocated(on, out, size)
    }

    fn cuMemFree_v2(address: u64) {
        let on = On::driver()?;
        if address == 0 { Ok(()) } else { on.free(address) }
    }

    fn cuMemFreeAsync(address: u64, stream: *mut c_void) {
        let on = On::driver()?;
        if address == 0 { Err(Error::INVALID_VALUE) } else { on.free_later(address, stream) }
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let on = On::driver()?;
        let (left, all) = memory::info(on.state, on.device);
        put(free, left as usize)?;
        put(total, all as usize)
    }

    fn cuMemHostAlloc(out: *mut *mut c_void, size: usize, _flags: c_uint) {
        On::driver()?;
        put(out, host_memory(size)?)
    }

    fn cuMemFreeHost(address: *mut c_void) {
        On::driver()?;
        // SAFETY: the caller gives back what `cuMemHostAlloc` gave.
        unsafe { libc::free(address) };
        Ok(())
    }

    /// Host and device share one address space.
    fn cuMemHostGetDevicePointer_v2(out: *mut u64, address: *mut c_void, _flags: c_uint) {
        On::driver()?;
        put(out, address as u64)
    }

    fn cuMemHostRegister_v2(address: *mut c_void, _size: usize, _flags: c_uint) {
        On::driver()?;
        if address.is_null() { Err(Error::INVALID_VALUE) } else { Ok(()) }
    }

    fn cuMemHostUnregister(_address: *mut c_void) {
        On::driver().map(|_| ())
    }

    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, size: usize) {
        On::driver()?.copy(to, from as u64, size)
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, size: usize) {
        On::driver()?.copy(to as u64, from, size)
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, size: usize) {
        On::driver()?.copy(to, from, size)
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, size: usize, stream: *mut c_void) {
        On::driver()?.upload_later(to, from as u64, size, stream)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, size: usize, stream: *mut c_void) {
        On::driver()?.copy_later(to as u64, from, size, stream)
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: *mut c_void) {
        On::driver()?.copy_later(to, from, size, stream)
    }

    fn cuMemsetD8_v2(address: u64, value: u8, size: usize) {
        fill(address, value, size)
    }

    fn cuStreamCreate(out: *mut *mut c_void, flags: c_uint) {
        let on = On::driver()?;
        put(out, on.root.create_stream(on.device, flags & 1 == 0))
    }

    fn cuStreamDestroy_v2(stream: *mut c_void) {
        On::driver()?.root.destroy_stream(stream)
    }

    fn cuStreamSynchronize(stream: *mut c_void) {
        On::driver()?.stream(stream)?.wait();
        Ok(())
    }

    fn cuStreamQuery(stream: *mut c_void) {
        if On::driver()?.stream(stream)?.idle() { Ok(()) } else { Err(Error::NOT_READY) }
    }

    fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) {
        let on = On::driver()?;
        let event = on.root.event(event)?;
        on.hold_up(stream, move || event.reached())
    }

    fn cuStreamWaitValue32_v2(stream: *mut c_void, address: u64, value: u32, flags: c_uint) {
        On::driver()?.wait_value(stream, address, value, flags)
    }

    fn cuStreamWriteValue32_v2(stream: *mut c_void, address: u64, value: u32, _flags: c_uint) {
        On::driver()?.write_value(stream, address, value)
    }

    /// Nothing is ever captured here.
    fn cuStreamIsCapturing(stream: *mut c_void, out: *mut c_int) {
        On::driver()?.stream(stream)?;
        put(out, 0)
    }

    fn cuEventCreate(out: *mut *mut c_void, _flags: c_uint) {
        put(out, On::driver()?.root.create_event())
    }

    fn cuEventRecord(event: *mut c_void, stream: *mut c_void) {
        let on = On::driver()?;
        on.root.event(event)?.record(on.root, &on.stream(stream)?);
        Ok(())
    }

    fn cuEventSynchronize(event: *mut c_void) {
        On::driver()?.wait_event(event)
    }

    fn cuEventQuery(event: *mut c_void) {
        if On::driver()?.reached(event)? { Ok(()) } else { Err(Error::NOT_READY) }
    }

    fn cuEventElapsedTime(out: *mut f32, from: *mut c_void, to: *mut c_void) {
        let root = On::driver()?.root;
        put(out, root.event(from)?.until(&*root.event(to)?)?)
    }

    fn cuEventDestroy_v2(event: *mut c_void) {
        On::driver()?.root.destroy_event(event)
    }

    fn cuLaunchKernel(
        function: *mut c_void,
        _grid_x: c_uint,
        _grid_y: c_uint,
        _grid_z: c_uint,
        _block_x: c_uint,
        _block_y: c_uint,
        _block_z: c_uint,
        _shared: c_uint,
        stream: *mut c_void,
        _parameters: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) {
        launch(function, stream)
    }

    fn cuLaunchKernelEx(
        config: *const c_void,
        function: *mut c_void,
        _parameters: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) {
        if config.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the caller's structure, of which we know the beginning.
        let config = unsafe { config.cast::<LaunchConfig>().read_unaligned() };
        if config.sizes.contains(&0) {
            return Err(Error::INVALID_VALUE);
        }
        launch(function, config.stream)
    }

    fn cuGraphLaunch(graph: *mut c_void, stream: *mut c_void) {
        launch(graph, stream)
    }
}

/// For an export that is another one by an older name.
fn code_to_outcome(number: c_int) -> Outcome {
    if number == 0 { Ok(()) } else { Err(Error(number)) }
}

/// Memory of the host, aligned as pinned memory is.
pub(crate) fn host_memory(size: usize) -> Outcome<*mut c_void> {
    let mut address = std::ptr::null_mut();
    // SAFETY: a place to write to; a page is an alignment that is allowed.
    match unsafe { libc::posix_memalign(&mut address, 4096, size) } {
        0 => Ok(address),
        _ => Err(Error::OUT_OF_MEMORY),
    }
}

/// Writes text that ends in 0, as much as there is room for.
pub(crate) fn write_text(out: *mut c_char, length: c_int, text: &[u8]) -> Outcome {
    let room = usize::try_from(length).ok().and_then(|length| length.checked_sub(1));
    let Some(room) = room.filter(|_| !out.is_null()) else { return Err(Error::INVALID_VALUE) };
    let shown = text.strip_suffix(b"\0").unwrap_or(text);
    let shown = &shown[..shown.len().min(room)];
    // SAFETY: the caller has room for `length` characters.
    unsafe {
        std::ptr::copy_nonoverlapping(shown.as_ptr(), out.cast(), shown.len());
        out.add(shown.len()).write(0);
    }
    Ok(())
}

/// The device's name.
pub(crate) fn name() -> &'static [u8] {
    NAME
}
