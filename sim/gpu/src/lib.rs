//! A stand-in GPU: real shared libraries with the real C names, for a device that counts its memory, keeps its streams in order and
//! truly reduces what its collectives are given, and computes nothing else.
//!
//! One library exports the names of the CUDA driver, the CUDA runtime, NCCL and NVML. Placed (copied or linked) under the names in
//! [`NAMES`] it is found where the real ones would be. Copies of it in one process work as one, and processes that name the same file
//! in [`settings::STATE`] see the same devices; what a killed process held comes back.
//!
//! The real runtime reaches the driver through `cuGetProcAddress_v2`, which it finds by `dlsym`. Here the runtime and the driver are
//! doors to the same rooms, so a hook in the driver does not see what comes in through the runtime.
//!
//! What differs from a real device besides: work on the default stream does not wait for other streams (synchronous copies and
//! `cudaFree` do), nothing can be captured into a graph (a graph launch is one kernel, whatever its handle), contexts take no memory.

#![allow(unsafe_code, reason = "C interfaces, shared memory and a device's pointers are all there is here")]
#![allow(non_snake_case, reason = "the names are given")]

#[macro_use]
mod export;

mod collective;
mod comm;
mod driver;
mod error;
mod memory;
mod nccl;
mod nvml;
mod process;
mod reduce;
mod root;
mod runtime;
pub mod settings;
mod state;
mod stream;
mod submit;
mod symbols;
mod vmm;

use export::{Symbol, put};

/// The names under which programs look for the library.
pub const NAMES: [&str; 4] = ["libcuda.so.1", "libcudart.so", "libnccl.so.2", "libnvidia-ml.so.1"];
