//! What the two sides of a control block share: who arms faults in a process (`brownout exec`, a sidecar) and the shim
//! inside it.
//!
//! The shim is loaded into other people's processes and runs inside their calls, so nothing here allocates, locks,
//! panics or asks for the time: memory, clock and files come from the caller.
#![cfg_attr(not(test), no_std)]

pub mod block;
pub mod damage;
pub mod directive;
pub mod draw;
pub mod format;
pub mod glob;
#[cfg(test)]
mod images;
pub mod plain;
pub mod ring;
pub mod text;
pub mod trigger;

pub use block::Block;
pub use damage::{Damage, How};
pub use directive::Directive;
pub use draw::Draw;
pub use format::{Kind, Parts, Source};
pub use glob::glob;
pub use text::Text;
pub use trigger::{Counters, Trigger, Window};
