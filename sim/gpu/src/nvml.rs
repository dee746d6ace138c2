//! NVML: `libnvidia-ml.so.1`. It sees the same memory as the driver, and needs no context.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::driver::{VERSION, name, write_text};
use crate::error::{Error, Outcome};
use crate::root::{Root, root};
use crate::submit::monotonic;
use crate::{memory, put};

/// How often it was opened more than closed.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// Numbers and texts of `nvmlReturn_t` in `nvml.h`.
const UNINITIALIZED: c_int = 1;
const TEXTS: &[(c_int, &std::ffi::CStr)] = &[
    (0, c"Success"),
    (UNINITIALIZED, c"Uninitialized"),
    (2, c"Invalid Argument"),
    (3, c"Not Supported"),
    (6, c"Not Found"),
    (7, c"Insufficient Size"),
    (9, c"Driver Not Loaded"),
    (15, c"GPU is lost"),
    (999, c"Unknown Error"),
];

/// NVML's number for what went wrong.
fn nvml_code(outcome: Outcome) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(Error::NOT_INITIALIZED) => UNINITIALIZED,
        Err(Error::INVALID_VALUE | Error::INVALID_DEVICE | Error::INVALID_HANDLE) => 2,
        Err(Error::OPERATING_SYSTEM | Error::DRIVER_MISMATCH) => 9,
        Err(_) => 999,
    }
}

fn open() -> Outcome<&'static Root> {
    if OPENED.load(Ordering::Relaxed) == 0 { Err(Error::NOT_INITIALIZED) } else { root() }
}

/// A handle is the device's number and one.
fn device(handle: *mut c_void) -> Outcome<(&'static Root, usize)> {
    let root = open()?;
    let number = i32::try_from(handle as usize).map_err(|_| Error::INVALID_HANDLE)? - 1;
    Ok((root, root.device(number)?))
}

/// `nvmlMemory_t`.
#[repr(C)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

const MEMORY_V2: c_uint = size_of::<MemoryV2>() as c_uint | (2 << 24);

/// `nvmlUtilization_t`, in percent.
#[repr(C)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

exports! { nvml_code;
    fn nvmlInit_v2() {
        root()?.state()?;
        OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn nvmlShutdown() {
        let close = |opened: u32| opened.checked_sub(1);
        let closed = OPENED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, close);
        closed.map(|_| ()).map_err(|_| Error::NOT_INITIALIZED)
    }

    fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) {
        put(out, VERSION)
    }

    fn nvmlDeviceGetCount_v2(out: *mut c_uint) {
        put(out, open()?.state()?.devices() as c_uint)
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut *mut c_void) {
        let number = i32::try_from(index).map_err(|_| Error::INVALID_DEVICE)?;
        put(out, (open()?.device(number)? + 1) as *mut c_void)
    }

    fn nvmlDeviceGetName(handle: *mut c_void, out: *mut c_char, length: c_uint) {
        device(handle)?;
        write_text(out, i32::try_from(length).unwrap_or(i32::MAX), name())
    }

    fn nvmlDeviceGetMemoryInfo(handle: *mut c_void, out: *mut Memory) {
        let (root, device) = device(handle)?;
        let (free, total) = memory::info(root.state()?, device);
        put(out, Memory { total, free, used: total - free })
    }

    fn nvmlDeviceGetMemoryInfo_v2(handle: *mut c_void, out: *mut MemoryV2) {
        let (root, device) = device(handle)?;
        // SAFETY: the caller says by the first word what the rest is.
        if out.is_null() || unsafe { out.cast::<c_uint>().read_unaligned() } != MEMORY_V2 {
            return Err(Error::INVALID_VALUE);
        }
        let (free, total) = memory::info(root.state()?, device);
        put(out, MemoryV2 { version: MEMORY_V2, total, reserved: 0, free, used: total - free })
    }

    /// Busy or not, at this moment, and how much memory is taken (the real one tells how busy the memory was).
    fn nvmlDeviceGetUtilizationRates(handle: *mut c_void, out: *mut Utilization) {
        let (root, device) = device(handle)?;
        let state = root.state()?;
        let busy = state.device[device].busy_until.load(Ordering::Relaxed) > monotonic();
        let (free, total) = memory::info(state, device);
        let memory = (total - free) * 100 / total.max(1);
        put(out, Utilization { gpu: if busy { 100 } else { 0 }, memory: memory as c_uint })
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(number: c_int) -> *const c_char {
    let known = TEXTS.iter().find(|known| known.0 == number);
    known.map_or(c"Unknown Error", |known| known.1).as_ptr()
}
