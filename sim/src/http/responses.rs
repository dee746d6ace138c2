//! OpenAI's responses API.

use bytes::BytesMut;
use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::generate::{Ask, Content, Dialect, End, encode_message, put_event, serve};
use super::{Body, Call};
use crate::answer::{Finish, Token};
use crate::vocab;

#[derive(Debug, Deserialize)]
struct ResponsesRequest {
    model: Option<String>,
    input: Input,
    instructions: Option<String>,
    max_output_tokens: Option<u64>,
    #[serde(default)]
    stream: bool,
    temperature: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Item>),
}

#[derive(Debug, Deserialize)]
struct Item {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Content,
}

/// `POST /v1/responses`
pub(super) async fn responses(call: Call) -> Result<Response<Body>, ApiError> {
    let request: ResponsesRequest = call.parse()?;
    call.shared.check_model(request.model.as_deref())?;
    let mut prompt = Vec::new();
    vocab::encode(request.instructions.as_deref().unwrap_or_default(), &mut prompt);
    match &request.input {
        Input::Text(text) => encode_message("user", &Content::Text(text.clone()), &mut prompt),
        Input::Items(items) => {
            items.iter().for_each(|item| encode_message(&item.role, &item.content, &mut prompt));
        }
    }
    vocab::encode("assistant:", &mut prompt);
    let ask =
        Ask { max_tokens: request.max_output_tokens, temperature: request.temperature, ..Ask::new(prompt) };
    let dialect = Responses {
        id: call.id.to_string(),
        created: call.created,
        model: call.shared.config.model_name.clone(),
        sequence: 0,
        text: String::new(),
    };
    serve(&call, ask, request.stream, dialect).await
}

struct Responses {
    id: String,
    created: u64,
    model: String,
    sequence: u64,
    text: String,
}

impl Responses {
    fn response(&self, status: &str, output: Value, finish: Option<Finish>, usage: Value) -> Value {
        let incomplete = match finish {
            Some(Finish::Length) => json!({"reason": "max_output_tokens"}),
            _ => Value::Null,
        };
        json!({
            "id": format!("resp_{}", self.id), "object": "response", "created_at": self.created,
            "status": status, "model": self.model, "output": output, "usage": usage, "error": null,
            "incomplete_details": incomplete, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
            "metadata": {}, "instructions": null,
        })
    }

    fn item_id(&self) -> String {
        format!("msg_{}", self.id)
    }

    fn item(&self, status: &str, content: Value) -> Value {
        json!({"id": self.item_id(), "type": "message", "status": status, "role": "assistant", "content": content})
    }

    fn put(&mut self, out: &mut BytesMut, name: &str, mut fields: Value) {
        fields["type"] = json!(name);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        put_event(out, Some(name), &fields);
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn usage(end: &End) -> Value {
    json!({
        "input_tokens": end.prompt_tokens,
        "input_tokens_details": {"cached_tokens": end.cached_tokens},
        "output_tokens": end.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": end.prompt_tokens + end.completion_tokens,
    })
}

fn status(finish: Finish) -> &'static str {
    if finish == Finish::Length { "incomplete" } else { "completed" }
}

impl Dialect for Responses {
    fn open(&mut self, out: &mut BytesMut, _so_far: &End) {
        let response = self.response("in_progress", json!([]), None, Value::Null);
        self.put(out, "response.created", json!({"response": response}));
        self.put(out, "response.in_progress", json!({"response": response}));
        let item = self.item("in_progress", json!([]));
        self.put(out, "response.output_item.added", json!({"output_index": 0, "item": item}));
        let fields =
            json!({"item_id": self.item_id(), "output_index": 0, "content_index": 0, "part": part("")});
        self.put(out, "response.content_part.added", fields);
    }

    fn token(&mut self, out: &mut BytesMut, token: &Token, _so_far: &End) {
        let text = token.text.as_str();
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        let fields = json!({"item_id": self.item_id(), "output_index": 0, "content_index": 0, "delta": text});
        self.put(out, "response.output_text.delta", fields);
    }

    fn close(&mut self, out: &mut BytesMut, finish: Finish, end: &End) {
        let text = std::mem::take(&mut self.text);
        let place = json!({"item_id": self.item_id(), "output_index": 0, "content_index": 0});
        let mut done = place.clone();
        done["text"] = json!(text);
        self.put(out, "response.output_text.done", done);
        let mut done = place;
        done["part"] = part(&text);
        self.put(out, "response.content_part.done", done);
        let item = self.item(status(finish), json!([part(&text)]));
        self.put(out, "response.output_item.done", json!({"output_index": 0, "item": item}));
        let response = self.response(status(finish), json!([item]), Some(finish), usage(end));
        self.put(out, &format!("response.{}", status(finish)), json!({"response": response}));
    }

    fn whole(&mut self, text: String, finish: Finish, end: &End) -> Value {
        let item = self.item(status(finish), json!([part(&text)]));
        self.response(status(finish), json!([item]), Some(finish), usage(end))
    }
}
