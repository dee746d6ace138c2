//! Reads one answer as it comes: when its tokens came, what it said, how it ended, and the first thing wrong with it.

use brownout_injector::wire::sse::{self, SseSplitter};
use brownout_injector::wire::{Api, Reading, Unreadable, Usage, read, read_body};
use bytes::{Bytes, BytesMut};

/// The largest event that is read as one; a larger one breaks the format.
pub const MAX_EVENT: usize = 4 << 20;

/// The largest answer without a stream that is kept in memory.
pub const MAX_BODY: usize = 64 << 20;

/// The longest tool-call arguments that are kept for checking.
const MAX_ARGUMENTS: usize = 1 << 20;

/// The first thing in an answer that a client would stumble over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The server says in the answer that it failed.
    Error(String),
    /// No server-sent events.
    Sse(String),
    /// No JSON.
    Json(String),
}

/// One answer, read piece by piece. All times are seconds since the request was sent.
#[derive(Debug)]
pub struct Answer {
    api: Api,
    body: Body,
    hash: Fnv,
    last_read: Option<u64>,
    last_event: Option<f64>,
    arguments: String,
    /// When the first token came.
    pub ttft: Option<f64>,
    /// When the first token that is no reasoning came.
    pub ttfo: Option<f64>,
    /// When the last token came.
    pub last_token: Option<f64>,
    /// Gaps between reads that brought token events.
    pub gaps: Vec<f32>,
    /// Token events.
    pub chunks: u32,
    /// Token events in the same read as the one before.
    pub coalesced: u32,
    /// Whether there was any content: text, reasoning, a tool call, an embedding.
    pub content: bool,
    /// The finish reason.
    pub finish: Option<String>,
    /// The end marker came: nothing that follows matters.
    pub done: bool,
    /// Token counts by the server, the latest of each.
    pub usage: Usage,
    /// The model that says it answers; where events disagree, the first that differs.
    pub model: Option<String>,
    /// Names of tools called.
    pub tools: Vec<String>,
    /// The first thing wrong.
    pub breach: Option<Breach>,
}

#[derive(Debug)]
enum Body {
    Events(SseSplitter),
    Whole { bytes: BytesMut, streamed: bool },
}

impl Answer {
    /// An answer that is a stream of events.
    #[must_use]
    pub const fn events(api: Api) -> Self {
        Self::new(api, Body::Events(SseSplitter::new(MAX_EVENT)))
    }

    /// An answer that is one JSON body. `streamed` says that a stream was asked for all the same, so that its time to
    /// first token is the time to its end.
    #[must_use]
    pub fn whole(api: Api, streamed: bool) -> Self {
        Self::new(api, Body::Whole { bytes: BytesMut::new(), streamed })
    }

    const fn new(api: Api, body: Body) -> Self {
        Self {
            api,
            body,
            hash: Fnv::new(),
            last_read: None,
            last_event: None,
            arguments: String::new(),
            ttft: None,
            ttfo: None,
            last_token: None,
            gaps: Vec::new(),
            chunks: 0,
            coalesced: 0,
            content: false,
            finish: None,
            done: false,
            usage: Usage { prompt: None, cached: None, output: None },
            model: None,
            tools: Vec::new(),
            breach: None,
        }
    }

    /// Whether it is read as a stream of events.
    #[must_use]
    pub const fn is_stream(&self) -> bool {
        matches!(self.body, Body::Events(_))
    }

    /// Hash of all the text so far.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash.0
    }

    /// When the answer last went on: a token, or the finish reason after the last token.
    #[must_use]
    pub const fn went_on_at(&self) -> Option<f64> {
        self.last_event
    }

    /// Takes a frame in, which read number `read` of the connection brought at `at`.
    pub fn push(&mut self, at: f64, read: u64, frame: Bytes) {
        match &mut self.body {
            Body::Whole { bytes, .. } if bytes.len() + frame.len() > MAX_BODY => {
                self.breach
                    .get_or_insert(Breach::Json(format!("the answer is larger than {MAX_BODY} bytes")));
            }
            Body::Whole { bytes, .. } => bytes.extend_from_slice(&frame),
            Body::Events(splitter) => {
                splitter.push(frame);
                while let Body::Events(splitter) = &mut self.body
                    && let Some(piece) = splitter.next_event()
                {
                    if piece.whole {
                        self.event(at, read, &piece.raw);
                    } else {
                        let why = format!("an event larger than {MAX_EVENT} bytes");
                        self.breach.get_or_insert(Breach::Sse(why));
                    }
                }
            }
        }
    }

    /// The body has ended as HTTP says it should, at `at`. Not to be called where the connection broke: what is left
    /// then is no event.
    pub fn end(&mut self, at: f64) {
        let read = self.last_read.map_or(0, |read| read + 1);
        match &mut self.body {
            Body::Events(splitter) => {
                // Servers leave out the last blank line; it counts where it makes sense, and is a cut event otherwise.
                if let Some(piece) = splitter.finish() {
                    let fields = sse::fields(&piece.raw);
                    if fields.data.is_some_and(|data| self.api_read(&data).is_ok()) {
                        self.event(at, read, &piece.raw);
                    }
                }
            }
            Body::Whole { bytes, streamed } => {
                let (bytes, streamed) = (std::mem::take(bytes).freeze(), *streamed);
                if self.breach.is_none() && !bytes.is_empty() {
                    self.whole_body(at, &bytes, streamed);
                }
            }
        }
    }

    fn api_read(&self, data: &[u8]) -> Result<Reading, Unreadable> {
        read(self.api, data)
    }

    fn event(&mut self, at: f64, number: u64, raw: &[u8]) {
        if self.done {
            return;
        }
        let fields = sse::fields(raw);
        let Some(data) = fields.data else {
            // An old llama-server writes its error as a field of its own.
            if raw.starts_with(b"error:") {
                let text = String::from_utf8_lossy(&raw[b"error:".len()..]).trim().to_owned();
                self.breach.get_or_insert(Breach::Error(text));
            }
            return;
        };
        match self.api_read(&data) {
            Ok(mut reading) => {
                if fields.event == Some(b"error") && reading.error.is_none() {
                    reading.error = Some(String::from_utf8_lossy(&data).into_owned());
                }
                self.take_in(at, number, reading);
            }
            Err(Unreadable::Utf8) => {
                self.breach.get_or_insert(Breach::Sse("an event that is no UTF-8".to_owned()));
            }
            Err(Unreadable::Json(why)) => {
                let several = data.contains(&b'\n')
                    && data.split(|byte| *byte == b'\n').all(|line| self.api_read(line).is_ok());
                self.breach.get_or_insert(if several {
                    Breach::Sse("no blank line between two events".to_owned())
                } else {
                    Breach::Json(why)
                });
            }
        }
    }

    fn take_in(&mut self, at: f64, number: u64, reading: Reading) {
        if let Some(error) = reading.error {
            self.breach.get_or_insert(Breach::Error(error));
            return;
        }
        if !reading.text.is_empty()
            || !reading.reasoning.is_empty()
            || !reading.tools.is_empty()
            || !reading.arguments.is_empty()
        {
            self.token(at, number, &reading);
        }
        if let Some(finish) = reading.finish {
            self.finish = Some(finish);
            self.last_event = Some(at);
        }
        self.done |= reading.done;
        let Usage { prompt, cached, output } = reading.usage;
        self.usage.prompt = prompt.or(self.usage.prompt);
        self.usage.cached = cached.or(self.usage.cached);
        self.usage.output = output.or(self.usage.output);
        match (&self.model, reading.model) {
            (None, Some(model)) => self.model = Some(model),
            (Some(known), Some(model)) if *known != model => self.model = Some(model),
            _ => {}
        }
    }

    fn token(&mut self, at: f64, number: u64, reading: &Reading) {
        self.text(reading);
        let same_read = self.last_read == Some(number);
        if let Some(last) = self.last_token {
            self.coalesced += u32::from(same_read);
            // Two reads are never at one moment, however coarse the clock.
            self.gaps.push(if same_read { 0.0 } else { ((at - last) as f32).max(f32::MIN_POSITIVE) });
        }
        self.last_read = Some(number);
        self.chunks += 1;
        self.ttft.get_or_insert(at);
        if !reading.text.is_empty() || !reading.tools.is_empty() || !reading.arguments.is_empty() {
            self.ttfo.get_or_insert(at);
        }
        self.last_token = Some(at);
        self.last_event = Some(at);
    }

    fn text(&mut self, reading: &Reading) {
        self.content = true;
        for text in [&reading.reasoning, &reading.text, &reading.arguments] {
            self.hash.write(text.as_bytes());
        }
        if self.arguments.len() + reading.arguments.len() <= MAX_ARGUMENTS {
            self.arguments.push_str(&reading.arguments);
        }
        for tool in &reading.tools {
            self.hash.write(tool.as_bytes());
            if self.tools.len() < 64 {
                self.tools.push(tool.clone());
            }
        }
    }

    fn whole_body(&mut self, at: f64, bytes: &[u8], streamed: bool) {
        let reading = match read_body(self.api, bytes) {
            Ok(reading) => reading,
            Err(Unreadable::Utf8) => {
                self.breach = Some(Breach::Json("the answer is no UTF-8".to_owned()));
                return;
            }
            Err(Unreadable::Json(why)) => {
                self.breach = Some(Breach::Json(why));
                return;
            }
        };
        if let Some(error) = reading.error {
            self.breach = Some(Breach::Error(error));
            return;
        }
        let text = !reading.text.is_empty() || !reading.reasoning.is_empty() || !reading.tools.is_empty();
        if text {
            self.text(&reading);
        } else if self.api == Api::OpenaiEmbeddings && has_embedding(bytes) {
            self.content = true;
            self.hash.write(bytes);
        }
        if self.content {
            self.last_token = Some(at);
            if streamed {
                (self.ttft, self.ttfo, self.chunks) = (Some(at), Some(at), 1);
            }
        }
        (self.finish, self.usage, self.model, self.done) =
            (reading.finish, reading.usage, reading.model, reading.done);
    }

    /// Whether the tool calls' arguments are whole JSON documents, as a caller would parse them.
    #[must_use]
    pub fn arguments_are_json(&self) -> bool {
        serde_json::Deserializer::from_str(&self.arguments)
            .into_iter::<serde::de::IgnoredAny>()
            .all(|document| document.is_ok())
    }
}

/// Whether there is at least one vector that is not empty.
fn has_embedding(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Embeddings {
        data: Vec<Embedding>,
    }
    #[derive(serde::Deserialize)]
    struct Embedding {
        embedding: serde_json::Value,
    }
    serde_json::from_slice(bytes).is_ok_and(|answer: Embeddings| {
        answer.data.iter().any(|one| match &one.embedding {
            serde_json::Value::Array(vector) => !vector.is_empty(),
            serde_json::Value::String(base64) => !base64.is_empty(),
            _ => false,
        })
    })
}

/// 64-bit FNV-1a, as the domain's `stable_hash`, over text that comes in pieces.
#[derive(Debug)]
struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(brownout_injector::draw::stable_hash(b""))
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
