//! What an event or an answer says: its text, its finish reason, its usage.
//!
//! Two readers for two needs, held together by a test: [`classify`] looks for a few keys and allocates nothing (the
//! proxy asks it of every event), [`read`] parses the JSON (the load runner needs the text and the numbers).

use super::{Api, Class, scan};
use serde_json::Value;

/// The class of an event by its data; `data` is nothing for comments and pings.
#[must_use]
pub fn classify(api: Api, data: Option<&[u8]>) -> Class {
    let Some(data) = data else { return Class::Ping };
    let data = data.trim_ascii();
    if data == b"[DONE]" {
        return Class::Done;
    }
    if !data.starts_with(b"{") {
        return if data.is_empty() || data.starts_with(b":") { Class::Ping } else { Class::Meta };
    }
    let text = |key: &str| scan::text(data, key);
    let has = |key: &str| scan::something(data, key);
    match api {
        Api::OpenaiChat => {
            if text("content") || text("refusal") {
                Class::Content
            } else if text("reasoning_content") || text("reasoning") {
                Class::Reasoning
            } else if has("tool_calls") || has("function_call") {
                Class::ToolCall
            } else {
                openai_rest(data)
            }
        }
        Api::OpenaiCompletions => {
            if text("text") {
                Class::Content
            } else {
                openai_rest(data)
            }
        }
        Api::OpenaiResponses => match scan::string(data, "type").unwrap_or_default() {
            b"response.output_text.delta" | b"response.refusal.delta" if text("delta") => Class::Content,
            b"response.reasoning_text.delta" | b"response.reasoning_summary_text.delta" if text("delta") => {
                Class::Reasoning
            }
            b"response.function_call_arguments.delta" if text("delta") => Class::ToolCall,
            b"response.completed" | b"response.incomplete" => Class::Finish,
            b"response.failed" | b"error" => Class::Error,
            _ => Class::Meta,
        },
        Api::AnthropicMessages => match scan::string(data, "type").unwrap_or_default() {
            b"content_block_delta" if text("text") => Class::Content,
            b"content_block_delta" if text("thinking") => Class::Reasoning,
            b"content_block_delta" if text("partial_json") => Class::ToolCall,
            b"message_delta" => Class::Finish,
            b"message_stop" => Class::Done,
            b"ping" => Class::Ping,
            b"error" => Class::Error,
            _ => Class::Meta,
        },
        Api::TgiGenerate => {
            if has("error") {
                Class::Error
            } else if text("text") && !scan::is_true(data, "special") {
                Class::Content
            } else if has("finish_reason") {
                Class::Finish
            } else {
                Class::Meta
            }
        }
        Api::TritonGenerate => {
            if text("text_output") {
                Class::Content
            } else if has("error") {
                Class::Error
            } else {
                Class::Meta
            }
        }
        Api::OpenaiEmbeddings | Api::Other => Class::Meta,
    }
}

fn openai_rest(data: &[u8]) -> Class {
    if scan::something(data, "error") {
        Class::Error
    } else if scan::text(data, "finish_reason") {
        Class::Finish
    } else if scan::something(data, "usage") {
        Class::Usage
    } else {
        Class::Meta
    }
}

/// Token counts as the server reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: Option<u32>,
    /// Of those, found in the prefix cache.
    pub cached: Option<u32>,
    /// Tokens of the answer.
    pub output: Option<u32>,
}

/// All that one event, or one whole answer, says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Answer text.
    pub text: String,
    /// Reasoning text.
    pub reasoning: String,
    /// Names of tools called.
    pub tools: Vec<String>,
    /// Arguments of tool calls, as text.
    pub arguments: String,
    /// The finish reason.
    pub finish: Option<String>,
    /// Token counts.
    pub usage: Usage,
    /// The model that answers.
    pub model: Option<String>,
    /// The message of an error.
    pub error: Option<String>,
    /// `[DONE]` or the protocol's like: nothing comes after it.
    pub done: bool,
}

impl Reading {
    /// Whether generated tokens are in it.
    #[must_use]
    pub fn has_token(&self) -> bool {
        !self.text.is_empty() || self.has_thought() || !self.tools.is_empty() || !self.arguments.is_empty()
    }

    /// Whether it carries reasoning text.
    #[must_use]
    pub fn has_thought(&self) -> bool {
        !self.reasoning.is_empty()
    }
}

/// Why data could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Bytes that are no UTF-8.
    Utf8,
    /// Text that is no JSON; with the parser's words.
    Json(String),
}

/// Reads the data of one event.
///
/// # Errors
/// Data that is neither JSON nor an end marker.
pub fn read(api: Api, data: &[u8]) -> Result<Reading, Unreadable> {
    let trimmed = data.trim_ascii();
    if trimmed == b"[DONE]" {
        return Ok(Reading { done: true, ..Reading::default() });
    }
    if trimmed.is_empty() || trimmed.starts_with(b":") {
        return Ok(Reading::default());
    }
    std::str::from_utf8(trimmed).map_err(|_| Unreadable::Utf8)?;
    let value: Value =
        serde_json::from_slice(trimmed).map_err(|error| Unreadable::Json(error.to_string()))?;
    Ok(read_value(api, &value))
}

/// Reads a whole JSON answer to a request that asked for no stream.
///
/// # Errors
/// A body that is no JSON.
pub fn read_body(api: Api, body: &[u8]) -> Result<Reading, Unreadable> {
    std::str::from_utf8(body).map_err(|_| Unreadable::Utf8)?;
    let value: Value = serde_json::from_slice(body).map_err(|error| Unreadable::Json(error.to_string()))?;
    let value = match value {
        // TGI's /generate may answer a list of one.
        Value::Array(mut list) if list.len() == 1 => list.remove(0),
        other => other,
    };
    let mut reading = read_value(api, &value);
    match api {
        Api::OpenaiResponses => read_response_object(&value, &mut reading),
        Api::AnthropicMessages => {
            for part in list(&value["content"]) {
                push(&mut reading.text, &part["text"]);
                push(&mut reading.reasoning, &part["thinking"]);
                if part["type"] == "tool_use" {
                    reading.tools.extend(string(&part["name"]));
                    reading.arguments.push_str(&part["input"].to_string());
                }
            }
            reading.finish = string(&value["stop_reason"]);
        }
        Api::TgiGenerate => push(&mut reading.text, &value["generated_text"]),
        _ => {}
    }
    reading.done = true;
    Ok(reading)
}

fn read_value(api: Api, value: &Value) -> Reading {
    let mut reading =
        Reading { model: string(&value["model"]), error: error_of(value), ..Reading::default() };
    match api {
        Api::OpenaiChat | Api::OpenaiCompletions => read_openai(value, &mut reading),
        Api::OpenaiResponses => read_responses(value, &mut reading),
        Api::AnthropicMessages => read_anthropic(value, &mut reading),
        Api::TgiGenerate => {
            if value["token"]["special"] != true {
                push(&mut reading.text, &value["token"]["text"]);
            }
            let details = &value["details"];
            reading.finish = string(&details["finish_reason"]);
            reading.usage.output = count(&details["generated_tokens"]);
            reading.usage.prompt = count(&details["input_length"])
                .or_else(|| Some(list(&details["prefill"]).len() as u32).filter(|n| *n > 0));
            reading.done = value["generated_text"].is_string();
        }
        Api::TritonGenerate => push(&mut reading.text, &value["text_output"]),
        Api::OpenaiEmbeddings => reading.usage = usage(&value["usage"]),
        Api::Other => {}
    }
    reading
}

fn read_openai(value: &Value, reading: &mut Reading) {
    for choice in list(&value["choices"]) {
        // `message` is what an answer without a stream has in the place of `delta`.
        for part in [&choice["delta"], &choice["message"]] {
            push(&mut reading.text, &part["content"]);
            push(&mut reading.text, &part["refusal"]);
            push(&mut reading.reasoning, &part["reasoning_content"]);
            push(&mut reading.reasoning, &part["reasoning"]);
            for call in
                list(&part["tool_calls"]).iter().map(|call| &call["function"]).chain([&part["function_call"]])
            {
                reading.tools.extend(string(&call["name"]));
                push(&mut reading.arguments, &call["arguments"]);
            }
        }
        push(&mut reading.text, &choice["text"]);
        reading.finish = reading.finish.take().or_else(|| string(&choice["finish_reason"]));
    }
    reading.usage = usage(&value["usage"]);
}

fn read_responses(value: &Value, reading: &mut Reading) {
    match value["type"].as_str().unwrap_or_default() {
        "response.output_text.delta" | "response.refusal.delta" => push(&mut reading.text, &value["delta"]),
        "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
            push(&mut reading.reasoning, &value["delta"]);
        }
        "response.function_call_arguments.delta" => push(&mut reading.arguments, &value["delta"]),
        kind @ ("response.completed" | "response.incomplete") => {
            let response = &value["response"];
            reading.usage = usage(&response["usage"]);
            reading.model = string(&response["model"]);
            let length = kind == "response.incomplete";
            reading.finish = Some(if length { "length" } else { "stop" }.to_owned());
            reading.done = true;
        }
        "response.failed" => {
            reading.error = error_of(&value["response"]).or_else(|| Some("response.failed".to_owned()))
        }
        "error" => reading.error = reading.error.take().or_else(|| string(&value["message"])),
        _ => {}
    }
}

/// A whole response object, as `/v1/responses` answers without a stream.
fn read_response_object(value: &Value, reading: &mut Reading) {
    for item in list(&value["output"]) {
        for part in list(&item["content"]) {
            push(&mut reading.text, &part["text"]);
        }
        if item["type"] == "function_call" {
            reading.tools.extend(string(&item["name"]));
            push(&mut reading.arguments, &item["arguments"]);
        }
    }
    reading.usage = usage(&value["usage"]);
    reading.finish = match value["status"].as_str() {
        Some("completed") => Some("stop".to_owned()),
        Some("incomplete") => Some("length".to_owned()),
        _ => None,
    };
}

fn read_anthropic(value: &Value, reading: &mut Reading) {
    match value["type"].as_str().unwrap_or_default() {
        "content_block_delta" => {
            let delta = &value["delta"];
            push(&mut reading.text, &delta["text"]);
            push(&mut reading.reasoning, &delta["thinking"]);
            push(&mut reading.arguments, &delta["partial_json"]);
        }
        "content_block_start" => reading.tools.extend(string(&value["content_block"]["name"])),
        "message_start" => {
            reading.usage = usage(&value["message"]["usage"]);
            reading.usage.output = None;
            reading.model = string(&value["message"]["model"]);
        }
        "message_delta" => {
            reading.finish = string(&value["delta"]["stop_reason"]);
            reading.usage = usage(&value["usage"]);
        }
        "message_stop" => reading.done = true,
        "message" => reading.usage = usage(&value["usage"]),
        _ => {}
    }
}

fn usage(value: &Value) -> Usage {
    let cached = [
        &value["prompt_tokens_details"]["cached_tokens"],
        &value["input_tokens_details"]["cached_tokens"],
        &value["cache_read_input_tokens"],
    ];
    Usage {
        prompt: count(&value["prompt_tokens"]).or_else(|| count(&value["input_tokens"])),
        cached: cached.into_iter().find_map(count),
        output: count(&value["completion_tokens"]).or_else(|| count(&value["output_tokens"])),
    }
}

/// The message of an error; `null`, `""` and `{}` are none.
fn error_of(value: &Value) -> Option<String> {
    match &value["error"] {
        Value::String(message) if !message.is_empty() => Some(message.clone()),
        Value::Object(fields) if !fields.is_empty() => Some(
            fields
                .get("message")
                .and_then(Value::as_str)
                .map_or_else(|| value["error"].to_string(), str::to_owned),
        ),
        _ => None,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn count(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok())
}

fn push(to: &mut String, value: &Value) {
    to.push_str(value.as_str().unwrap_or_default());
}
