//! The functions that our hooks stand before: the next of that name in the order of libraries.

use crate::sys;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

const UNKNOWN: usize = 0;
const ABSENT: usize = 1;

/// One function, looked up when it is first needed: hooks run before our own constructor does.
pub(crate) struct Real {
    name: &'static CStr,
    at: AtomicUsize,
}

/// The thread that is looking something up: what the dynamic linker calls meanwhile must not look up again.
static LOOKING: AtomicU32 = AtomicU32::new(0);

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, at: AtomicUsize::new(UNKNOWN) }
    }

    /// Its address; nothing where no library has it, or while the linker looks it up.
    #[inline]
    pub(crate) fn address(&self) -> Option<usize> {
        match self.at.load(Acquire) {
            UNKNOWN => self.find(),
            ABSENT => None,
            address => Some(address),
        }
    }

    #[cold]
    fn find(&self) -> Option<usize> {
        let me = sys::tid();
        if LOOKING.swap(me, AcqRel) == me {
            return None;
        }
        // SAFETY: a name; the answer is an address or null.
        let found = unsafe { look_up(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        LOOKING.store(0, Release);
        self.at.store(if found == 0 { ABSENT } else { found }, Release);
        (found != 0).then_some(found)
    }
}

/// The real `dlsym`.
unsafe fn look_up(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: as the caller says.
    unsafe { libc::dlsym(handle, name) }
}
