//! The yardstick: the least that a proxy made of hyper can be. One thread, bodies passed frame by frame as they come,
//! idle upstream connections kept in a plain stack; no layers, no deadlines, no counting.

use anyhow::Result;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::net::{TcpListener, TcpStream};

type Idle = Rc<RefCell<Vec<SendRequest<Incoming>>>>;

/// Serves for ever. Runs inside a `LocalSet`.
pub(crate) async fn serve(listener: TcpListener, upstream: SocketAddr) -> Result<()> {
    let idle = Idle::default();
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let idle = Rc::clone(&idle);
        tokio::task::spawn_local(async move {
            let service =
                hyper::service::service_fn(move |request| forward(request, Rc::clone(&idle), upstream));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn forward(request: Request<Incoming>, idle: Idle, upstream: SocketAddr) -> Result<Response<Incoming>> {
    let reused = std::iter::from_fn(|| idle.borrow_mut().pop()).find(|sender| !sender.is_closed());
    let mut sender = match reused {
        Some(sender) => sender,
        None => {
            let socket = TcpStream::connect(upstream).await?;
            socket.set_nodelay(true)?;
            let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
            tokio::task::spawn_local(connection);
            sender
        }
    };
    let response = sender.send_request(request).await?;
    // The connection takes its next request when this answer has been read to its end.
    tokio::task::spawn_local(async move {
        if sender.ready().await.is_ok() {
            idle.borrow_mut().push(sender);
        }
    });
    Ok(response)
}
