//! What all exported functions have in common.

use std::ffi::c_void;

use crate::error::{Error, Outcome};

/// An exported function, to be found by name.
pub(crate) struct Symbol {
    pub(crate) name: &'static str,
    pub(crate) address: *const c_void,
}

// SAFETY: the address of code.
unsafe impl Sync for Symbol {}

impl Symbol {
    pub(crate) const fn new(name: &'static str, address: *const c_void) -> Self {
        Self { name, address }
    }
}

/// Writes what a C function gives back through a pointer; a null pointer is an invalid value.
pub(crate) fn put<T>(out: *mut T, value: T) -> Outcome {
    if out.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller of a C interface promises that its out pointers are good; unaligned ones do no harm.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Exports C functions whose bodies come to an `Outcome`, which the function named first turns into the number that C sees.
/// `=> LIST` lists them too.
macro_rules! exports {
    ($code:path => $list:ident; $($(#[$note:meta])* fn $name:ident $arguments:tt $body:block)*) => {
        exports! { $code; $($(#[$note])* fn $name $arguments $body)* }

        /// What is exported here.
        pub(crate) const $list: &[$crate::Symbol] =
            &[$($crate::Symbol::new(stringify!($name), $name as *const std::ffi::c_void)),*];
    };
    ($code:path; $($(#[$note:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $($(#[$note])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
            let outcome = || -> $crate::error::Outcome { $body };
            $code(outcome())
        })*
    };
}
