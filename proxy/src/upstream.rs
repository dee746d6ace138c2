//! The bottom of the stack: the request goes to the server, over a connection that is kept where one is free. A call goes
//! in and becomes a request of ours; the answer comes out without the headers that belong to one connection, and whatever
//! goes wrong comes out as a failure by its kind.

use crate::body::Body;
use crate::call::{Call, RequestBody, Sending};
use crate::exchange::exchange;
use crate::failure::{Failure, Unanswered};
use crate::headers;
use crate::link::{Drive, ServerIo};
use crate::meter::bump;
use crate::pool::{Driven, Kept};
use crate::tls::Stream;
use crate::tunnel;
use crate::worker::Worker;
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::uri::{PathAndQuery, Uri};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tower_service::Service;

/// Reads from the server go into buffers that grow to this size under large answers, and no further: it bounds what
/// a slow client can make the proxy hold.
const READ_BUFFER: usize = 128 << 10;

/// Sends requests to the server.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    worker: Arc<Worker>,
}

impl Upstream {
    pub(crate) const fn new(worker: Arc<Worker>) -> Self {
        Self { worker }
    }
}

impl Service<Call> for Upstream {
    type Response = Response<Body>;
    type Error = Unanswered;
    type Future = Forward;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unanswered>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Forward {
        forward(&self.worker, call)
    }
}

/// An answer to come.
pub(crate) type Forward = Pin<Box<dyn Future<Output = Result<Response<Body>, Unanswered>> + Send>>;

fn forward(worker: &Arc<Worker>, mut call: Call) -> Forward {
    if call.head.method == Method::CONNECT {
        return Box::pin(std::future::ready(Err(Failure::Connect.into())));
    }
    let upgrade = call.head.extensions.remove::<OnUpgrade>();
    let inbound_h2 = call.client.h2();
    let grpc = || {
        let kind = call.head.headers.get(CONTENT_TYPE);
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
    };
    let h2 = worker.upstream_h2() || (inbound_h2 && grpc());
    prepare(worker, &mut call, upgrade.is_some() && !h2, h2);
    let request = Request::from_parts(call.head, Sending::new(call.body));
    match upgrade {
        _ if h2 => Box::pin(send_h2(worker.clone(), request)),
        Some(client) => Box::pin(upgraded(worker.clone(), request, client)),
        None => send_h1(worker, request),
    }
}

/// Makes the client's request one of ours.
///
/// `Host` stays the client's, as the server may route or build links by it, unless the server is spoken to by TLS:
/// then it is the server's own, as its certificate and its virtual hosts go by that name.
fn prepare(worker: &Worker, call: &mut Call, upgrade: bool, h2: bool) {
    let upstream = worker.upstream();
    let head = &mut call.head;
    headers::strip(&mut head.headers, upgrade);
    if call.client.h2() {
        headers::join_cookies(&mut head.headers);
    }
    if upstream.tls() {
        if let Ok(host) = HeaderValue::from_str(upstream.authority().as_str()) {
            head.headers.insert(HOST, host);
        }
    } else if !head.headers.contains_key(HOST) {
        let host = head.uri.authority().unwrap_or_else(|| upstream.authority());
        if let Ok(host) = HeaderValue::from_str(host.as_str()) {
            head.headers.insert(HOST, host);
        }
    }
    if h2 {
        let authority = head.headers.remove(HOST);
        let authority = authority.and_then(|host| http::uri::Authority::try_from(host.as_bytes()).ok());
        let mut parts = std::mem::take(&mut head.uri).into_parts();
        parts.scheme = Some(if upstream.tls() { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP });
        parts.authority = Some(authority.unwrap_or_else(|| upstream.authority().clone()));
        parts.path_and_query = Some(prefixed(upstream.prefix(), parts.path_and_query));
        head.uri = Uri::from_parts(parts).unwrap_or_default();
        head.version = Version::HTTP_2;
    } else {
        if head.uri.authority().is_some() || !upstream.prefix().is_empty() {
            let parts = std::mem::take(&mut head.uri).into_parts();
            head.uri = Uri::from(prefixed(upstream.prefix(), parts.path_and_query));
        }
        head.version = Version::HTTP_11;
    }
}

fn prefixed(prefix: &str, path: Option<PathAndQuery>) -> PathAndQuery {
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    if prefix.is_empty() {
        return path;
    }
    PathAndQuery::try_from(format!("{prefix}{path}")).unwrap_or(path)
}

/// Makes the server's answer one of ours.
pub(crate) fn finish(mut response: Response<Body>) -> Response<Body> {
    headers::strip(response.headers_mut(), false);
    *response.version_mut() = Version::HTTP_11;
    response
}

/// A request to speak another protocol, on a connection of its own.
async fn upgraded(
    worker: Arc<Worker>,
    request: Request<Sending>,
    client: OnUpgrade,
) -> Result<Response<Body>, Unanswered> {
    let io = ServerIo::new(connect(&worker, false).await?);
    // Whatever the answer is, it stays with hyper.
    io.link().open();
    let (mut sender, connection) = builder(&worker).handshake(io).await.map_err(|error| reason(&error))?;
    tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    let response = sender.send_request(request).await.map_err(|error| reason(&error))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(tunnel::upgrade(&worker, response, client));
    }
    Ok(finish(response.map(|incoming| Body::upstream(incoming, None))))
}

/// Over a kept connection where there is one, over a new one otherwise.
pub(crate) fn send_h1(worker: &Arc<Worker>, request: Request<Sending>) -> Forward {
    match worker.pool.take(worker.limits().idle_upstream_for) {
        Some(kept) => {
            // Such a connection may be closed by the server at the very moment we use it. Then the request goes out once
            // more if hyper hands it back (nothing was sent), or if sending it twice does no harm.
            let spare = harmless(&request).map(Box::new);
            match kept {
                Kept::Driven(driven) => Box::pin(exchange(worker, driven, request, spare)),
                Kept::Bare(io) => Box::pin(drive_and_send(worker.clone(), io, request, spare)),
            }
        }
        None => Box::pin(connect_and_send(worker.clone(), request)),
    }
}

async fn connect_and_send(
    worker: Arc<Worker>,
    request: Request<Sending>,
) -> Result<Response<Body>, Unanswered> {
    let io = ServerIo::new(connect(&worker, false).await?);
    drive_and_send(worker, io, request, None).await
}

async fn drive_and_send(
    worker: Arc<Worker>,
    io: ServerIo,
    request: Request<Sending>,
    spare: Option<Box<Request<Sending>>>,
) -> Result<Response<Body>, Unanswered> {
    let driven = drive(&worker, io).await?;
    exchange(&worker, driven, request, spare).await
}

/// A copy of a request that may be sent twice: safe methods without a body (RFC 9110, 9.2.1).
fn harmless(request: &Request<Sending>) -> Option<Request<Sending>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        || !request.body().is_end_stream()
    {
        return None;
    }
    let mut copy = Request::new(Sending::new(RequestBody::Full(bytes::Bytes::new())));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

async fn send_h2(worker: Arc<Worker>, mut request: Request<Sending>) -> Result<Response<Body>, Unanswered> {
    let answered = |response: Response<Incoming>| finish(response.map(|body| Body::upstream(body, None)));
    if let Some(mut sender) = worker.pool.h2()
        && sender.ready().await.is_ok()
    {
        match sender.try_send_request(request).await {
            Ok(response) => return Ok(answered(response)),
            Err(mut error) => match error.take_message() {
                Some(again) => request = again,
                None => return Err(reason(error.error()).into()),
            },
        }
    }
    let stream = connect(&worker, true).await?;
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| reason(&error))?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    worker.pool.put_h2(sender.clone());
    Ok(answered(sender.send_request(request).await.map_err(|error| reason(&error))?))
}

fn builder(worker: &Worker) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .max_buf_size(READ_BUFFER)
        .preserve_header_case(worker.preserve_case() && worker.server_spelling.is_worth_keeping());
    builder
}

/// Lets hyper drive a socket.
async fn drive(worker: &Arc<Worker>, io: ServerIo) -> Result<Driven, Failure> {
    let link = io.link().clone();
    let (sender, connection) = builder(worker).handshake(io).await.map_err(|error| reason(&error))?;
    let (drive, socket) = Drive::new(connection, link.clone());
    tokio::spawn(drive);
    Ok(Driven { sender, link, socket })
}

/// A new connection to the server for HTTP/1.1 or HTTP/2.
async fn connect(worker: &Worker, h2: bool) -> Result<Stream, Failure> {
    let Some(tls) = worker.tls() else { return tcp(worker).await.map(Stream::Left) };
    let both = async { tls.connect(tcp(worker).await?, h2).await };
    // One limit for all of it: a server that hangs in the handshake is as good as none.
    tokio::time::timeout(worker.limits().connect, both).await.unwrap_or(Err(Failure::ConnectTimeout))
}

/// A new connection to the server, for bytes.
pub(crate) async fn tcp(worker: &Worker) -> Result<TcpStream, Failure> {
    let upstream = worker.upstream();
    let connecting = TcpStream::connect((upstream.host(), upstream.port()));
    let stream = match tokio::time::timeout(worker.limits().connect, connecting).await {
        Err(_) => return Err(Failure::ConnectTimeout),
        Ok(Err(error)) => return Err(io_reason(&error)),
        Ok(Ok(stream)) => stream,
    };
    // Tokens are small writes; waiting to fill packets would distort the very gaps that are measured.
    let _ = stream.set_nodelay(true);
    bump(&worker.meter.upstream_connections, 1);
    Ok(stream)
}

/// EMFILE, ENFILE, ENOMEM and ENOBUFS: what is short is ours, and says nothing of the server.
const OURS: [i32; 4] = [24, 23, 12, 105];

fn io_reason(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused,
        io::ErrorKind::TimedOut => Failure::ConnectTimeout,
        io::ErrorKind::AddrNotAvailable => Failure::NoSocket,
        _ if error.raw_os_error().is_some_and(|code| OURS.contains(&code)) => Failure::NoSocket,
        _ => Failure::Unreachable,
    }
}

pub(crate) fn reason(error: &hyper::Error) -> Failure {
    if error.is_user() {
        // The only part of a request that can still fail by the client's doing is its body.
        Failure::ClientBody
    } else if error.is_parse() {
        Failure::Malformed
    } else {
        Failure::Reset
    }
}
