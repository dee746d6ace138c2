//! What a proxy is told when it starts.

use crate::journal::Journal;
use brownout_injector::wire::Api;
use http::uri::{Authority, Uri};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What a proxy is told when it starts.
#[derive(Debug)]
pub struct Config {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The server behind it.
    pub upstream: Upstream,
    /// A file (PEM) of the certificates that an `https` upstream may show or be signed by, in place of those that the
    /// platform trusts. On Linux the platform's are in turn replaced by `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    pub trust: Option<PathBuf>,
    /// Where it answers metrics, readiness and control, if at all.
    pub admin: Option<SocketAddr>,
    /// Worker threads, at least 1; each accepts and serves connections of its own.
    pub workers: usize,
    /// Speak HTTP/2 to the server for every request (gRPC from HTTP/2 clients always is).
    pub upstream_h2: bool,
    /// Pass header names on as they were written, not in lower case (HTTP/1.1 on both sides). A client whose first
    /// request on a connection has no name that begins with a capital, and a server none of whose answers has, are
    /// taken to write none later.
    pub preserve_case: bool,
    /// Bounds on what clients may take.
    pub limits: Limits,
    /// Where the journal goes.
    pub journal: Journal,
}

impl Config {
    /// A proxy on `listen` in front of `upstream` with one worker, no admin address and the usual limits.
    #[must_use]
    pub fn new(listen: SocketAddr, upstream: Upstream) -> Self {
        Self {
            listen,
            upstream,
            trust: None,
            admin: None,
            workers: 1,
            upstream_h2: false,
            preserve_case: true,
            limits: Limits::default(),
            journal: Journal::none(),
        }
    }
}

/// Bounds on what clients and the server may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest request head in bytes, at least 8192; a larger one gets 431.
    pub header_bytes: usize,
    /// Longest time from the first byte of a request head to its last.
    pub header_read: Duration,
    /// Longest time a connection may stay open with no request on it.
    pub idle: Duration,
    /// Client connections a worker holds; further ones are closed at once.
    pub connections: usize,
    /// Idle connections to the server that a worker keeps.
    pub idle_upstream: usize,
    /// How long an idle connection to the server is kept.
    pub idle_upstream_for: Duration,
    /// Longest time to connect to the server, TLS included.
    pub connect: Duration,
    /// Largest request body that is read to decide about it; a larger one passes unread, and is counted.
    pub body_bytes: usize,
    /// Largest answer without a stream that is held to transform it; a larger one passes untouched.
    pub answer_bytes: usize,
    /// Largest event of a stream that is read; a larger one passes unread.
    pub event_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 64 << 10,
            header_read: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            connections: 20_000,
            idle_upstream: 1_024,
            // Below the 5 s after which uvicorn, which vLLM and many others are served by, closes an idle connection: the
            // request that meets a close half-way is lost.
            idle_upstream_for: Duration::from_secs(4),
            connect: Duration::from_secs(5),
            body_bytes: 8 << 20,
            answer_bytes: 8 << 20,
            event_bytes: 1 << 20,
        }
    }
}

/// The server behind the proxy: `http://host:port` or `https://host:port`, with an optional path prefix. A `/v1` at the
/// end is left out, as requests bring their own.
///
/// ```
/// let upstream: brownout_proxy::Upstream = "http://127.0.0.1:8000/llm".parse()?;
/// assert_eq!((upstream.host(), upstream.port(), upstream.prefix()), ("127.0.0.1", 8000, "/llm"));
/// # Ok::<(), brownout_proxy::BadUpstream>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    tls: bool,
    authority: Authority,
    prefix: String,
}

impl Upstream {
    /// Whether the server is spoken to by TLS.
    #[must_use]
    pub const fn tls(&self) -> bool {
        self.tls
    }

    /// Host and port as written.
    #[must_use]
    pub const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The host; an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    /// The port; the scheme's own where none is written.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.tls { 443 } else { 80 })
    }

    /// What goes before every request's path; empty or `/so/on`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority, self.prefix)
    }
}

/// A text that names no upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no upstream: {why}; write http://host:port or https://host:port")]
pub struct BadUpstream {
    text: String,
    why: &'static str,
}

impl FromStr for Upstream {
    type Err = BadUpstream;

    fn from_str(text: &str) -> Result<Self, BadUpstream> {
        let bad = |why| BadUpstream { text: text.to_owned(), why };
        let uri: Uri = text.parse().map_err(|_| bad("it is no URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad("its scheme is neither http nor https")),
        };
        if uri.query().is_some() {
            return Err(bad("it has a query"));
        }
        let authority = uri.authority().cloned().ok_or_else(|| bad("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it carries a user name"));
        }
        if authority.host().is_empty() {
            return Err(bad("it has no host"));
        }
        if authority.as_str() != authority.host() && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(bad("its port is none from 1 to 65535"));
        }
        let path = uri.path().trim_end_matches('/');
        if Api::of_path(path) != Api::Other {
            return Err(bad("it ends in an endpoint's path, which requests bring themselves"));
        }
        // People copy the base URL of an OpenAI client, which ends in /v1.
        let prefix = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/').to_owned();
        Ok(Self { tls, authority, prefix })
    }
}

/// Why a proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A thread or its runtime cannot be made.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
    /// The upstream is an `https` one, and there is nothing to check its certificate by.
    #[error("cannot speak to {0}: {1}")]
    Upstream(Upstream, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_servers_are_upstreams() {
        for good in ["http://localhost", "http://[::1]:80/", "https://api.example.com/openai/"] {
            assert!(good.parse::<Upstream>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "localhost:80",
            "ftp://x",
            "http://",
            "http://x?y=1",
            "http://me@x",
            "/v1",
            "http://x:99999",
            "http://x:0",
            "http://x/v1/chat/completions",
            "http://x/v2/models/m/generate/",
        ] {
            assert!(bad.parse::<Upstream>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_v1_at_the_end_is_the_requests_own() {
        for (text, prefix) in [
            ("http://x/v1", ""),
            ("http://x/v1/", ""),
            ("http://x/team-a/v1", "/team-a"),
            ("http://x/v1/team-a", "/v1/team-a"),
            ("http://x/not-v1", "/not-v1"),
        ] {
            assert_eq!(text.parse::<Upstream>().expect(text).prefix(), prefix, "{text}");
        }
    }
}
