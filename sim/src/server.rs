//! The listener, its connections, and the life of a [`Sim`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::config::SimConfig;
use crate::engine::Engine;
use crate::http::{self, Shared};
use crate::truth::RequestTruth;
use crate::weights::{self, WEIGHTS_FILE, Weights, WeightsError};

/// Connections waiting to be accepted; bursts of thousands are what load tests are made of.
const BACKLOG: u32 = 4096;
/// A client must send its next request's headers within this time. It also ends idle keep-alive connections, so it is
/// long: a server that closes just as a pooled connection is taken again would look like a fault that nobody injected.
const HEADER_TIMEOUT: Duration = Duration::from_secs(300);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The sizes in the configuration exclude each other.
    #[error("configuration: {0}")]
    Config(String),
    /// The weights could not be made or loaded.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The address could not be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A thread, a directory or a runtime could not be made.
    #[error("cannot start the server: {0}")]
    Start(#[source] std::io::Error),
}

/// A running server. Dropping it stops it without waiting for anyone; [`Sim::shutdown`] drains it.
#[derive(Debug)]
pub struct Sim {
    addr: SocketAddr,
    weights: Option<std::path::PathBuf>,
    shared: Arc<Shared>,
    stop: watch::Sender<Stop>,
    ended: Option<oneshot::Receiver<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    Drain,
    Now,
}

impl Sim {
    /// Makes or loads the weights, starts the engine's thread and the HTTP thread, and returns once the server
    /// listens. May be called on any runtime; the server runs on none of the caller's threads.
    ///
    /// # Errors
    /// See [`SimError`].
    pub async fn start(config: SimConfig) -> Result<Sim, SimError> {
        config.scheduler.check().map_err(SimError::Config)?;
        let (path, mapped) = match &config.weights_dir {
            Some(dir) => {
                let path = dir.join(WEIGHTS_FILE);
                let path = if path.exists() { path } else { weights::write(dir, config.seed)? };
                let mapped = Weights::open(&path)?;
                (Some(path), mapped)
            }
            None => {
                // Mapped and gone at once: the map keeps the bytes, and a killed server leaves no file behind.
                let dir =
                    tempfile::Builder::new().prefix("brownout-sim-").tempdir().map_err(SimError::Start)?;
                let mapped = Weights::open(&weights::write(dir.path(), config.seed)?)?;
                dir.close().map_err(SimError::Start)?;
                (None, mapped)
            }
        };
        let engine = Engine::start(&config, mapped).map_err(SimError::Start)?;
        let address = config.listen;
        let shared = Arc::new(Shared::new(engine, config));
        let (stop, stopped) = watch::channel(Stop::No);
        let (started, start) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let thread_shared = shared.clone();
        std::thread::Builder::new()
            .name("sim-http".to_owned())
            .spawn(move || {
                match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => {
                        runtime.block_on(run(thread_shared, address, started, stopped));
                        // What is still open is cut here.
                        runtime.shutdown_background();
                    }
                    Err(error) => {
                        let _ = started.send(Err(SimError::Start(error)));
                    }
                }
                let _ = end.send(());
            })
            .map_err(SimError::Start)?;
        let gone = || SimError::Start(std::io::Error::other("the HTTP thread ended before it listened"));
        let addr = start.await.map_err(|_| gone())?.inspect_err(|_| shared.engine.stop())?;
        Ok(Sim { addr, weights: path, shared, stop, ended: Some(ended) })
    }

    /// The address it listens on, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://ADDRESS`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The mapped weights file, where a directory was given for it; one that the server made for itself has no name
    /// any more.
    pub fn weights_path(&self) -> Option<&std::path::Path> {
        self.weights.as_deref()
    }

    /// The server's own record of the requests that ended, oldest first, at most `truth_capacity` of them.
    pub fn truth(&self) -> Vec<RequestTruth> {
        self.shared.engine.truth()
    }

    /// What `GET /metrics` answers.
    pub fn metrics(&self) -> String {
        self.shared.engine.metrics()
    }

    /// Stops accepting, lets requests in flight finish for at most `drain`, then cuts the rest.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(Stop::Drain);
        if let Some(ended) = self.ended.take() {
            // An error means that the thread is gone already.
            let _ = ended.await;
        }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.stop.send_replace(Stop::Now);
        self.shared.engine.stop();
    }
}

async fn run(
    shared: Arc<Shared>,
    address: SocketAddr,
    started: oneshot::Sender<Result<SocketAddr, SimError>>,
    mut stop: watch::Receiver<Stop>,
) {
    let bound = listen(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let listener = match bound {
        Ok((addr, listener)) => {
            let _ = started.send(Ok(addr));
            listener
        }
        Err(source) => {
            let _ = started.send(Err(SimError::Listen { address, source }));
            return;
        }
    };
    let mut connections = JoinSet::new();
    let told = stop.clone();
    let stopping = |stop: &Stop| *stop != Stop::No;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(shared.clone(), stream, told.clone()));
                }
                // Out of file descriptors, or a client that left in between: others may still be served.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = stop.wait_for(stopping) => break,
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = drained => {}
        () = tokio::time::sleep(shared.config.drain) => {}
        _ = stop.wait_for(|stop| *stop == Stop::Now) => {}
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server takes its port again at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, mut stop: watch::Receiver<Stop>) {
    // Tokens are small and must not wait for each other.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| http::handle(shared.clone(), request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut draining = false;
    loop {
        tokio::select! {
            // A connection that breaks is the client's doing; the engine is told by the dropped ticket.
            _ = connection.as_mut() => return,
            _ = stop.wait_for(|stop| *stop != Stop::No), if !draining => {
                draining = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
