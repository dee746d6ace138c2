//! What travels on the wire, read without touching it: protocols, server-sent events, content, provider errors.

mod api;
mod error;
mod event;

pub use api::Api;
pub use error::ProviderError;
pub use event::{Class, Event};
