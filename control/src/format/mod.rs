//! Finds the parts of a model file through a reader that the caller gives.
//!
//! A file is whatever a user's process opens: everything in it is hostile. A walk reads each byte at most once, goes no
//! further than [`MOST`] bytes, and takes what it does not understand for a file of no known format.

mod cursor;
pub(crate) mod gguf;
pub(crate) mod safetensors;

use cursor::Cursor;

/// Header bytes that a walk looks at before it gives up; real headers of the largest models are a fifth of that.
pub const MOST: u64 = 64 << 20;

/// What gives the bytes of a file.
pub trait Source {
    /// Fills `into` with the bytes at `offset` and says how many there were; fewer than asked is the end of the file, or
    /// an error.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize;
}

impl<F: Fn(u64, &mut [u8]) -> usize> Source for F {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        self(offset, into)
    }
}

/// A format of model files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A length, a JSON object that names the tensors, their bytes.
    Safetensors,
    /// llama.cpp's: a magic, metadata, infos of the tensors, their bytes.
    Gguf,
    /// None of them: nothing is known but the length.
    Other,
}

/// A file's format, and where its header ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The format.
    pub kind: Kind,
    /// How long the header is, which is where the tensors' bytes begin; never more than the file's size.
    pub header: u64,
}

impl Parts {
    /// Finds the parts of the file of `size` bytes behind `source`.
    #[must_use]
    pub fn find(source: &dyn Source, size: u64) -> Self {
        if let Some(header) = safetensors::header(source, size) {
            return Self { kind: Kind::Safetensors, header };
        }
        match gguf::walk(source, size, &mut |_| ()) {
            Some(header) => Self { kind: Kind::Gguf, header },
            None => Self { kind: Kind::Other, header: 0 },
        }
    }
}

#[cfg(test)]
mod tests;
