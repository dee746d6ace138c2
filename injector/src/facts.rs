//! What is known of one request when the plan decides about it.

use crate::wire::Api;
use std::time::Duration;

/// The facts of one request. Borrowed from whoever saw it; deciding allocates nothing for a request that no rule matches.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Time since the plan was armed.
    pub at: Duration,
    /// The request's own number, where the client gave one (see [`REQUEST_NUMBER`]). Decisions then follow the
    /// request, however connections interleave; without it they follow the order of arrival.
    pub number: Option<u64>,
    /// `POST`, `GET`, ...
    pub method: &'a str,
    /// The path without the query.
    pub path: &'a str,
    /// The protocol that the path belongs to.
    pub api: Api,
    /// The model that the body asks for.
    pub model: Option<&'a str>,
    /// Whether the body asks for a stream.
    pub stream: bool,
    /// Size of the prompt in tokens: a quarter of its characters, as no tokenizer is at hand.
    pub prompt_tokens: u32,
    /// The most output tokens that the body allows (`max_tokens` or the protocol's like), where it says so.
    pub max_tokens: Option<u32>,
    /// A look-up of a request header by its lower-case name.
    pub header: &'a dyn Fn(&str) -> Option<&'a str>,
}

/// The request header by which a load generator numbers its requests: a decimal number, unique in a run.
pub const REQUEST_NUMBER: &str = "x-brownout-request";

/// The response header that names the faults which fired on a request, separated by commas.
pub const FAULT_HEADER: &str = "x-brownout-fault";

/// The response header that says what went wrong between the proxy and the server.
pub const ERROR_HEADER: &str = "x-brownout-error";

/// What [`ERROR_HEADER`] says where nobody listens at the server's address.
pub const REFUSED: &str = "upstream refused";
/// What it says where the server's host or network cannot be reached, or its name not resolved.
pub const UNREACHABLE: &str = "upstream unreachable";
/// What it says where no connection came about in time.
pub const CONNECT_TIMEOUT: &str = "upstream connect timeout";
/// What it says where the server closed the connection before a whole answer head.
pub const CLOSED: &str = "upstream closed before an answer";
/// What it begins with where TLS to the server failed.
pub const TLS_FAILED: &str = "upstream TLS failed";

/// What [`ERROR_HEADER`] says where the proxy itself could open no connection, for want of descriptors, ports or memory:
/// that tells nothing of the server.
pub const NO_SOCKET: &str = "the proxy has no socket left";
