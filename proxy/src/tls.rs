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
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage,
    RootCertStore, SignatureScheme,
};
use tokio_util::either::Either;

/// What all TLS connections to the server have in common.
#[derive(Clone)]
pub(crate) struct Tls {
    name: ServerName<'static>,
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Tls {
    /// Trusts the certificates in the file `trust`, else those that the platform trusts: on Linux the file and the
    /// folders of `SSL_CERT_FILE` and `SSL_CERT_DIR`, where these are set.
    ///
    /// # Errors
    /// A host that can be in no certificate, nothing to trust.
    pub(crate) fn new(upstream: &Upstream, trust: Option<&Path>) -> Result<Self, String> {
        let host = upstream.host().to_owned();
        let name = ServerName::try_from(host).map_err(|_| "no certificate can hold its host".to_owned())?;
        let found = match trust {
            Some(file) => rustls_native_certs::load_certs_from_paths(Some(file), None),
            None => rustls_native_certs::load_native_certs(),
        };
        let mut roots = RootCertStore::empty();
        if roots.add_parsable_certificates(found.certs.iter().cloned()).0 == 0 {
            let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
            return Err(format!(
                "no certificate to trust was found{why}; SSL_CERT_FILE names a file of them"
            ));
        }
        let provider = Arc::new(ring::default_provider());
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| error.to_string())?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { usual, trusted: found.certs }))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let http2 = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { name, http1: TlsConnector::from(Arc::new(config)), http2 })
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

/// The usual rules, and one more: a certificate that is itself among the trusted ones is good for the names in it, even
/// where it says that it is an authority's. Those that people sign themselves nearly always say so, as `openssl req
/// -x509` does unasked, and other clients take them.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.usual.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // This is found after its dates were checked, and before its names are looked at.
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if why.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity) =>
            {
                if !self.trusted.contains(end_entity) {
                    return Err(CertificateError::UnknownIssuer.into());
                }
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
