//! OpenAI chat and completions, as vLLM serves them.

use bytes::{BufMut, BytesMut};
use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::generate::{Ask, Content, Dialect, End, OneOrMany, encode_message, put_event, put_text, serve};
use super::tools::{self, Function, ToolCall};
use super::{Body, Call};
use crate::answer::{Finish, Token};
use crate::vocab;

/// Fields that chat and completions share.
#[derive(Debug, Deserialize)]
struct Common {
    model: Option<String>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    #[serde(default)]
    min_tokens: u64,
    #[serde(default)]
    ignore_eos: bool,
    temperature: Option<f64>,
    seed: Option<i64>,
    #[serde(default)]
    stop: OneOrMany,
    n: Option<u64>,
    cache_salt: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
    continuous_usage_stats: bool,
}

impl Common {
    fn ask(&mut self, call: &Call, prompt: Vec<u32>) -> Result<Ask, ApiError> {
        call.shared.check_model(self.model.as_deref())?;
        if self.n.is_some_and(|n| n != 1) {
            return Err(ApiError::invalid("only n = 1 is served"));
        }
        Ok(Ask {
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            min_tokens: self.min_tokens,
            ignore_eos: self.ignore_eos,
            temperature: self.temperature,
            seed: self.seed,
            stop: std::mem::take(&mut self.stop).into_vec(),
            salt: self.cache_salt.take(),
            ..Ask::new(prompt)
        })
    }
}

#[derive(Debug, Deserialize)]
struct ChatRequest {
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<Tool>,
    #[serde(default)]
    tool_choice: Value,
    #[serde(flatten)]
    common: Common,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Content,
}

#[derive(Debug, Deserialize)]
struct Tool {
    function: Function,
}

/// `POST /v1/chat/completions`
pub(super) async fn chat(call: Call) -> Result<Response<Body>, ApiError> {
    let mut request: ChatRequest = call.parse()?;
    if request.messages.is_empty() {
        return Err(ApiError::invalid("messages must not be empty"));
    }
    let mut prompt = Vec::new();
    for message in &request.messages {
        encode_message(&message.role, &message.content, &mut prompt);
    }
    let functions: Vec<Function> = request.tools.into_iter().map(|tool| tool.function).collect();
    for function in &functions {
        // Tools are part of the prompt, as chat templates make them.
        vocab::encode(&function.name, &mut prompt);
        vocab::encode(&function.parameters.to_string(), &mut prompt);
    }
    vocab::encode("assistant:", &mut prompt);
    let tool = match &request.tool_choice {
        Value::String(choice) if choice == "required" => Some(tools::choose(&functions, None, &prompt)?),
        Value::Object(choice) => {
            let named =
                choice.get("function").and_then(|function| function.get("name")).and_then(Value::as_str);
            let named = named.ok_or_else(|| ApiError::invalid("tool_choice names no function"))?;
            Some(tools::choose(&functions, Some(named), &prompt)?)
        }
        _ => None,
    };
    let mut ask = request.common.ask(&call, prompt)?;
    let kind = match tool {
        Some(ToolCall { name, shape }) => {
            ask.shape = shape;
            Kind::Tool(name)
        }
        None => Kind::Chat,
    };
    let dialect = OpenAi::new(&call, kind, request.common.stream_options);
    serve(&call, ask, request.common.stream, dialect).await
}

#[derive(Debug, Deserialize)]
struct CompletionRequest {
    prompt: Prompt,
    #[serde(flatten)]
    common: Common,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
}

/// `POST /v1/completions`
pub(super) async fn completions(call: Call) -> Result<Response<Body>, ApiError> {
    let mut request: CompletionRequest = call.parse()?;
    let mut prompt = Vec::new();
    match &request.prompt {
        Prompt::Text(text) => vocab::encode(text, &mut prompt),
        Prompt::Tokens(tokens) => prompt.extend_from_slice(tokens),
        Prompt::Texts(texts) => match texts.as_slice() {
            [text] => vocab::encode(text, &mut prompt),
            _ => return Err(ApiError::invalid("exactly one prompt a request is served")),
        },
    }
    let mut ask = request.common.ask(&call, prompt)?;
    // The API's own default, which surprises people here as it does there.
    ask.max_tokens.get_or_insert(16);
    let dialect = OpenAi::new(&call, Kind::Completion, request.common.stream_options);
    serve(&call, ask, request.common.stream, dialect).await
}

enum Kind {
    Chat,
    Completion,
    Tool(String),
}

/// The way OpenAI's text APIs write an answer. A token's event is its text between two byte strings that are put
/// together once per request.
struct OpenAi {
    kind: Kind,
    id: String,
    call_id: String,
    created: u64,
    model: String,
    before: Vec<u8>,
    after: Vec<u8>,
    usage: StreamOptions,
}

impl OpenAi {
    fn new(call: &Call, kind: Kind, options: Option<StreamOptions>) -> OpenAi {
        let id = match kind {
            Kind::Completion => format!("cmpl-{}", call.id),
            _ => format!("chatcmpl-{}", call.id),
        };
        let mut dialect = OpenAi {
            kind,
            id,
            call_id: format!("call_{}", call.id),
            created: call.created,
            model: call.shared.config.model_name.clone(),
            before: Vec::new(),
            after: Vec::new(),
            usage: options.unwrap_or_default(),
        };
        // The text goes where this mark is; serde_json escapes it the same way everywhere.
        const MARK: &str = "@@brownout-text@@";
        let chunk = dialect.chunk(dialect.delta(MARK), None).to_string();
        if let Some((before, after)) = chunk.split_once(MARK) {
            dialect.before = format!("data: {before}").into_bytes();
            dialect.after = after.as_bytes().to_vec();
            // The closing brace is added after the usage, where a chunk has one.
            dialect.after.pop();
        }
        dialect
    }

    fn object(&self, stream: bool) -> &'static str {
        match (&self.kind, stream) {
            (Kind::Completion, _) => "text_completion",
            (_, true) => "chat.completion.chunk",
            (_, false) => "chat.completion",
        }
    }

    fn delta(&self, text: &str) -> Value {
        match &self.kind {
            Kind::Chat => json!({"content": text}),
            Kind::Completion => json!(text),
            Kind::Tool(_) => json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
        }
    }

    fn chunk(&self, delta: Value, finish: Option<Finish>) -> Value {
        let field = if matches!(self.kind, Kind::Completion) { "text" } else { "delta" };
        let finish = finish.map(Finish::as_str);
        json!({
            "id": self.id, "object": self.object(true), "created": self.created, "model": self.model,
            "choices": [{"index": 0, field: delta, "logprobs": null, "finish_reason": finish}],
        })
    }

    /// Writes a chunk with its usage: absent, null, or counted so far, as the stream's options ask.
    fn put(&self, out: &mut BytesMut, mut chunk: Value, so_far: &End) {
        if self.usage.continuous_usage_stats {
            chunk["usage"] = usage(so_far);
        } else if self.usage.include_usage {
            chunk["usage"] = Value::Null;
        }
        put_event(out, None, &chunk);
    }
}

fn usage(end: &End) -> Value {
    json!({
        "prompt_tokens": end.prompt_tokens,
        "completion_tokens": end.completion_tokens,
        "total_tokens": end.prompt_tokens + end.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": end.cached_tokens},
    })
}

impl Dialect for OpenAi {
    fn open(&mut self, out: &mut BytesMut, so_far: &End) {
        let delta = match &self.kind {
            Kind::Completion => return,
            Kind::Chat => json!({"role": "assistant", "content": ""}),
            Kind::Tool(name) => json!({"role": "assistant", "content": null, "tool_calls": [
                {"index": 0, "id": self.call_id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
        };
        self.put(out, self.chunk(delta, None), so_far);
    }

    fn token(&mut self, out: &mut BytesMut, token: &Token, so_far: &End) {
        if token.text.as_str().is_empty() {
            return;
        }
        out.put_slice(&self.before);
        put_text(out, &token.text);
        out.put_slice(&self.after);
        if self.usage.continuous_usage_stats {
            out.put_slice(b",\"usage\":");
            out.put_slice(usage(so_far).to_string().as_bytes());
        } else if self.usage.include_usage {
            out.put_slice(b",\"usage\":null");
        }
        out.put_slice(b"}\n\n");
    }

    fn close(&mut self, out: &mut BytesMut, finish: Finish, end: &End) {
        let delta = if matches!(self.kind, Kind::Completion) { json!("") } else { json!({}) };
        self.put(out, self.chunk(delta, Some(finish)), end);
        if self.usage.include_usage {
            let last = json!({
                "id": self.id, "object": self.object(true), "created": self.created, "model": self.model,
                "choices": [], "usage": usage(end),
            });
            put_event(out, None, &last);
        }
        out.put_slice(b"data: [DONE]\n\n");
    }

    fn whole(&mut self, text: String, finish: Finish, end: &End) -> Value {
        let finish = finish.as_str();
        let choice = match &self.kind {
            Kind::Completion => json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish}),
            Kind::Chat => json!({"index": 0, "message": {"role": "assistant", "content": text},
                "logprobs": null, "finish_reason": finish}),
            Kind::Tool(name) => {
                json!({"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [
                {"id": self.call_id, "type": "function", "function": {"name": name, "arguments": text}}]},
                "logprobs": null, "finish_reason": finish})
            }
        };
        json!({
            "id": self.id, "object": self.object(false), "created": self.created, "model": self.model,
            "choices": [choice], "usage": usage(end),
        })
    }
}
