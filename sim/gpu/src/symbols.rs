//! `cuGetProcAddress`: the driver's functions by name, for the runtime and others.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::error::{Error, Outcome, code};
use crate::{Symbol, driver, error, put, vmm};

/// `CUdriverProcAddressQueryResult`.
const FOUND: c_int = 0;
const NOT_FOUND: c_int = 1;
/// From this version on, `cuGetProcAddress` means the one with five arguments.
const FIVE_ARGUMENTS: c_int = 12000;

/// Finds a function as of a version. Names are those of the headers' functions, without the `_v2` of later versions; we have only
/// one version of each.
fn find(name: &str, version: c_int) -> Option<*const c_void> {
    let own: &[Symbol] = &[
        Symbol::new("cuGetProcAddress", cuGetProcAddress as *const _),
        Symbol::new("cuGetProcAddress_v2", cuGetProcAddress_v2 as *const _),
    ];
    let lists = [own, driver::SYMBOLS, vmm::SYMBOLS, error::SYMBOLS];
    let exact = |name: &str| lists.into_iter().flatten().find(|symbol| symbol.name == name);
    let old = name == "cuGetProcAddress" && version < FIVE_ARGUMENTS;
    let newer = if old { None } else { exact(&format!("{name}_v2")) };
    newer.or_else(|| exact(name)).map(|symbol| symbol.address)
}

fn look_up(name: *const c_char, out: *mut *const c_void, version: c_int) -> Outcome<c_int> {
    if name.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: a C string of the caller.
    let name = unsafe { CStr::from_ptr(name) };
    let found = name.to_str().ok().and_then(|name| find(name, version));
    put(out, found.unwrap_or(std::ptr::null()))?;
    Ok(if found.is_some() { FOUND } else { NOT_FOUND })
}

/// As of CUDA 11.3.
#[unsafe(no_mangle)]
extern "C" fn cuGetProcAddress(
    name: *const c_char,
    out: *mut *const c_void,
    version: c_int,
    _flags: u64,
) -> c_int {
    let found = look_up(name, out, version);
    code(found.and_then(|status| if status == FOUND { Ok(()) } else { Err(Error::NOT_FOUND) }))
}

/// As of CUDA 12. The flag that asks for variants with a default stream per thread changes nothing: there is one default stream.
#[unsafe(no_mangle)]
extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    out: *mut *const c_void,
    version: c_int,
    _flags: u64,
    status: *mut c_int,
) -> c_int {
    let found = look_up(name, out, version);
    code(found.and_then(|result| {
        if !status.is_null() {
            put(status, result)?;
        }
        if result == FOUND { Ok(()) } else { Err(Error::NOT_FOUND) }
    }))
}
