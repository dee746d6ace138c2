//! The errors of driver and runtime. Numbers and names are those of the public headers `cuda.h` and `driver_types.h`, where both use
//! the same numbers.

use std::ffi::{CStr, c_char, c_int};

use crate::put;

/// An error by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Error(pub(crate) c_int);

/// What a call comes to.
pub(crate) type Outcome<T = ()> = Result<T, Error>;

impl Error {
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    pub(crate) const NOT_INITIALIZED: Self = Self(3);
    pub(crate) const NO_DEVICE: Self = Self(100);
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    pub(crate) const OPERATING_SYSTEM: Self = Self(304);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const DRIVER_MISMATCH: Self = Self(803);
}

/// The number that a C function returns.
pub(crate) fn code(outcome: Outcome) -> c_int {
    outcome.err().map_or(0, |error| error.0)
}

/// Number, name in the driver, name in the runtime, description. More than this device ever says by itself: who injects
/// an error wants it explained.
const ERRORS: &[(c_int, &CStr, &CStr, &CStr)] = &[
    (0, c"CUDA_SUCCESS", c"cudaSuccess", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"cudaErrorInvalidValue", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"cudaErrorMemoryAllocation", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"cudaErrorInitializationError", c"initialization error"),
    (4, c"CUDA_ERROR_DEINITIALIZED", c"cudaErrorCudartUnloading", c"driver shutting down"),
    (
        46,
        c"CUDA_ERROR_DEVICE_UNAVAILABLE",
        c"cudaErrorDevicesUnavailable",
        c"CUDA-capable device(s) is/are busy or unavailable",
    ),
    (100, c"CUDA_ERROR_NO_DEVICE", c"cudaErrorNoDevice", c"no CUDA-capable device is detected"),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"cudaErrorInvalidDevice", c"invalid device ordinal"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT", c"cudaErrorDeviceUninitialized", c"invalid device context"),
    (
        214,
        c"CUDA_ERROR_ECC_UNCORRECTABLE",
        c"cudaErrorECCUncorrectable",
        c"uncorrectable ECC error encountered",
    ),
    (
        304,
        c"CUDA_ERROR_OPERATING_SYSTEM",
        c"cudaErrorOperatingSystem",
        c"OS call failed or operation not supported on this OS",
    ),
    (400, c"CUDA_ERROR_INVALID_HANDLE", c"cudaErrorInvalidResourceHandle", c"invalid resource handle"),
    (500, c"CUDA_ERROR_NOT_FOUND", c"cudaErrorSymbolNotFound", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"cudaErrorNotReady", c"device not ready"),
    (
        700,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"cudaErrorIllegalAddress",
        c"an illegal memory access was encountered",
    ),
    (
        702,
        c"CUDA_ERROR_LAUNCH_TIMEOUT",
        c"cudaErrorLaunchTimeout",
        c"the launch timed out and was terminated",
    ),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"cudaErrorLaunchFailure", c"unspecified launch failure"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"cudaErrorNotSupported", c"operation not supported"),
    (
        803,
        c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        c"cudaErrorSystemDriverMismatch",
        c"system has unsupported display driver / cuda driver combination",
    ),
    (999, c"CUDA_ERROR_UNKNOWN", c"cudaErrorUnknown", c"unknown error"),
];

fn known(number: c_int) -> Option<&'static (c_int, &'static CStr, &'static CStr, &'static CStr)> {
    ERRORS.iter().find(|known| known.0 == number)
}

/// The driver gives names and texts through a pointer, and none for a number that it does not know.
fn driver_text(number: c_int, out: *mut *const c_char, text: Option<&'static CStr>) -> c_int {
    let told = put(out, text.map_or(std::ptr::null(), CStr::as_ptr));
    code(told.and(if known(number).is_some() { Ok(()) } else { Err(Error::INVALID_VALUE) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(number: c_int, out: *mut *const c_char) -> c_int {
    driver_text(number, out, known(number).map(|known| known.1))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(number: c_int, out: *mut *const c_char) -> c_int {
    driver_text(number, out, known(number).map(|known| known.3))
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(number: c_int) -> *const c_char {
    known(number).map_or(c"unrecognized error code", |known| known.2).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(number: c_int) -> *const c_char {
    known(number).map_or(c"unrecognized error code", |known| known.3).as_ptr()
}

/// What `cuGetProcAddress` finds here.
pub(crate) const SYMBOLS: &[crate::Symbol] = &[
    crate::Symbol::new("cuGetErrorName", cuGetErrorName as *const _),
    crate::Symbol::new("cuGetErrorString", cuGetErrorString as *const _),
];
