//! What travels on the wire, read without touching it: protocols, server-sent events, content, provider errors.

mod api;
mod error;
mod event;
mod read;
mod scan;
pub mod sse;

pub use api::Api;
pub use error::ProviderError;
pub use event::{Class, Event};
pub use read::{Reading, Unreadable, Usage, classify, read, read_body};
pub use sse::SseSplitter;
