//! Starting and stopping.

use crate::admin;
use crate::config::{Config, StartError};
use crate::control::{Control, Shared};
use crate::site::Site;
use crate::tls::Tls;
use crate::worker::{self, Settings, Stop, Worker};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A running proxy.
///
/// ```
/// use brownout_proxy::{Config, Proxy};
/// use std::time::Duration;
///
/// let upstream = "http://127.0.0.1:9".parse()?;
/// let proxy = Proxy::start(Config::new(([127, 0, 0, 1], 0).into(), upstream))?;
/// assert_ne!(proxy.addr().port(), 0);
/// proxy.shutdown(Duration::ZERO);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    admin: Option<SocketAddr>,
    control: Control,
    stop: Stop,
    workers: Vec<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
    kept: CancellationToken,
}

impl Proxy {
    /// Starts the threads; when it returns, connections are accepted.
    ///
    /// # Errors
    /// An address that cannot be listened on, no more threads, or an `https` upstream without certificates to trust.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let tls = if config.upstream.tls() {
            let tls = Tls::new(&config.upstream, config.trust.as_deref());
            Some(tls.map_err(|why| StartError::Upstream(config.upstream.clone(), why))?)
        } else {
            None
        };
        let count = config.workers.max(1);
        let listen =
            |addr, shared| listener(addr, shared).map_err(|source| StartError::Listen { addr, source });
        // Sockets with SO_REUSEPORT are let in beside those of another process of the same user, and the two would split
        // the clients between them. One without it is refused where anyone listens, yet not for connections in
        // TIME_WAIT: it asks first, and goes before it could get a connection.
        if count > 1 {
            let probe = bound(config.listen, false);
            drop(probe.map_err(|source| StartError::Listen { addr: config.listen, source })?);
        }
        let first = listen(config.listen, count > 1)?;
        let addr = first.local_addr().map_err(StartError::Worker)?;
        let mut listeners = vec![first];
        for _ in 1..count {
            listeners.push(listen(addr, true)?);
        }
        let admin_listener = config.admin.map(|addr| listen(addr, false)).transpose()?;
        let admin = match &admin_listener {
            Some(listener) => Some(listener.local_addr().map_err(StartError::Worker)?),
            None => None,
        };

        let shared = Arc::new(Shared::new(config.journal));
        let settings = Settings {
            upstream: config.upstream,
            tls,
            upstream_h2: config.upstream_h2,
            preserve_case: config.preserve_case,
        };
        let limits = config.limits;
        let worker = |_| Worker::new(Site::of_worker(shared.clone(), limits.clone()), settings.clone());
        let workers: Vec<Arc<Worker>> = listeners.iter().map(worker).collect();
        let sites = workers.iter().map(|worker| worker.site().clone()).collect();
        let control = Control { shared, sites };
        let mut proxy = Self {
            addr,
            admin,
            control,
            stop: Stop { drain: CancellationToken::new(), grace: Arc::new(Mutex::new(Duration::ZERO)) },
            workers: Vec::with_capacity(count),
            keeper: None,
            kept: CancellationToken::new(),
        };
        // From here on a failure drops `proxy`, which ends the threads that already run.
        for (listener, worker) in listeners.into_iter().zip(workers) {
            let stop = proxy.stop.clone();
            proxy.workers.push(
                spawn("brownout-proxy", async move {
                    if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                        worker::run(worker, listener, stop).await;
                    }
                })
                .map_err(StartError::Worker)?,
            );
        }
        let (control, kept, drain) = (proxy.control(), proxy.kept.clone(), proxy.stop.drain.clone());
        proxy.keeper = Some(
            spawn("brownout-keeper", async move {
                let shared = control.shared.clone();
                let serve = async {
                    match admin_listener.map(tokio::net::TcpListener::from_std) {
                        Some(Ok(listener)) => admin::serve(control, listener, drain).await,
                        _ => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = shared.keep_time() => {}
                    () = serve => {}
                    () = kept.cancelled() => {}
                }
            })
            .map_err(StartError::Worker)?,
        );
        Ok(proxy)
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it answers metrics, readiness and control, if at all.
    #[must_use]
    pub const fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The handle by which faults are armed and healed. It outlives the proxy, and then shows its last counts.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Heals, accepts no more connections, lets requests in flight finish for up to `grace`, and ends. Blocks until
    /// then.
    pub fn shutdown(mut self, grace: Duration) {
        self.stop_within(grace);
    }

    fn stop_within(&mut self, grace: Duration) {
        self.control.heal("shutdown");
        *self.stop.grace.lock().unwrap_or_else(PoisonError::into_inner) = grace;
        self.stop.drain.cancel();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        self.kept.cancel();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop_within(Duration::ZERO);
    }
}

/// A thread with a runtime of its own.
pub(crate) fn spawn(
    name: &str,
    main: impl Future<Output = ()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        runtime.block_on(main);
        // A name look-up under way must not keep the thread.
        runtime.shutdown_background();
    })
}

/// A listening socket; `shared` lets several workers listen on one address, each with a queue of its own.
fn listener(addr: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = bound(addr, shared)?;
    socket.set_nonblocking(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket that has the address and does not listen yet.
fn bound(addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&SockAddr::from(addr))?;
    Ok(socket)
}
