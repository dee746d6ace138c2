//! Bytes that pass unread, both ways: protocols agreed on by `Upgrade`, and TLS that only the server can read.

use crate::body::Body;
use crate::headers;
use crate::meter::{Origin, bump};
use crate::upstream;
use crate::worker::Worker;
use bytes::Bytes;
use http::Response;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

/// Hands the server's consent to speak another protocol to the client, then passes bytes until one side ends.
pub(crate) fn upgrade(
    worker: &Arc<Worker>,
    mut response: Response<Incoming>,
    client: OnUpgrade,
) -> Response<Body> {
    bump(&worker.meter.tunnels, 1);
    let server = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        let Ok(server) = server.await else { return };
        let Ok(client) = client.await else { return };
        let _ = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
    });
    let (mut head, _) = response.into_parts();
    headers::strip(&mut head.headers, true);
    Response::from_parts(head, Body::full(Bytes::new(), Origin::Organic))
}

/// Passes a connection on to the server, byte for byte.
pub(crate) async fn raw(worker: &Worker, mut client: TcpStream) {
    bump(&worker.meter.not_covered, 1);
    if let Ok(mut server) = upstream::tcp(worker).await {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
