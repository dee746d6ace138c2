//! One worker: a thread, its runtime, its listener, its connections. Nothing on the way of a request is shared with
//! another worker but the plan.

use crate::client::{Client, ClientIo, Graceful, Serve};
use crate::config::Upstream;
use crate::meter::bump;
use crate::pool::Pool;
use crate::site::Site;
use crate::spelling::{Spelling, has_capitals};
use crate::stack;
use crate::tls::Tls;
use crate::tunnel;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioExecutor;
use rustix::net::RecvFlags;
use std::collections::HashMap;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How often dawdling clients and idle connections are looked for.
const SWEEP: Duration = Duration::from_millis(500);
/// The pause after a failed accept, which is nearly always for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// The first bytes of HTTP/2 with prior knowledge (RFC 9113, 3.4), as many as tell it from any HTTP/1.1 method.
const H2_PREFACE: &[u8] = b"PRI";
/// How much of what a client says first is looked at: most heads are there whole.
const FIRST_LOOK: usize = 1 << 10;
/// The first byte of a TLS handshake record (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// What a worker has.
#[derive(Debug)]
pub(crate) struct Worker {
    site: Arc<Site>,
    pub(crate) pool: Pool,
    pub(crate) server_spelling: Spelling,
    settings: Settings,
    clients: Mutex<HashMap<u64, Arc<Client>>>,
    next_client: AtomicU64,
    emptied: Notify,
}

/// What a worker is told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) upstream: Upstream,
    /// Only where the server is spoken to by TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) upstream_h2: bool,
    pub(crate) preserve_case: bool,
}

impl Worker {
    pub(crate) fn new(site: Arc<Site>, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            site,
            pool: Pool::default(),
            server_spelling: Spelling::default(),
            settings,
            clients: Mutex::new(HashMap::new()),
            next_client: AtomicU64::new(0),
            emptied: Notify::new(),
        })
    }

    pub(crate) const fn upstream(&self) -> &Upstream {
        &self.settings.upstream
    }

    pub(crate) const fn tls(&self) -> Option<&Tls> {
        self.settings.tls.as_ref()
    }

    pub(crate) const fn upstream_h2(&self) -> bool {
        self.settings.upstream_h2
    }

    pub(crate) const fn preserve_case(&self) -> bool {
        self.settings.preserve_case
    }

    /// What the layers of its stack share.
    pub(crate) const fn site(&self) -> &Arc<Site> {
        &self.site
    }

    pub(crate) fn register(&self, id: u64, client: &Arc<Client>) {
        self.clients().insert(id, client.clone());
    }

    pub(crate) fn unregister(&self, id: u64) {
        let mut clients = self.clients();
        clients.remove(&id);
        if clients.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sweep(&self) {
        let now = self.millis();
        let limits = self.limits();
        // Cutting a client wakes its task; that runs later, so the lock is free by then.
        for client in self.clients().values() {
            client.enforce(now, limits.header_read, limits.idle);
        }
        self.pool.prune(limits.idle_upstream_for);
    }
}

/// A worker is a site with a listener and connections.
impl Deref for Worker {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

/// How a worker is told to end.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// No new connections, no new requests.
    pub(crate) drain: CancellationToken,
    /// How long requests in flight may still take; read once `drain` is cancelled.
    pub(crate) grace: Arc<Mutex<Duration>>,
}

/// Serves until told to stop, then lets what is in flight finish.
pub(crate) async fn run(worker: Arc<Worker>, listener: TcpListener, stop: Stop) {
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let tasks = tokio_util::task::TaskTracker::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    bump(&worker.meter.accepted, 1);
                    if tasks.len() >= worker.limits().connections {
                        bump(&worker.meter.turned_away, 1);
                        continue;
                    }
                    let _ = stream.set_nodelay(true);
                    tasks.spawn(connection(worker.clone(), stream, stop.drain.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            _ = sweep.tick() => worker.sweep(),
            () = stop.drain.cancelled() => break,
        }
    }
    drop(listener);
    let draining: Vec<_> = worker.clients().values().cloned().collect();
    draining.iter().for_each(|client| client.drain());
    tasks.close();
    let grace = *stop.grace.lock().unwrap_or_else(PoisonError::into_inner);
    // What is not done by then is dropped with the runtime.
    let _ = tokio::time::timeout(grace, tasks.wait()).await;
}

/// One client connection, from its first byte on.
async fn connection(worker: Arc<Worker>, stream: TcpStream, drain: CancellationToken) {
    let speaks = tokio::select! {
        speaks = tokio::time::timeout(worker.limits().idle, first_bytes(&stream)) => speaks,
        () = drain.cancelled() => return,
    };
    let id = worker.next_client.fetch_add(1, Relaxed);
    match speaks {
        Ok(Some(Speaks::Http1)) => {
            let client = Client::new(&worker, id, false);
            let service = stack::Entry::new(&worker, &client);
            let mut builder = http1::Builder::new();
            builder
                .max_buf_size(worker.limits().header_bytes.max(8192))
                .preserve_header_case(worker.preserve_case() && may_write_capitals(&stream))
                .auto_date_header(false);
            let io = ClientIo::new(stream, client.clone(), worker.clone());
            Serve::new(builder.serve_connection(io, service).with_upgrades(), client).await;
        }
        Ok(Some(Speaks::Http2)) => {
            let client = Client::new(&worker, id, true);
            let service = stack::Entry::new(&worker, &client);
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .max_header_list_size(u32::try_from(worker.limits().header_bytes).unwrap_or(u32::MAX))
                .auto_date_header(false);
            let io = ClientIo::new(stream, client.clone(), worker.clone());
            Serve::new(builder.serve_connection(io, service), client).await;
        }
        Ok(Some(Speaks::Tls)) => tunnel::raw(&worker, stream).await,
        Ok(None) | Err(_) => {}
    }
}

enum Speaks {
    Http1,
    Http2,
    Tls,
}

/// Whether the head that a client begins with has header names with capitals, or is not there whole.
fn may_write_capitals(stream: &TcpStream) -> bool {
    // Not across an await: a connection would be larger by it for all its life.
    let mut first = [0; FIRST_LOOK];
    let Ok((length, _)) = rustix::net::recv(stream, &mut first, RecvFlags::PEEK) else { return true };
    memchr::memmem::find(&first[..length], b"\r\n\r\n").is_none_or(|end| has_capitals(&first[..end]))
}

/// What a client speaks, by its first bytes; they stay in the socket. Nothing where it left before it said anything.
async fn first_bytes(stream: &TcpStream) -> Option<Speaks> {
    let mut first = [0; H2_PREFACE.len()];
    // A preface torn apart within its first three bytes is possible and very rare: a few more looks will do.
    for _ in 0..50 {
        let n = stream.peek(&mut first).await.ok().filter(|n| *n > 0)?;
        if first[0] == TLS_HANDSHAKE {
            return Some(Speaks::Tls);
        }
        if !H2_PREFACE.starts_with(&first[..n]) {
            return Some(Speaks::Http1);
        }
        if n == first.len() {
            return Some(Speaks::Http2);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Some(Speaks::Http1)
}

impl Graceful for http1::UpgradeableConnection<ClientIo, stack::Entry> {
    fn stop(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl Graceful for http2::Connection<ClientIo, stack::Entry, TokioExecutor> {
    fn stop(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
