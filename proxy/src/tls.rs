//! TLS to the server.

use crate::config::Upstream;
use crate::failure::{Failure, TlsFailure};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use tokio_util::either::Either;

/// What all TLS connections to the server have in common.
#[derive(Clone)]
pub(crate) struct Tls {
    name: ServerName<'static>,
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Tls {
    /// Trusts the certificates in the file `trust`, else those that the platform trusts.
    ///
    /// # Errors
    /// A host that can be in no certificate, nothing to trust.
    pub(crate) fn new(upstream: &Upstream, trust: Option<&Path>) -> Result<Self, String> {
        let host = upstream.host().to_owned();
        let name = ServerName::try_from(host).map_err(|_| "no certificate can hold its host".to_owned())?;
        let connector = |protocol| {
            let config = brownout_trust::client_config(trust, protocol)?;
            Ok::<_, String>(TlsConnector::from(Arc::new(config)))
        };
        Ok(Self { name, http1: connector("http/1.1")?, http2: connector("h2")? })
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// [`Failure::Tls`].
    pub(crate) async fn connect(&self, stream: TcpStream, h2: bool) -> Result<Stream, Failure> {
        let connector = if h2 { &self.http2 } else { &self.http1 };
        let stream = connector.connect(self.name.clone(), stream).await.map_err(|error| reason(&error))?;
        // A server that knows nothing of ALPN takes anything; HTTP/2 must be agreed on (RFC 9113, 3.2).
        if h2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(Failure::Tls(TlsFailure::Protocol));
        }
        Ok(Stream::Right(Box::new(stream)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

fn reason(error: &io::Error) -> Failure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    Failure::Tls(match inner {
        None => TlsFailure::BrokenOff,
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => TlsFailure::NotTls,
        Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => TlsFailure::Protocol,
        Some(Error::InvalidCertificate(why)) => match why {
            // A bad signature is what an authority made anew under its old name leaves.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFailure::UnknownIssuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFailure::OtherName
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFailure::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsFailure::NotValidYet
            }
            _ => TlsFailure::Certificate,
        },
        Some(_) => TlsFailure::Refused,
    })
}

/// A connection to the server, as it is or by TLS. The plain one is what is measured against other proxies: it pays for
/// the choice with one comparison.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
