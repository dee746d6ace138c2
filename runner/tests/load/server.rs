//! A server that answers each request by a script, byte for byte.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These bytes, in one write.
    Send(Vec<u8>),
    /// Nothing for so long.
    Wait(Duration),
    /// Nothing until the client goes away.
    Hang,
    /// The socket closes in order.
    Close,
    /// The socket is reset.
    Reset,
}

/// One request as it came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) number: Option<u64>,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) log: Arc<Mutex<Vec<Asked>>>,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) most_at_once: Arc<AtomicUsize>,
    /// Dropped with the server, which ends its thread.
    _end: oneshot::Sender<()>,
}

impl Server {
    /// Serves on a free port until dropped; `script` is asked for each request.
    pub(crate) fn start(script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (log, connections, most) = (Arc::default(), Arc::default(), Arc::default());
        let (end, ended) = oneshot::channel();
        let server = Self {
            address,
            log: Arc::clone(&log),
            connections: Arc::clone(&connections),
            most_at_once: Arc::clone(&most),
            _end: end,
        };
        let (script, now) = (Arc::new(script), Arc::new(AtomicUsize::new(0)));
        let serve = async move {
            while let Ok((socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (script, log, now, most) =
                    (Arc::clone(&script), Arc::clone(&log), Arc::clone(&now), Arc::clone(&most));
                tokio::spawn(async move {
                    let mut socket = socket;
                    while let Some(asked) = read_request(&mut socket).await {
                        let steps = script(&asked);
                        log.lock().expect("the log").push(asked);
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        let goes_on = play(&mut socket, steps, &now).await;
                        if !goes_on {
                            return;
                        }
                    }
                });
            }
        };
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve => {}
                    _ = ended => {}
                }
            });
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked, by number.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let mut all = self.log.lock().expect("the log").clone();
        all.retain(|asked| asked.number.is_some());
        all.sort_by_key(|asked| asked.number);
        all
    }
}

/// Plays the script; whether the connection goes on.
async fn play(socket: &mut TcpStream, steps: Vec<Step>, now: &AtomicUsize) -> bool {
    let last = steps.len().saturating_sub(1);
    for (place, step) in steps.into_iter().enumerate() {
        // Before the last bytes are out: the client may send the next request as soon as it has them.
        if place == last {
            now.fetch_sub(1, Ordering::SeqCst);
        }
        match step {
            Step::Send(bytes) => {
                if socket.write_all(&bytes).await.is_err() {
                    return false;
                }
            }
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Hang => {
                let mut rest = [0; 64];
                while socket.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                return false;
            }
            Step::Close => return false,
            Step::Reset => {
                socket2::SockRef::from(&*socket)
                    .set_linger(Some(Duration::ZERO))
                    .expect("linger is settable");
                return false;
            }
        }
    }
    true
}

async fn read_request(socket: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |value| value.parse().expect("a length"));
    let mut body = bytes[head + 4..].to_vec();
    while body.len() < length {
        if socket.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let number = headers.get("x-brownout-request").map(|value| value.parse().expect("a number"));
    Some(Asked { number, path, headers, body })
}

/// An answer that is one JSON body.
pub(crate) fn json(status: u16, body: &str) -> Step {
    Step::Send(
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

/// The headers of a stream.
pub(crate) fn stream_head() -> Step {
    Step::Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
    )
}

/// One chunk of a body.
pub(crate) fn chunk(text: &str) -> Step {
    Step::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

/// The end of a chunked body.
pub(crate) fn end() -> Step {
    Step::Send(b"0\r\n\r\n".to_vec())
}

pub(crate) fn token(text: &str) -> Step {
    chunk(&format!("data: {{\"model\":\"m\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"))
}

pub(crate) fn finish(reason: &str) -> Step {
    chunk(&format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n"))
}

pub(crate) fn usage(tokens: u32) -> Step {
    chunk(&format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{tokens}}}}}\n\n"
    ))
}

pub(crate) fn done() -> Step {
    chunk("data: [DONE]\n\n")
}

/// A good stream of two tokens.
pub(crate) fn good() -> Vec<Step> {
    vec![stream_head(), token("a"), token("b"), finish("stop"), usage(2), done(), end()]
}
