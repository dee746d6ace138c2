//! TLS to the target.

use super::io::{Marked, Marks};
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, Error, InvalidMessage};
use tokio_util::either::Either;

/// What all TLS connections to the target have in common.
#[derive(Clone)]
pub(super) struct Tls {
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl Tls {
    /// Trusts the certificates in the file `trust`, else those that the platform trusts; else why it cannot.
    pub(super) fn new(host: &str, trust: Option<&Path>) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("host `{host}` is no name that a certificate can hold"))?;
        let config = brownout_trust::client_config(trust, "http/1.1")?;
        Ok(Self { name, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Shakes hands; else says why not, and what can be done. The marks are of what comes out of TLS.
    pub(super) async fn connect(&self, socket: Marked) -> Result<(Stream, Rc<Marks>), String> {
        let shaken = self.connector.connect(self.name.clone(), socket).await;
        let (stream, heard) = Marked::new(shaken.map_err(|error| self.in_words(&error))?);
        Ok((Stream::Right(Box::new(stream)), heard))
    }

    fn in_words(&self, error: &io::Error) -> String {
        let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
            return format!("the server broke off the TLS handshake ({error})");
        };
        match error {
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
                "the server speaks no TLS on this port; try http:// in place of https://".to_owned()
            }
            Error::InvalidCertificate(why) => match why {
                // A bad signature is what an authority made anew under its old name leaves.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    "the server's certificate is signed by nobody trusted here; name a file (PEM) with its \
                     authority's certificate, or with its own where it signed itself, in SSL_CERT_FILE"
                        .to_owned()
                }
                CertificateError::NotValidForName => self.other_name(&[]),
                CertificateError::NotValidForNameContext { presented, .. } => self.other_name(presented),
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "the server's certificate has expired".to_owned()
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "the server's certificate is not valid yet; is the clock right here?".to_owned()
                }
                other => format!("the server's certificate is of no use: {other}"),
            },
            other => format!("the TLS handshake failed: {other}"),
        }
    }

    fn other_name(&self, presented: &[String]) -> String {
        let asked = self.name.to_str();
        if presented.is_empty() {
            return format!("the server's certificate is not for `{asked}`: it has no subjectAltName at all");
        }
        // They come as `DnsName("gateway.test")`.
        let name = |text: &String| {
            let inside =
                text.split_once('(').map_or(text.as_str(), |(_, inside)| inside.trim_end_matches(')'));
            inside.trim_matches('"').to_owned()
        };
        let names: Vec<String> = presented.iter().map(name).collect();
        format!("the server's certificate is not for `{asked}` but for {}", names.join(", "))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A connection to the target, as it is or by TLS. The socket below is what remembers when it was read: decrypting is no
/// part of that. What is read from TLS is remembered too: much that comes on the socket is TLS's own, its end for one.
pub(super) type Stream = Either<Marked, Box<Marked<TlsStream<Marked>>>>;
