//! Anthropic's messages API.

use bytes::{BufMut, BytesMut};
use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::generate::{Ask, Content, Dialect, End, encode_message, put_event, put_text, serve};
use super::tools::{self, Function, ToolCall};
use super::{Body, Call};
use crate::answer::{Finish, Token};
use crate::vocab;

#[derive(Debug, Deserialize)]
struct MessagesRequest {
    model: Option<String>,
    max_tokens: u64,
    messages: Vec<Message>,
    #[serde(default)]
    system: Content,
    #[serde(default)]
    stream: bool,
    temperature: Option<f64>,
    #[serde(default)]
    stop_sequences: Vec<String>,
    #[serde(default)]
    tools: Vec<Function>,
    #[serde(default)]
    tool_choice: Option<ToolChoice>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Content,
}

#[derive(Debug, Deserialize)]
struct ToolChoice {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
}

/// `POST /v1/messages`
pub(super) async fn messages(call: Call) -> Result<Response<Body>, ApiError> {
    let request: MessagesRequest = call.parse()?;
    call.shared.check_model(request.model.as_deref())?;
    if request.messages.is_empty() {
        return Err(ApiError::invalid("messages: at least one message is required"));
    }
    let mut prompt = Vec::new();
    request.system.encode(&mut prompt);
    for message in &request.messages {
        encode_message(&message.role, &message.content, &mut prompt);
    }
    for function in &request.tools {
        vocab::encode(&function.name, &mut prompt);
        vocab::encode(&function.parameters.to_string(), &mut prompt);
    }
    vocab::encode("assistant:", &mut prompt);
    let tool = match &request.tool_choice {
        Some(ToolChoice { kind, .. }) if kind == "any" => Some(tools::choose(&request.tools, None, &prompt)?),
        Some(ToolChoice { kind, name: Some(name) }) if kind == "tool" => {
            Some(tools::choose(&request.tools, Some(name), &prompt)?)
        }
        _ => None,
    };
    let mut ask = Ask {
        max_tokens: Some(request.max_tokens),
        temperature: request.temperature,
        stop: request.stop_sequences.clone(),
        ..Ask::new(prompt)
    };
    let mut name = None;
    if let Some(ToolCall { name: chosen, shape }) = tool {
        (ask.shape, name) = (shape, Some(chosen));
    }
    let dialect = Anthropic {
        id: call.id.to_string(),
        model: call.shared.config.model_name.clone(),
        tool: name,
        ends_on_stop_sequence: !request.stop_sequences.is_empty(),
    };
    serve(&call, ask, request.stream, dialect).await
}

struct Anthropic {
    id: String,
    model: String,
    tool: Option<String>,
    ends_on_stop_sequence: bool,
}

impl Anthropic {
    fn message(&self, content: Value, stop_reason: Option<&str>, usage: Value) -> Value {
        json!({
            "id": format!("msg_{}", self.id), "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
        })
    }

    fn block(&self, input: Value, text: &str) -> Value {
        match &self.tool {
            Some(name) => {
                json!({"type": "tool_use", "id": format!("toolu_{}", self.id), "name": name, "input": input})
            }
            None => json!({"type": "text", "text": text}),
        }
    }

    fn stop_reason(&self, finish: Finish) -> &'static str {
        match finish {
            Finish::Stop if self.ends_on_stop_sequence => "stop_sequence",
            Finish::Stop | Finish::Abort => "end_turn",
            Finish::Length => "max_tokens",
            Finish::ToolCalls => "tool_use",
        }
    }
}

/// In this API `input_tokens` leaves out what came from the cache.
fn usage(end: &End) -> Value {
    json!({
        "input_tokens": end.prompt_tokens - end.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": end.cached_tokens,
        "output_tokens": end.completion_tokens,
    })
}

impl Dialect for Anthropic {
    fn open(&mut self, out: &mut BytesMut, so_far: &End) {
        let message = self.message(json!([]), None, usage(so_far));
        put_event(out, Some("message_start"), &json!({"type": "message_start", "message": message}));
        let block = self.block(json!({}), "");
        let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
        put_event(out, Some("content_block_start"), &start);
        put_event(out, Some("ping"), &json!({"type": "ping"}));
    }

    fn token(&mut self, out: &mut BytesMut, token: &Token, _so_far: &End) {
        if token.text.as_str().is_empty() {
            return;
        }
        out.put_slice(
            b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":",
        );
        out.put_slice(match self.tool {
            Some(_) => b"{\"type\":\"input_json_delta\",\"partial_json\":\"",
            None => b"{\"type\":\"text_delta\",\"text\":\"".as_slice(),
        });
        put_text(out, &token.text);
        out.put_slice(b"\"}}\n\n");
    }

    fn close(&mut self, out: &mut BytesMut, finish: Finish, end: &End) {
        put_event(out, Some("content_block_stop"), &json!({"type": "content_block_stop", "index": 0}));
        let delta = json!({
            "type": "message_delta", "usage": usage(end),
            "delta": {"stop_reason": self.stop_reason(finish), "stop_sequence": null},
        });
        put_event(out, Some("message_delta"), &delta);
        put_event(out, Some("message_stop"), &json!({"type": "message_stop"}));
    }

    fn whole(&mut self, text: String, finish: Finish, end: &End) -> Value {
        // A document cut short by length does not parse; the API then has no arguments to give.
        let input = serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
        self.message(json!([self.block(input, &text)]), Some(self.stop_reason(finish)), usage(end))
    }
}
