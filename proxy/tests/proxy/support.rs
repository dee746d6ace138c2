//! A server that does as the script says, and a client that notes when each byte came.

use brownout_injector::journal::{Entry, Fired, What};
use brownout_injector::{Plan, load};
use brownout_proxy::{Config, Control, Journal, Proxy};
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
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

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As HTTP wants it.
    Complete,
    /// The connection ended before.
    Eof,
    /// The connection was reset.
    Reset,
}

/// An answer as the client saw it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
    /// When pieces of the body came, with how many bytes were there then.
    pub(crate) times: Vec<(Instant, usize)>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// How often `what` is in the body.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.text().matches(what).count()
    }
}

/// A client's connection.
pub(crate) struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.expect("somebody listens");
        stream.set_nodelay(true).expect("a socket has it");
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // Whether the other side still reads shows in what comes back.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Sends a request, and reads its whole answer.
    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Answer {
        self.send(request).await;
        self.answer().await
    }

    /// Some bytes more; `Err` says how it ended.
    async fn more(&mut self) -> Result<(), End> {
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) => Err(End::Eof),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Err(End::Reset),
            Err(error) => panic!("reading an answer: {error}"),
        }
    }

    /// The head of the next answer.
    pub(crate) async fn head(&mut self) -> Result<String, End> {
        loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                let head = self.read.drain(..end + 4).collect();
                return Ok(String::from_utf8(head).expect("heads are ASCII here"));
            }
            self.more().await?;
        }
    }

    /// The next answer, whole.
    pub(crate) async fn answer(&mut self) -> Answer {
        let mut answer =
            Answer { head: String::new(), body: Vec::new(), end: End::Complete, times: Vec::new() };
        match self.head().await {
            Ok(head) => answer.head = head,
            Err(end) => return Answer { end, ..answer },
        }
        if let Some(length) = answer.header("content-length") {
            let length = length.parse().expect("a number");
            while answer.body.len() < length {
                self.note(&mut answer, length);
                if answer.body.len() < length
                    && let Err(end) = self.more().await
                {
                    answer.end = end;
                    break;
                }
            }
        } else if answer.header("transfer-encoding").is_some() {
            answer.end = self.chunks(&mut answer).await.err().unwrap_or(End::Complete);
        }
        answer
    }

    fn note(&mut self, answer: &mut Answer, most: usize) {
        let n = self.read.len().min(most - answer.body.len());
        answer.body.extend(self.read.drain(..n));
        answer.times.push((Instant::now(), answer.body.len()));
    }

    async fn chunks(&mut self, answer: &mut Answer) -> Result<(), End> {
        loop {
            let line = loop {
                match find(&self.read, b"\r\n") {
                    Some(end) => break self.read.drain(..end + 2).collect::<Vec<u8>>(),
                    None => self.more().await?,
                }
            };
            let size = String::from_utf8_lossy(&line);
            let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size");
            while self.read.len() < size + 2 {
                self.more().await?;
            }
            self.note(answer, answer.body.len() + size);
            self.read.drain(..2);
            if size == 0 {
                answer.times.pop();
                return Ok(());
            }
        }
    }

    /// The next events of a stream under way, until `what` has come.
    pub(crate) async fn until(&mut self, what: &str) {
        while find(&self.read, what.as_bytes()).is_none() {
            self.more().await.expect("the stream goes on");
        }
    }

    /// How the chunked answer under way ends; its head was read before.
    pub(crate) async fn answer_rest(&mut self) -> End {
        loop {
            if self.read.ends_with(b"0\r\n\r\n") {
                return End::Complete;
            }
            if let Err(end) = self.more().await {
                return end;
            }
        }
    }

    /// Reads on without keeping anything, until nothing comes for a while: how many bytes, and the largest `gauge`.
    pub(crate) async fn drain(&mut self, gauge: impl Fn() -> usize) -> (usize, usize) {
        let (mut read, mut most) = (self.read.len(), 0);
        let mut buffer = vec![0; 256 << 10];
        for turn in 0.. {
            if turn % 64 == 0 {
                most = most.max(gauge());
            }
            match tokio::time::timeout(Duration::from_millis(500), self.stream.read(&mut buffer)).await {
                Ok(Ok(n)) if n > 0 => read += n,
                _ => break,
            }
        }
        (read, most)
    }

    /// Whether the connection ends, and how, without one byte more.
    pub(crate) async fn ends(&mut self) -> End {
        self.more().await.expect_err("nothing more comes")
    }
}

/// A proxy under test, with its journal.
pub(crate) struct Bench {
    pub(crate) proxy: Option<Proxy>,
    pub(crate) control: Control,
    pub(crate) addr: SocketAddr,
    journal: Receiver<Entry>,
}

impl Bench {
    pub(crate) fn start(upstream: &str) -> Self {
        Self::with(upstream, |_| {})
    }

    pub(crate) fn with(upstream: &str, change: impl FnOnce(&mut Config)) -> Self {
        let (journal, lines) = Journal::channel(10_000);
        let mut config =
            Config::new(([127, 0, 0, 1], 0).into(), upstream.parse().expect("a test's own upstream"));
        config.journal = journal;
        change(&mut config);
        let proxy = Proxy::start(config).expect("a free port");
        Self { control: proxy.control(), addr: proxy.addr(), proxy: Some(proxy), journal: lines }
    }

    /// Arms these faults (YAML, the items of `faults`) for a minute.
    pub(crate) fn arm(&self, faults: &str) {
        self.control.arm(plan(faults, "60s"), None);
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.addr).await
    }

    /// The next thing a fault did.
    pub(crate) fn fired(&self) -> Fired {
        loop {
            let entry = self.journal.recv_timeout(Duration::from_secs(5)).expect("a fault did something");
            if let What::Fired(fired) = entry.what {
                return fired;
            }
        }
    }

    /// Waits until the traffic is as `is` wants it.
    pub(crate) async fn traffic(&self, is: impl Fn(&brownout_proxy::Traffic) -> bool) {
        for _ in 0..5_000 {
            if is(&self.control.snapshot()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("in vain; at last it was {:#?}", Short(&self.control.snapshot()));
    }
}

struct Short<'a>(&'a brownout_proxy::Traffic);

impl std::fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let t = self.0;
        f.debug_struct("Traffic")
            .field("finished", &t.finished)
            .field("failures", &t.failures)
            .field("in_flight", &t.in_flight)
            .field("connections", &t.connections)
            .field("events", &t.events)
            .finish_non_exhaustive()
    }
}

/// A plan of these faults that lasts so long.
pub(crate) fn plan(faults: &str, lasts: &str) -> Plan {
    let text = format!(
        "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: test}}\nspec:\n  seed: 7\n  \
         target: {{url: 'http://127.0.0.1:1'}}\n  phases: {{fault: {lasts}}}\n  faults:\n{}\n",
        indent(faults)
    );
    match load::load("test.yaml", &text) {
        Ok(scenario) => Plan::compile(&scenario, None),
        Err(problems) => panic!("{problems}"),
    }
}

fn indent(text: &str) -> String {
    text.trim_matches('\n').lines().map(|line| format!("    {line}\n")).collect()
}

/// A chat request for a stream, or not.
pub(crate) fn chat(stream: bool) -> String {
    post(
        "/v1/chat/completions",
        &format!(
            r#"{{"model":"tiny","stream":{stream},"max_tokens":10,"messages":[{{"role":"user","content":"Say something."}}]}}"#
        ),
    )
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: model.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) const GET: &str = "GET /anything HTTP/1.1\r\nHost: model.test\r\n\r\n";

/// A chat answer of `tokens` events, as one chunked message.
pub(crate) fn chat_stream(tokens: usize) -> Vec<u8> {
    let mut answer = STREAM_HEAD.to_vec();
    answer.extend(chunk(&role()));
    for n in 0..tokens {
        answer.extend(chunk(&token(n)));
    }
    answer.extend(chunk(&finish(tokens)));
    answer.extend(b"0\r\n\r\n");
    answer
}

pub(crate) const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

pub(crate) fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

pub(crate) fn role() -> String {
    event(r#"{"role":"assistant","content":""}"#, "null", "")
}

pub(crate) fn token(n: usize) -> String {
    event(&format!(r#"{{"content":"word{n} "}}"#), "null", "")
}

pub(crate) fn finish(tokens: usize) -> String {
    let usage = format!(
        r#","usage":{{"prompt_tokens":5,"completion_tokens":{tokens},"total_tokens":{}}}"#,
        tokens + 5
    );
    event("{}", r#""stop""#, &usage) + "data: [DONE]\n\n"
}

fn event(delta: &str, finish: &str, more: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"tiny\",\"choices\":[{{\"index\":0,\
         \"delta\":{delta},\"finish_reason\":{finish}}}]{more}}}\n\n"
    )
}

/// A chat answer that is no stream.
pub(crate) fn chat_json() -> String {
    json_answer(
        r#"{"id":"c","object":"chat.completion","model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"one two three"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}"#,
    )
}

pub(crate) fn json_answer(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
