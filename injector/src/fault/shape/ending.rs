//! How an answer ends: for a reason, or with an error.

use super::{Restate, answers, frame, list};
use crate::wire::{Api, Event, ProviderError};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Reason {
    /// The model was finished.
    Stop,
    /// The limit of tokens was reached.
    Length,
}

impl Reason {
    /// The provider's word for it.
    const fn word(self, api: Api) -> &'static str {
        match (api, self) {
            (Api::AnthropicMessages, Self::Stop) => "end_turn",
            (Api::AnthropicMessages, Self::Length) => "max_tokens",
            (Api::TgiGenerate, Self::Stop) => "eos_token",
            (_, Self::Stop) => "stop",
            (_, Self::Length) => "length",
        }
    }
}

/// Makes the end of a stream that is cut in the middle. It must see the events before, since some protocols say at the
/// end what was said before.
#[derive(Debug)]
pub(in super::super) struct Ender {
    api: Api,
    restate: Restate,
    /// The response object, as the stream began it.
    response: Option<Value>,
    /// Its output items so far, by index.
    items: BTreeMap<u64, Value>,
}

impl Ender {
    pub(in super::super) fn new(api: Api) -> Self {
        Self { api, restate: Restate::default(), response: None, items: BTreeMap::new() }
    }

    /// Takes note of an event that is let through.
    pub(in super::super) fn see(&mut self, event: &Event<'_>) {
        if !Restate::matters(self.api) {
            return;
        }
        let Some(value) = super::json(event) else { return };
        self.restate.push(self.api, &value);
        if let Some(response) = value.get("response").filter(|response| response.is_object()) {
            self.response = Some(response.clone());
        }
        let item = value.get("item").filter(|item| item.is_object());
        if let (Some(item), Some(index)) = (item, value["output_index"].as_u64()) {
            self.items.insert(index, item.clone());
        }
    }

    /// The events that end the answer for `reason`, in the place of the token event whose JSON is `next`, after `tokens`
    /// tokens were let through. Nothing where the protocol has no such events (Triton only ends).
    pub(in super::super) fn end(&self, mut next: Value, reason: Reason, tokens: u32) -> Vec<u8> {
        let (api, mut out) = (self.api, Vec::new());
        if !next.is_object() {
            return out;
        }
        let word = reason.word(api);
        match api {
            Api::OpenaiChat | Api::OpenaiCompletions => {
                for choice in list(&mut next, "choices") {
                    let Some(choice) = choice.as_object_mut() else { continue };
                    if choice.contains_key("delta") {
                        choice.insert("delta".to_owned(), json!({}));
                    }
                    if choice.contains_key("text") {
                        choice.insert("text".to_owned(), "".into());
                    }
                    if choice.contains_key("logprobs") {
                        choice.insert("logprobs".to_owned(), Value::Null);
                    }
                    choice.insert("finish_reason".to_owned(), word.into());
                }
                super::set_output_tokens(api, &mut next, tokens);
                frame(api, &mut out, &next);
                end_marker(api, &mut out);
            }
            Api::AnthropicMessages => {
                frame(api, &mut out, &json!({"type": "content_block_stop", "index": next["index"]}));
                let delta = json!({"stop_reason": word, "stop_sequence": null});
                let usage = json!({"output_tokens": tokens});
                frame(api, &mut out, &json!({"type": "message_delta", "delta": delta, "usage": usage}));
                end_marker(api, &mut out);
            }
            Api::TgiGenerate => {
                if let Some(token) = next.get_mut("token").and_then(Value::as_object_mut) {
                    token.insert("text".to_owned(), "".into());
                    token.insert("special".to_owned(), true.into());
                }
                next["generated_text"] = self.restate.of(&Value::Null).into();
                next["details"] = json!({"finish_reason": word, "generated_tokens": tokens, "seed": null});
                frame(api, &mut out, &next);
            }
            Api::OpenaiResponses => self.end_response(&next, reason, tokens, &mut out),
            Api::TritonGenerate | Api::OpenaiEmbeddings | Api::Other => {}
        }
        out
    }

    fn end_response(&self, next: &Value, reason: Reason, tokens: u32, out: &mut Vec<u8>) {
        let api = self.api;
        let mut sequence = next["sequence_number"].as_u64();
        let mut send = |mut event: Value| {
            if let Some(number) = &mut sequence {
                event["sequence_number"] = (*number).into();
                *number += 1;
            }
            frame(api, out, &event);
        };
        let (item, index, inner) = (&next["item_id"], &next["output_index"], &next["content_index"]);
        let mut items = self.items.clone();
        if next["type"] == "response.output_text.delta" {
            let text = self.restate.of(next);
            send(json!({"type": "response.output_text.done", "item_id": item, "output_index": index,
                "content_index": inner, "text": text, "logprobs": []}));
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            send(json!({"type": "response.content_part.done", "item_id": item, "output_index": index,
                "content_index": inner, "part": part}));
            if let Some(open) = index.as_u64().and_then(|index| items.get_mut(&index)) {
                open["content"] = json!([part]);
            }
        }
        if let Some(open) = index.as_u64().and_then(|index| items.get_mut(&index)) {
            open["status"] = if reason == Reason::Length { "incomplete" } else { "completed" }.into();
            send(json!({"type": "response.output_item.done", "output_index": index, "item": open}));
        }
        let mut response = self.response.clone().unwrap_or_else(|| json!({"object": "response"}));
        set_reason(api, &mut response, Some(reason));
        response["output"] = items.into_values().collect();
        if response["usage"].is_null() {
            response["usage"] = json!({"output_tokens": tokens});
        }
        super::set_output_tokens(api, &mut response, tokens);
        let kind = if reason == Reason::Length { "response.incomplete" } else { "response.completed" };
        send(json!({"type": kind, "response": response}));
    }
}

/// Says in a whole answer, or in an event that already gives a reason, that it ended for `reason`; for nothing, that
/// it never said why it ended. True where there was something to say it in.
pub(in super::super) fn set_reason(api: Api, value: &mut Value, reason: Option<Reason>) -> bool {
    let word = reason.map_or(Value::Null, |reason| reason.word(api).into());
    let mut changed = false;
    for answer in answers(value) {
        match api {
            Api::OpenaiChat | Api::OpenaiCompletions => {
                for choice in list(answer, "choices").filter(|choice| choice.is_object()) {
                    choice["finish_reason"] = word.clone();
                    changed = true;
                }
            }
            Api::OpenaiResponses => {
                let length = reason != Some(Reason::Stop);
                answer["status"] = if length { "incomplete" } else { "completed" }.into();
                answer["incomplete_details"] = match reason {
                    Some(Reason::Length) => json!({"reason": "max_output_tokens"}),
                    _ => Value::Null,
                };
                changed = true;
            }
            Api::AnthropicMessages => {
                answer["stop_reason"] = word.clone();
                changed = true;
            }
            Api::TgiGenerate => {
                if let Some(details) = answer.get_mut("details").filter(|details| details.is_object()) {
                    details["finish_reason"] = word.clone();
                    changed = true;
                }
            }
            _ => {}
        }
    }
    changed
}

/// The error event that the provider sends inside a stream.
pub(in super::super) fn error_event(api: Api, error: &ProviderError, next: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let mut value: Value = serde_json::from_slice(&error.body(api)).unwrap_or(Value::Null);
    if api == Api::OpenaiResponses {
        let inner = value["error"].take();
        value = json!({"type": "error", "code": inner["code"], "message": inner["message"], "param": null});
        if next["sequence_number"].is_u64() {
            value["sequence_number"] = next["sequence_number"].clone();
        }
    }
    frame(api, &mut out, &value);
    out
}

/// Writes the end marker of the protocol, where it has one.
pub(in super::super) fn end_marker(api: Api, out: &mut Vec<u8>) {
    match api {
        Api::OpenaiChat | Api::OpenaiCompletions => out.extend_from_slice(b"data: [DONE]\n\n"),
        Api::AnthropicMessages => frame(api, out, &json!({"type": "message_stop"})),
        _ => {}
    }
}
