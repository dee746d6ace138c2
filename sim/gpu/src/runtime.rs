//! The CUDA runtime: `libcudart.so`.
//!
//! The real one is a client of the driver, whose functions it asks `cuGetProcAddress_v2` for.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};

use crate::driver::{VERSION, attribute, host_memory};
use crate::error::{Error, Outcome, code};
use crate::root::root;
use crate::submit::On;
use crate::{memory, put};

thread_local! {
    static LAST_ERROR: Cell<c_int> = const { Cell::new(0) };
    static CAPTURE_MODE: Cell<c_int> = const { Cell::new(0) };
}

/// The runtime remembers each thread's last error.
fn noted(outcome: Outcome) -> c_int {
    let code = code(outcome);
    if code != 0 {
        LAST_ERROR.set(code);
    }
    code
}

/// Nothing is given for nothing: no bytes, a null pointer, no error.
fn allocated(on: On, out: *mut *mut c_void, size: usize) -> Outcome {
    if out.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    if size == 0 {
        return put(out, std::ptr::null_mut());
    }
    put(out, memory::allocate(on.state, on.device, size as u64)? as *mut c_void)
}

fn allocated_in_turn(out: *mut *mut c_void, size: usize, stream: *mut c_void) -> Outcome {
    let on = On::runtime()?;
    on.stream(stream)?;
    allocated(on, out, size)
}

/// `cudaMemcpyKind`: from 0 (host to host) to 4 (found out by the addresses).
fn checked(kind: c_int) -> Outcome {
    if (0..=4).contains(&kind) { Ok(()) } else { Err(Error::INVALID_VALUE) }
}

const HOST_TO_DEVICE: c_int = 1;

/// `dim3`, which passes by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dimensions {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

impl Dimensions {
    fn hold_something(self) -> bool {
        self.x != 0 && self.y != 0 && self.z != 0
    }
}

exports! { noted;
    fn cudaRuntimeGetVersion(out: *mut c_int) {
        put(out, VERSION)
    }

    fn cudaDriverGetVersion(out: *mut c_int) {
        put(out, VERSION)
    }

    fn cudaGetDeviceCount(out: *mut c_int) {
        let root = root()?;
        root.initialise()?;
        put(out, root.state()?.devices() as c_int)
    }

    fn cudaSetDevice(device: c_int) {
        let root = root()?;
        root.initialise()?;
        root.set_current(root.primary(root.device(device)?).handle());
        Ok(())
    }

    fn cudaGetDevice(out: *mut c_int) {
        put(out, On::runtime()?.device as c_int)
    }

    fn cudaDeviceGetAttribute(out: *mut c_int, number: c_int, device: c_int) {
        On::runtime()?.root.device(device)?;
        put(out, attribute(number))
    }

    fn cudaDeviceSynchronize() {
        let on = On::runtime()?;
        on.root.wait_for_device(on.device, false);
        Ok(())
    }

    fn cudaMalloc(out: *mut *mut c_void, size: usize) {
        allocated(On::runtime()?, out, size)
    }

    fn cudaMallocAsync(out: *mut *mut c_void, size: usize, stream: *mut c_void) {
        allocated_in_turn(out, size, stream)
    }

    fn cudaMallocFromPoolAsync(
        out: *mut *mut c_void,
        size: usize,
        _pool: *mut c_void,
        stream: *mut c_void,
    ) {
        allocated_in_turn(out, size, stream)
    }

    fn cudaFree(address: *mut c_void) {
        let on = On::runtime()?;
        if address.is_null() { Ok(()) } else { on.free(address as u64) }
    }

    fn cudaFreeAsync(address: *mut c_void, stream: *mut c_void) {
        let on = On::runtime()?;
        if address.is_null() { Ok(()) } else { on.free_later(address as u64, stream) }
    }

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        let on = On::runtime()?;
        let (left, all) = memory::info(on.state, on.device);
        put(free, left as usize)?;
        put(total, all as usize)
    }

    fn cudaHostAlloc(out: *mut *mut c_void, size: usize, _flags: c_uint) {
        On::runtime()?;
        put(out, host_memory(size)?)
    }

    fn cudaMallocHost(out: *mut *mut c_void, size: usize) {
        On::runtime()?;
        put(out, host_memory(size)?)
    }

    fn cudaFreeHost(address: *mut c_void) {
        On::runtime()?;
        // SAFETY: the caller gives back what `cudaHostAlloc` gave.
        unsafe { libc::free(address) };
        Ok(())
    }

    fn cudaMemcpy(to: *mut c_void, from: *const c_void, size: usize, kind: c_int) {
        checked(kind)?;
        On::runtime()?.copy(to as u64, from as u64, size)
    }

    fn cudaMemcpyAsync(
        to: *mut c_void,
        from: *const c_void,
        size: usize,
        kind: c_int,
        stream: *mut c_void,
    ) {
        checked(kind)?;
        let on = On::runtime()?;
        if kind == HOST_TO_DEVICE {
            on.upload_later(to as u64, from as u64, size, stream)
        } else {
            on.copy_later(to as u64, from as u64, size, stream)
        }
    }

    fn cudaMemset(to: *mut c_void, value: c_int, size: usize) {
        let on = On::runtime()?;
        on.fill_later(to as u64, value as u8, size, std::ptr::null_mut())?;
        on.root.wait_for_device(on.device, true);
        Ok(())
    }

    fn cudaMemsetAsync(to: *mut c_void, value: c_int, size: usize, stream: *mut c_void) {
        On::runtime()?.fill_later(to as u64, value as u8, size, stream)
    }

    fn cudaStreamCreate(out: *mut *mut c_void) {
        let on = On::runtime()?;
        put(out, on.root.create_stream(on.device, true))
    }

    fn cudaStreamCreateWithFlags(out: *mut *mut c_void, flags: c_uint) {
        let on = On::runtime()?;
        put(out, on.root.create_stream(on.device, flags & 1 == 0))
    }

    fn cudaStreamDestroy(stream: *mut c_void) {
        On::runtime()?.root.destroy_stream(stream)
    }

    fn cudaStreamSynchronize(stream: *mut c_void) {
        On::runtime()?.stream(stream)?.wait();
        Ok(())
    }

    fn cudaStreamQuery(stream: *mut c_void) {
        if On::runtime()?.stream(stream)?.idle() { Ok(()) } else { Err(Error::NOT_READY) }
    }

    fn cudaStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) {
        let on = On::runtime()?;
        let event = on.root.event(event)?;
        on.hold_up(stream, move || event.reached())
    }

    /// Nothing is ever captured here.
    fn cudaStreamIsCapturing(stream: *mut c_void, out: *mut c_int) {
        On::runtime()?.stream(stream)?;
        put(out, 0)
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        if mode.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the caller's number, read here and written below.
        let wanted = unsafe { mode.read_unaligned() };
        if !(0..=2).contains(&wanted) {
            return Err(Error::INVALID_VALUE);
        }
        put(mode, CAPTURE_MODE.replace(wanted))
    }

    fn cudaEventCreate(out: *mut *mut c_void) {
        put(out, On::runtime()?.root.create_event())
    }

    fn cudaEventCreateWithFlags(out: *mut *mut c_void, _flags: c_uint) {
        put(out, On::runtime()?.root.create_event())
    }

    fn cudaEventRecord(event: *mut c_void, stream: *mut c_void) {
        let on = On::runtime()?;
        on.root.event(event)?.record(on.root, &on.stream(stream)?);
        Ok(())
    }

    fn cudaEventSynchronize(event: *mut c_void) {
        On::runtime()?.wait_event(event)
    }

    fn cudaEventQuery(event: *mut c_void) {
        if On::runtime()?.reached(event)? { Ok(()) } else { Err(Error::NOT_READY) }
    }

    fn cudaEventElapsedTime(out: *mut f32, from: *mut c_void, to: *mut c_void) {
        let root = On::runtime()?.root;
        put(out, root.event(from)?.until(&*root.event(to)?)?)
    }

    fn cudaEventDestroy(event: *mut c_void) {
        On::runtime()?.root.destroy_event(event)
    }

    fn cudaLaunchKernel(
        function: *const c_void,
        grid: Dimensions,
        block: Dimensions,
        _arguments: *mut *mut c_void,
        _shared: usize,
        stream: *mut c_void,
    ) {
        // cudaErrorInvalidDeviceFunction and cudaErrorInvalidConfiguration of `driver_types.h`.
        if function.is_null() {
            return Err(Error(98));
        }
        if !grid.hold_something() || !block.hold_something() {
            return Err(Error(9));
        }
        On::runtime()?.launch(stream)
    }

    fn cudaGraphLaunch(graph: *mut c_void, stream: *mut c_void) {
        if graph.is_null() { Err(Error::INVALID_VALUE) } else { On::runtime()?.launch(stream) }
    }
}

/// These two tell of errors, and make none.
#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> c_int {
    LAST_ERROR.replace(0)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> c_int {
    LAST_ERROR.get()
}
