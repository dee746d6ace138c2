//! What the environment says about the device.

use std::ffi::OsString;
use std::time::Duration;

/// The file that processes share to see one device; without it each process has a device of its own.
pub const STATE: &str = "BROWNOUT_GPU_STATE";
/// How many devices there are.
pub const DEVICES: &str = "BROWNOUT_GPU_DEVICES";
/// How many bytes each device holds.
pub const MEMORY: &str = "BROWNOUT_GPU_MEMORY";
/// For how many microseconds a kernel keeps its stream busy.
pub const KERNEL: &str = "BROWNOUT_GPU_KERNEL_US";

const DEFAULT_DEVICES: u64 = 1;
const DEFAULT_MEMORY: u64 = 16 << 30;

/// The settings of one process. Devices and memory are `None` where the environment is silent: then what others wrote
/// into the shared state stands.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) state: Option<OsString>,
    pub(crate) devices: Option<u64>,
    pub(crate) memory: Option<u64>,
    pub(crate) kernel: Duration,
}

impl Settings {
    pub(crate) fn from_environment() -> Self {
        Self {
            state: std::env::var_os(STATE).filter(|path| !path.is_empty()),
            devices: number(DEVICES),
            memory: number(MEMORY),
            kernel: Duration::from_micros(number(KERNEL).unwrap_or(0)),
        }
    }

    pub(crate) fn devices(&self) -> u64 {
        self.devices.unwrap_or(DEFAULT_DEVICES)
    }

    pub(crate) fn memory(&self) -> u64 {
        self.memory.unwrap_or(DEFAULT_MEMORY)
    }
}

/// A number, or nothing: a library has nobody to complain to.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}
