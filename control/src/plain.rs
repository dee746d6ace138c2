//! Values in memory that processes share: copied word by word, so that a copy that races a write is torn, never
//! undefined; whoever reads checks with a generation or a sequence number that it is not.
#![allow(unsafe_code, reason = "the one place that looks at shared values as words")]

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, size_of};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A type that is nothing but numbers.
///
/// # Safety
/// `repr(C)`, a multiple of 8 bytes long and aligned to 8, without padding, and every pattern of bits is a value.
pub unsafe trait Plain: Copy {}

/// A [`Plain`] value that others may read or write at any time.
#[repr(transparent)]
pub struct Shared<T>(UnsafeCell<T>);

// SAFETY: the value is reached only through atomic words.
unsafe impl<T: Plain> Sync for Shared<T> {}

impl<T: Plain> Shared<T> {
    const WORDS: usize = {
        assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() == 8, "whole words");
        size_of::<T>() / 8
    };

    /// A place with this value.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `Plain` says that the value is this many aligned words; atomics allow others to write meanwhile.
        unsafe { core::slice::from_raw_parts(self.0.get().cast(), Self::WORDS) }
    }

    /// What is there, perhaps torn.
    pub fn load(&self) -> T {
        let mut value = MaybeUninit::<T>::uninit();
        let to = value.as_mut_ptr().cast::<u64>();
        for (i, word) in self.words().iter().enumerate() {
            // SAFETY: inside the value, whose words these are; all of them are written.
            unsafe { to.add(i).write(word.load(Relaxed)) };
        }
        // SAFETY: every pattern of bits is a value, says `Plain`.
        unsafe { value.assume_init() }
    }

    /// Puts `value` there.
    pub fn store(&self, value: &T) {
        let from = core::ptr::from_ref(value).cast::<u64>();
        for (i, word) in self.words().iter().enumerate() {
            // SAFETY: inside the value; it has no padding, so all of it is written memory.
            word.store(unsafe { from.add(i).read() }, Relaxed);
        }
    }
}
