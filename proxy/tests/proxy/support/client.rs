//! A client that notes when each byte came.

use super::find;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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
