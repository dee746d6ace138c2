//! Whose certificates are trusted, for every part that speaks TLS to a server.

mod verifier;

use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use verifier::Verifier;

/// What a TLS client needs: it trusts the certificates in the file `trust` (PEM), else those that the platform trusts,
/// on Linux those in the file and the folders of `SSL_CERT_FILE` and `SSL_CERT_DIR` where these are set; and it offers
/// `protocol` (`h2`, `http/1.1`).
///
/// # Errors
/// One sentence: there is nothing to trust.
pub fn client_config(trust: Option<&Path>, protocol: &str) -> Result<ClientConfig, String> {
    let found = match trust {
        Some(file) => rustls_native_certs::load_certs_from_paths(Some(file), None),
        None => rustls_native_certs::load_native_certs(),
    };
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(found.certs.iter().cloned()).0 == 0 {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(format!(
            "no certificate to trust was found{why}; name a file (PEM) of them in SSL_CERT_FILE"
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
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(config)
}
