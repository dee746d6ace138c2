//! What goes wrong without any fault, and the one place where it becomes an answer. Such answers carry
//! `x-brownout-error`, so that nobody takes them for the server's own words or for an injected fault.

use crate::body::Body;
use crate::meter::Origin;
use brownout_injector::facts::{self, NO_SOCKET};
use brownout_injector::wire::{Api, ProviderError};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Response, StatusCode};
use std::convert::Infallible;
use std::fmt;

pub use brownout_injector::facts::ERROR_HEADER;

/// Why a request got no answer from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody listens there.
    #[error("{}", facts::REFUSED)]
    Refused,
    /// The host or network cannot be reached, or its name not resolved.
    #[error("{}", facts::UNREACHABLE)]
    Unreachable,
    /// No connection in time.
    #[error("{}", facts::CONNECT_TIMEOUT)]
    ConnectTimeout,
    /// The server closed the connection before a whole answer head.
    #[error("{}", facts::CLOSED)]
    Reset,
    /// What the server sent is no HTTP.
    #[error("upstream sent no valid HTTP")]
    Malformed,
    /// TLS to the server failed.
    #[error("{begin}: {0}", begin = facts::TLS_FAILED)]
    Tls(TlsFailure),
    /// The system gives the proxy no socket to connect with: no descriptor, no port, no memory.
    #[error("{NO_SOCKET}")]
    NoSocket,
    /// The client's own body broke off or is malformed.
    #[error("request body broke off")]
    ClientBody,
    /// The client takes the proxy for one that leads anywhere.
    #[error("CONNECT is for forward proxies; name this proxy as the server, in the client's base URL")]
    Connect,
}

/// Why TLS to the server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFailure {
    /// Nobody who is trusted has signed its certificate.
    #[error("its certificate is signed by nobody trusted here; SSL_CERT_FILE names a file of those to trust")]
    UnknownIssuer,
    /// Its certificate does not hold the host that was asked for.
    #[error("its certificate is for another name")]
    OtherName,
    /// Its certificate has expired.
    #[error("its certificate has expired")]
    Expired,
    /// Its certificate is for a later time.
    #[error("its certificate is not valid yet")]
    NotValidYet,
    /// Its certificate is of no use for another reason.
    #[error("its certificate is of no use")]
    Certificate,
    /// What came is no TLS.
    #[error("the server speaks no TLS on this port")]
    NotTls,
    /// The server does not take the version of HTTP.
    #[error("no version of HTTP in common")]
    Protocol,
    /// The server closed the connection.
    #[error("the server broke off the handshake")]
    BrokenOff,
    /// Client and server have nothing in common, or broke the rules.
    #[error("the handshake was refused")]
    Refused,
}

/// Why no answer comes from below. `E` is what a tower service at the bottom fails with.
#[derive(Debug)]
pub(crate) enum Unanswered<E = Infallible> {
    /// Something went wrong; it becomes an answer of ours.
    Failed(Failure),
    /// A fault closes the connection in place of an answer; the mark says which.
    Hung(Option<HeaderValue>),
    /// The service failed in a way of its own.
    Service(E),
}

impl<E> From<Failure> for Unanswered<E> {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl<E: fmt::Display> fmt::Display for Unanswered<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => failure.fmt(f),
            Self::Hung(_) => f.write_str("closed by a fault"),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Unanswered<E> {}

/// How many kinds are counted.
pub(crate) const KINDS: usize = 9;

impl Failure {
    /// The names of the counted kinds in metrics.
    pub const NAMES: [&'static str; KINDS] = [
        "refused",
        "unreachable",
        "connect_timeout",
        "reset",
        "malformed",
        "tls",
        "client_body",
        "no_socket",
        "connect",
    ];

    /// Its place among the counted kinds.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Refused => 0,
            Self::Unreachable => 1,
            Self::ConnectTimeout => 2,
            Self::Reset => 3,
            Self::Malformed => 4,
            Self::Tls(_) => 5,
            Self::ClientBody => 6,
            Self::NoSocket => 7,
            Self::Connect => 8,
        }
    }

    /// The status that gateways usually give for it.
    const fn status(self) -> StatusCode {
        match self {
            Self::Refused | Self::Unreachable | Self::NoSocket => StatusCode::SERVICE_UNAVAILABLE,
            Self::ConnectTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Reset | Self::Malformed | Self::Tls(_) => StatusCode::BAD_GATEWAY,
            Self::ClientBody => StatusCode::BAD_REQUEST,
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    /// The answer to a request of protocol `api` that failed so.
    pub(crate) fn response(self, api: Api) -> Response<Body> {
        let status = self.status();
        let error = ProviderError {
            status: status.as_u16(),
            code: String::new(),
            message: format!("brownout proxy: {self}"),
        };
        let mut response = Response::new(Body::full(error.body(api).into(), Origin::Organic));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(value) = HeaderValue::try_from(self.to_string()) {
            headers.insert(HeaderName::from_static(ERROR_HEADER), value);
        }
        response
    }
}
