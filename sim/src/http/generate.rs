//! What all text APIs share: checking a request, handing it to the engine, and answering whole or as a stream.

use bytes::{BufMut, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;

use super::body::EventStream;
use super::error::ApiError;
use super::{Body, Call, json};
use crate::answer::{AnswerSpec, Finish, Shape, Text, Token};
use crate::model::Sampling;
use crate::noise::join;
use crate::vocab;

/// Most stop sequences, and the longest one in bytes: what is held back must stay small.
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 256;

/// A request for text in no API's words.
pub(super) struct Ask {
    pub(super) prompt: Vec<u32>,
    pub(super) max_tokens: Option<u64>,
    pub(super) min_tokens: u64,
    pub(super) ignore_eos: bool,
    pub(super) temperature: Option<f64>,
    pub(super) seed: Option<i64>,
    pub(super) stop: Vec<String>,
    pub(super) shape: Shape,
    pub(super) salt: Option<String>,
}

impl Ask {
    pub(super) fn new(prompt: Vec<u32>) -> Ask {
        Ask {
            prompt,
            max_tokens: None,
            min_tokens: 0,
            ignore_eos: false,
            temperature: None,
            seed: None,
            stop: Vec::new(),
            shape: Shape::Prose,
            salt: None,
        }
    }
}

/// What is known of an answer so far; complete when it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
    pub(super) cached_tokens: u64,
}

/// An API's way to write an answer.
pub(super) trait Dialect: Send + Sync {
    /// What is sent with the headers, before any token.
    fn open(&mut self, _out: &mut BytesMut, _so_far: &End) {}
    /// One token. Its text may be empty; its `finish` is set on the last, and `close` follows.
    fn token(&mut self, out: &mut BytesMut, token: &Token, so_far: &End);
    /// The end.
    fn close(&mut self, out: &mut BytesMut, finish: Finish, end: &End);
    /// The answer in one piece.
    fn whole(&mut self, text: String, finish: Finish, end: &End) -> Value;
}

/// Serves a request.
pub(super) async fn serve<D: Dialect + 'static>(
    call: &Call,
    ask: Ask,
    stream: bool,
    mut dialect: D,
) -> Result<Response<Body>, ApiError> {
    let config = &call.shared.config;
    let (spec, salt) = check(ask, config.scheduler.max_model_len, config.seed)?;
    let mut end = End { prompt_tokens: spec.prompt.len() as u64, ..End::default() };
    let (mut ticket, mut events) = call
        .shared
        .engine
        .submit(call.id.clone(), call.received, spec, salt)
        .ok_or_else(ApiError::overloaded)?;
    if stream {
        let events = EventStream::new(Box::new(dialect), ticket, events, end);
        let mut response = Response::new(Body::Events(Box::new(events)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return Ok(response);
    }
    let mut text = String::new();
    while let Some(event) = events.recv().await {
        end.completion_tokens += 1;
        end.cached_tokens = event.cached;
        text.push_str(event.token.text.as_str());
        if let Some(finish) = event.token.finish {
            ticket.finished();
            return Ok(json(StatusCode::OK, &dialect.whole(text, finish, &end)));
        }
    }
    Err(ApiError::engine_gone())
}

fn check(ask: Ask, limit: usize, seed: u64) -> Result<(AnswerSpec, u64), ApiError> {
    let prompt_len = ask.prompt.len();
    if prompt_len == 0 {
        return Err(ApiError::invalid("the prompt is empty"));
    }
    let room = limit.saturating_sub(prompt_len);
    let asked = ask.max_tokens.map_or(room.max(1), |tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
    if asked == 0 {
        return Err(ApiError::invalid("the most tokens to generate must be at least 1"));
    }
    if asked > room {
        return Err(ApiError::context_length(limit, prompt_len, asked.min(usize::MAX - prompt_len)));
    }
    let min_tokens = usize::try_from(ask.min_tokens).unwrap_or(usize::MAX);
    if min_tokens > asked {
        return Err(ApiError::invalid(format!("min_tokens ({min_tokens}) is over max_tokens ({asked})")));
    }
    let temperature = ask.temperature.unwrap_or(1.0);
    if !(0.0..=2.0).contains(&temperature) {
        return Err(ApiError::invalid(format!("temperature must be between 0 and 2, not {temperature}")));
    }
    if ask.stop.len() > MAX_STOPS
        || ask.stop.iter().any(|stop| stop.len() > MAX_STOP_BYTES || stop.is_empty())
    {
        return Err(ApiError::invalid(format!(
            "at most {MAX_STOPS} stop sequences of 1 to {MAX_STOP_BYTES} bytes are served"
        )));
    }
    let salt = ask.salt.map_or(0, |salt| salt.bytes().fold(1, |hash, byte| join(hash, u64::from(byte))));
    let spec = AnswerSpec {
        prompt: ask.prompt,
        sampling: Sampling {
            temperature: temperature as f32,
            seed: ask.seed.map_or(seed, |given| join(seed, given as u64)),
        },
        max_tokens: asked,
        min_tokens,
        ignore_eos: ask.ignore_eos,
        stop: ask.stop,
        shape: ask.shape,
    };
    Ok((spec, salt))
}

/// A string, or a list of typed parts of which the text ones count: message content in the OpenAI and Anthropic APIs.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    #[default]
    Nothing,
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    content: Option<Value>,
}

impl Content {
    pub(super) fn encode(&self, out: &mut Vec<u32>) {
        match self {
            Content::Nothing => {}
            Content::Text(text) => vocab::encode(text, out),
            Content::Parts(parts) => {
                for part in parts {
                    if let Some(text) = &part.text {
                        vocab::encode(text, out);
                    }
                    // Tool results carry their text one level down.
                    match &part.content {
                        Some(Value::String(text)) => vocab::encode(text, out),
                        Some(other) => vocab::encode(&other.to_string(), out),
                        None => {}
                    }
                }
            }
        }
    }
}

/// One string or several.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    #[default]
    Nothing,
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            OneOrMany::Nothing => Vec::new(),
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}

/// Adds one message to a chat prompt, framed by its role as chat templates do.
pub(super) fn encode_message(role: &str, content: &Content, out: &mut Vec<u32>) {
    vocab::encode(role, out);
    vocab::encode(":", out);
    content.encode(out);
}

/// Appends a token's text as the inside of a JSON string.
pub(super) fn put_text(out: &mut BytesMut, text: &Text) {
    match text {
        Text::Plain(text) => out.put_slice(text.as_bytes()),
        Text::Owned(text) => put_escaped(out, text),
    }
}

/// Appends a text as the inside of a JSON string.
pub(super) fn put_escaped(out: &mut BytesMut, text: &str) {
    let quoted = Value::from(text).to_string();
    out.put_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
}

/// Appends `event: NAME` (where there is one) and `data: VALUE` as one server-sent event.
pub(super) fn put_event(out: &mut BytesMut, name: Option<&str>, data: &Value) {
    if let Some(name) = name {
        out.put_slice(b"event: ");
        out.put_slice(name.as_bytes());
        out.put_slice(b"\n");
    }
    out.put_slice(b"data: ");
    out.put_slice(data.to_string().as_bytes());
    out.put_slice(b"\n\n");
}
