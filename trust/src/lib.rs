//! Whose certificates are trusted, for every part that speaks TLS to a server.

mod verifier;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use verifier::Verifier;

/// What a TLS client needs: it trusts the certificates in the file `trust` (PEM), else those that the platform trusts,
/// on Linux those in the file and the folders of `SSL_CERT_FILE` and `SSL_CERT_DIR` where these are set; and it offers
/// `protocol` (`h2`, `http/1.1`).
///
/// # Errors
/// One sentence: there is nothing to trust, or the file that is named is of no use.
pub fn client_config(trust: Option<&Path>, protocol: &str) -> Result<ClientConfig, String> {
    let trusted = match (trust, std::env::var_os("SSL_CERT_FILE").map(PathBuf::from)) {
        (Some(file), _) => of_file(file)?,
        (None, Some(file)) => {
            // Where the folders hold some, a file that holds none would go unnoticed.
            of_file(&file)?;
            of_platform()?
        }
        (None, None) => of_platform()?,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let provider = Arc::new(ring::default_provider());
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| error.to_string())?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { usual, trusted }))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(config)
}

/// Whatever a file of certificates may hold: that of a whole platform has a quarter of a MiB.
const MAX_FILE: u64 = 16 << 20;

fn of_file(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    read(file).map_err(|why| {
        format!("{}: {why}; SSL_CERT_FILE is to name a file (PEM) of certificates to trust", file.display())
    })
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let about = std::fs::metadata(file).map_err(|error| error.to_string())?;
    // It is read more than once, and a pipe might never end or never begin.
    if !about.is_file() {
        return Err("it is no file".to_owned());
    }
    if about.len() > MAX_FILE {
        return Err(format!("it is larger than {} MiB", MAX_FILE >> 20));
    }
    let text = std::fs::read(file).map_err(|error| error.to_string())?;
    let certs: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    some(certs.map_err(|_| "it is cut short or damaged")?).ok_or_else(|| "it holds no certificate".to_owned())
}

fn of_platform() -> Result<Vec<CertificateDer<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    some(found.certs).ok_or_else(|| {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        format!("no certificate to trust was found{why}; name a file (PEM) of them in SSL_CERT_FILE")
    })
}

/// These, where one at least can be read.
fn some(certs: Vec<CertificateDer<'static>>) -> Option<Vec<CertificateDer<'static>>> {
    (RootCertStore::empty().add_parsable_certificates(certs.iter().cloned()).0 > 0).then_some(certs)
}
