//! A server that does as the script says.

use super::find;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// What the server does when a request has come in whole.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes so many times.
    SendTimes(Vec<u8>, usize),
    /// Waits until the test lets it go on.
    Wait,
    /// Closes the connection.
    Close,
    /// Closes it after this time, whatever comes until then.
    CloseIn(Duration),
    /// Resets the connection.
    Reset,
}

/// A request as the server saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

type Script = dyn Fn(&Seen) -> Vec<Do> + Send + Sync;

/// The server behind the proxy.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    go: watch::Sender<bool>,
    /// One message for each connection that the proxy closed.
    pub(crate) closed: mpsc::UnboundedReceiver<()>,
}

impl Server {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Vec<Do> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("it is bound");
        let (seen, script) = (Arc::new(Mutex::new(Vec::new())), Arc::new(script));
        let (go, wait) = watch::channel(false);
        let (tell, closed) = mpsc::unbounded_channel();
        let all = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (all, script, wait, tell) = (all.clone(), script.clone(), wait.clone(), tell.clone());
                tokio::spawn(async move {
                    serve(stream, &all, &*script, wait).await;
                    let _ = tell.send(());
                });
            }
        });
        Self { addr, seen, go, closed }
    }

    /// A server that answers every request with these bytes.
    pub(crate) async fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |_| vec![Do::Send(answer.clone())]).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn go_on(&self) {
        self.go.send_replace(true);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panicked while it held this").clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    all: &Mutex<Vec<Seen>>,
    script: &Script,
    mut wait: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let mut read = Vec::new();
    loop {
        let Some(request) = request(&mut stream, &mut read).await else { return };
        all.lock().expect("no test panicked while it held this").push(request.clone());
        for step in script(&request) {
            match step {
                Do::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Do::SendTimes(bytes, times) => {
                    for _ in 0..times {
                        if stream.write_all(&bytes).await.is_err() {
                            return;
                        }
                    }
                }
                Do::Wait => {
                    let mut byte = [0];
                    tokio::select! {
                        _ = wait.wait_for(|go| *go) => {}
                        // Nothing more is to come from the proxy now: this is it going away.
                        _ = stream.read(&mut byte) => return,
                    }
                }
                Do::Close => return,
                Do::CloseIn(time) => return tokio::time::sleep(time).await,
                Do::Reset => {
                    let linger = Some(Duration::ZERO);
                    socket2::SockRef::from(&stream).set_linger(linger).expect("a socket has it");
                    return;
                }
            }
        }
    }
}

/// The next request: a head, and a body by its content-length or in chunks.
async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<Seen> {
    let end = loop {
        if let Some(end) = find(read, b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    read.drain(..end);
    let lower = head.to_ascii_lowercase();
    let mut body = Vec::new();
    if let Some(length) = lower.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        let length: usize = length.trim().parse().ok()?;
        while read.len() < length {
            if stream.read_buf(read).await.ok()? == 0 {
                return None;
            }
        }
        body = read.drain(..length).collect();
    } else if lower.contains("transfer-encoding: chunked") {
        while find(read, b"0\r\n\r\n").is_none() {
            if stream.read_buf(read).await.ok()? == 0 {
                return None;
            }
        }
        body = std::mem::take(read);
    }
    Some(Seen { head, body })
}
