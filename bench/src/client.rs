//! The load: raw hyper connections, one request at a time on each, nothing allocated for an event.

use crate::backend::STAMP;
use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

pub(crate) const PATH: &str = "/v1/chat/completions";

/// One keep-alive connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    pub(crate) async fn open(to: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(to).await.with_context(|| format!("connecting to {to}"))?;
        socket.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, host: to.to_string() })
    }

    /// Sends one request; `number` goes out as `x-brownout-request`.
    pub(crate) async fn send(&mut self, body: Bytes, number: Option<u64>) -> Result<Response<Incoming>> {
        let mut request =
            Request::post(PATH).header("host", &self.host).header("content-type", "application/json");
        if let Some(number) = number {
            request = request.header("x-brownout-request", number);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }
}

pub(crate) fn small_body() -> Bytes {
    Bytes::from_static(
        br#"{"model":"bench","messages":[{"role":"user","content":"What does the quick brown fox jump over, and why?"}],"max_tokens":16}"#,
    )
}

pub(crate) fn stream_body(tokens: u64) -> Bytes {
    Bytes::from(format!(
        r#"{{"model":"bench","messages":[{{"role":"user","content":"What does the quick brown fox jump over, and why?"}}],"stream":true,"max_tokens":{tokens}}}"#
    ))
}

/// Requests over `connections` keep-alive connections for `time`; how many were answered with 200.
pub(crate) async fn requests(to: SocketAddr, connections: usize, time: Duration) -> Result<u64> {
    let end = Instant::now() + time;
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let mut connection = Connection::open(to).await?;
        tasks.push(tokio::spawn(async move {
            let mut done = 0;
            while Instant::now() < end {
                let response = connection.send(small_body(), None).await?;
                anyhow::ensure!(response.status() == 200, "status {}", response.status());
                let mut body = response.into_body();
                while let Some(frame) = body.frame().await {
                    frame?;
                }
                done += 1;
            }
            anyhow::Ok(done)
        }));
    }
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(total)
}

/// What one stream looked like from here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Send to first event.
    pub(crate) ttft: Duration,
    /// Time between events; zero for those that came in the same read.
    pub(crate) gaps: Vec<Duration>,
    /// How much longer each was than the same gap when the server sent it; zero where it was shorter.
    pub(crate) longer: Vec<Duration>,
    pub(crate) events: u64,
}

/// Reads one stream to its end.
pub(crate) async fn stream(connection: &mut Connection, tokens: u64) -> Result<Seen> {
    let begin = Instant::now();
    let response = connection.send(stream_body(tokens), None).await?;
    anyhow::ensure!(response.status() == 200, "status {}", response.status());
    let mut body = response.into_body();
    let room = || Vec::with_capacity(tokens as usize + 2);
    let mut seen = Seen { gaps: room(), longer: room(), ..Seen::default() };
    let (mut last, mut after_newline) = (None, false);
    let (mut at, mut stamp) = (0, 0_u64);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let now = Instant::now();
        for byte in data {
            // An event ends with an empty line: two line feeds in a row, wherever reads were cut.
            let event_ends = byte == b'\n' && after_newline;
            after_newline = byte == b'\n' && !event_ends;
            if STAMP.contains(&at) {
                stamp = stamp.wrapping_mul(10).wrapping_add(u64::from(byte.wrapping_sub(b'0')));
            }
            at += 1;
            if !event_ends {
                continue;
            }
            seen.events += 1;
            match last.replace((now, stamp)) {
                None => seen.ttft = now - begin,
                Some((before, sent)) => {
                    let gap = now - before;
                    seen.gaps.push(gap);
                    seen.longer.push(gap.saturating_sub(Duration::from_nanos(stamp.wrapping_sub(sent))));
                }
            }
            (at, stamp) = (0, 0);
        }
    }
    // The finish event and the end marker follow the last token at once: their gaps say nothing about pace. Nor do they
    // carry a stamp.
    let paced = tokens.saturating_sub(1) as usize;
    seen.gaps.truncate(paced);
    seen.longer.truncate(paced);
    Ok(seen)
}

/// `streams_at_once` streams at a time, until each has been at it for `time`. Their beginnings are spread over one stream's
/// length, and over every part of a token's time: real streams do not march in step, and four hundred prompts in one
/// instant would measure a queue.
pub(crate) async fn streams(
    to: SocketAddr,
    streams_at_once: usize,
    tokens: u64,
    time: Duration,
    itl: Duration,
) -> Result<Vec<Seen>> {
    /// Multiples of the golden ratio, taken modulo 1, fill an interval evenly however many there are.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let begin = Instant::now();
    let length = itl.mul_f64(tokens as f64);
    let mut tasks = Vec::new();
    for i in 0..streams_at_once {
        tasks.push(tokio::spawn(async move {
            let begin = begin + length.mul_f64((i as f64 * GOLDEN).fract());
            tokio::time::sleep_until(begin).await;
            let mut connection = Connection::open(to).await?;
            let mut seen = Vec::new();
            while begin.elapsed() < time {
                seen.push(stream(&mut connection, tokens).await?);
            }
            anyhow::Ok(seen)
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}
