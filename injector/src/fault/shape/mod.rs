//! How each provider writes its events and answers: where the text is, how an answer ends, what an error looks like.
//!
//! All faults that rewrite JSON go through here, so that a provider's shape is known in one place. What is not
//! understood is left alone: a function that finds nothing to change says so, and the event then passes byte for byte.

mod ending;
mod restate;
mod text;

pub(super) use ending::{Ender, Reason, end_marker, error_event, set_reason};
pub(super) use restate::Restate;

pub(super) use text::{body_tokens, cut, drop_calls, each_call, each_text, pieces};

use crate::wire::{Api, Class, Event, sse};
use bytes::Bytes;
use serde_json::Value;
use std::borrow::Cow;

/// The JSON object that `event` carries.
pub(super) fn json(event: &Event<'_>) -> Option<Value> {
    if matches!(event.class, Class::Raw | Class::Ping) {
        return None;
    }
    object(&sse::fields(event.raw).data?)
}

/// The JSON object (or the list of objects that TGI's `/generate` may answer) in `bytes`.
pub(super) fn object(bytes: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    (value.is_object() || value.is_array()).then_some(value)
}

/// `raw` with `data` in the place of its data; all other lines and all line ends stay as they are.
pub(super) fn with_data(raw: &[u8], data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(raw.len() + data.len());
    let (mut rest, mut written) = (raw, false);
    while !rest.is_empty() {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let after = end + if rest[end..].starts_with(b"\r\n") { 2 } else { usize::from(end < rest.len()) };
        let (line, next) = rest.split_at(after);
        rest = next;
        let name = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let is_data = name.starts_with(b"data:") || name[..name.len() - (after - end)] == *b"data";
        if !is_data {
            out.extend_from_slice(line);
        } else if !written {
            written = true;
            let blank = name.starts_with(b"data: ");
            out.extend_from_slice(if blank { b"data: " } else { b"data:" });
            out.extend_from_slice(data);
            out.extend_from_slice(&line[line.len() - (after - end)..]);
        }
    }
    out.into()
}

/// `raw` with `value` as its data.
pub(super) fn with_json(raw: &[u8], value: &Value) -> Bytes {
    with_data(raw, value.to_string().as_bytes())
}

/// Writes one event as the provider behind `api` frames it: with a name where the protocol has names.
pub(super) fn frame(api: Api, out: &mut Vec<u8>, value: &Value) {
    let named = matches!(api, Api::AnthropicMessages | Api::OpenaiResponses);
    if let Some(name) = value["type"].as_str().filter(|_| named) {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    let head: &[u8] = if api == Api::TgiGenerate { b"data:" } else { b"data: " };
    out.extend_from_slice(head);
    out.extend_from_slice(value.to_string().as_bytes());
    out.extend_from_slice(b"\n\n");
}

/// Whether answers of `api` are generated token by token.
pub(super) const fn generates(api: Api) -> bool {
    !matches!(api, Api::OpenaiEmbeddings | Api::Other)
}

/// The objects of an answer: itself, or each of a list.
fn answers(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    let all = match value {
        Value::Array(list) => list.as_mut_slice(),
        other => std::slice::from_mut(other),
    };
    all.iter_mut().filter(|value| value.is_object())
}

/// The elements of the list called `key`; none where there is no such list.
fn list<'v>(value: &'v mut Value, key: &str) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The text called `key`, where it is a text.
fn string<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut String> {
    match value.get_mut(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// The data of `event`, its lines joined.
pub(super) fn data<'e>(event: &Event<'e>) -> Cow<'e, [u8]> {
    match sse::fields(event.raw).data {
        Some(Cow::Borrowed(data)) => Cow::Borrowed(data.trim_ascii()),
        Some(Cow::Owned(data)) => Cow::Owned(data.trim_ascii().to_vec()),
        None => Cow::Borrowed(&[]),
    }
}

/// The object whose `usage` (for TGI: whose `details`) tells of tokens.
fn usage_holder(api: Api, value: &mut Value) -> Option<&mut Value> {
    let inner = match api {
        Api::OpenaiResponses => "response",
        Api::AnthropicMessages => "message",
        _ => "",
    };
    let value = match value {
        Value::Array(list) => list.first_mut()?,
        other => other,
    };
    let holder = if value.get(inner).is_some() { value.get_mut(inner)? } else { value };
    holder.is_object().then_some(holder)
}

const fn usage_key(api: Api) -> &'static str {
    if matches!(api, Api::TgiGenerate) { "details" } else { "usage" }
}

/// The object that tells of tokens.
pub(super) fn usage(api: Api, value: &mut Value) -> Option<&mut Value> {
    usage_holder(api, value)?.get_mut(usage_key(api)).filter(|usage| usage.is_object())
}

/// Leaves the usage out; true where there was one. TGI's details tell of more than usage, so only the counts go.
pub(super) fn drop_usage(api: Api, value: &mut Value) -> bool {
    if api == Api::TgiGenerate {
        let Some(details) = usage(api, value).and_then(Value::as_object_mut) else { return false };
        let before = details.len();
        details.retain(|key, _| !matches!(key.as_str(), "generated_tokens" | "input_length"));
        return details.len() < before;
    }
    let holder = usage_holder(api, value).and_then(Value::as_object_mut);
    // `shift_remove` keeps the order of the other keys.
    holder.and_then(|holder| holder.shift_remove(usage_key(api))).is_some()
}

/// Says in `value` that the answer has `tokens` output tokens, where it says anything about it.
pub(super) fn set_output_tokens(api: Api, value: &mut Value, tokens: u32) {
    let Some(usage) = usage(api, value) else { return };
    for key in ["completion_tokens", "output_tokens", "generated_tokens"] {
        let Some(count) = usage.get_mut(key) else { continue };
        let before = count.as_u64().unwrap_or(0);
        *count = tokens.into();
        let total = usage.get_mut("total_tokens");
        if let Some((total, sum)) = total.and_then(|total| total.as_u64().map(|sum| (total, sum))) {
            *total = (sum.saturating_sub(before) + u64::from(tokens)).into();
        }
    }
}
