//! Certificates, and a server that shows them: TLS outside, and behind it whatever plain server a test has.
#![allow(dead_code, reason = "each test binary uses its own part")]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::NamedTempFile;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// What a server shows.
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

/// Whose certificate a client may trust.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: NamedTempFile,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("a certificate can be made");
        let file = pem(&issuer.pem());
        Self { issuer, file }
    }

    /// The file that names it as trusted.
    pub(crate) fn file(&self) -> &Path {
        self.file.path()
    }

    /// An identity for these hosts.
    pub(crate) fn identity(&self, hosts: &[&str]) -> Identity {
        self.identity_with(hosts, |_| {})
    }

    pub(crate) fn identity_with(
        &self,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let (params, key) = (params(hosts, change), key());
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be made");
        Identity { certificate: certificate.der().clone(), key: key.serialize_der() }
    }
}

/// An identity that signed itself as `openssl req -x509` does, which calls it an authority; and a file that names it as
/// trusted.
pub(crate) fn self_signed(
    hosts: &[&str],
    change: impl FnOnce(&mut CertificateParams),
) -> (Identity, NamedTempFile) {
    let (mut params, key) = (params(hosts, change), key());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate can be made");
    let file = pem(&certificate.pem());
    (Identity { certificate: certificate.der().clone(), key: key.serialize_der() }, file)
}

fn params(hosts: &[&str], change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names");
    change(&mut params);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be made")
}

fn pem(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file can be made");
    std::fs::write(file.path(), text).expect("it can be written");
    file
}

/// A server that speaks TLS, and passes on what is in it.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    handshakes: Arc<AtomicUsize>,
    /// Dropped with the server, which ends its thread.
    _end: oneshot::Sender<()>,
}

impl Front {
    /// Serves before `behind` on a free port until dropped; `alpn` is what it speaks inside.
    pub(crate) fn start(behind: SocketAddr, identity: &Identity, alpn: &[&str]) -> Self {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the usual versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![identity.certificate.clone()],
                PrivatePkcs8KeyDer::from(identity.key.clone()).into(),
            )
            .expect("key and certificate are of one another");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("it can be");
        let address = listener.local_addr().expect("it is bound");
        let handshakes = Arc::new(AtomicUsize::new(0));
        let (end, ended) = oneshot::channel::<()>();
        let front = Self { address, handshakes: handshakes.clone(), _end: end };
        let serve = async move {
            let listener = TcpListener::from_std(listener).expect("it does not block");
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(acceptor.clone(), client, behind, handshakes.clone()));
            }
        };
        // A thread of its own, as tests are of both kinds: with a runtime around them and without.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = serve => {}
                    _ = ended => {}
                }
            });
        });
        front
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// How many connections have come to be.
    pub(crate) fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::SeqCst)
    }
}

async fn pass(acceptor: TlsAcceptor, client: TcpStream, behind: SocketAddr, handshakes: Arc<AtomicUsize>) {
    let _ = client.set_nodelay(true);
    let Ok(mut client) = acceptor.accept(client).await else { return };
    handshakes.fetch_add(1, Ordering::SeqCst);
    let Ok(mut server) = TcpStream::connect(behind).await else { return };
    let _ = server.set_nodelay(true);
    // Where the server behind resets, this ends without the close_notify that an orderly end has.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}
