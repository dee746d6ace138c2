//! Some protocols say the text again at its end, in whole. A fault that changed the text on its way must change what is
//! said again too, or a client that reads only the end would never meet the fault.

use super::list;
use crate::wire::Api;
use serde_json::Value;
use std::collections::BTreeMap;

/// The text as it has been let through so far, to be said again.
#[derive(Debug, Default)]
pub(in super::super) struct Restate {
    /// By kind of text and by its place in the answer.
    texts: BTreeMap<(&'static str, u64, u64), String>,
}

impl Restate {
    /// Whether `api` says texts again at all.
    pub(in super::super) const fn matters(api: Api) -> bool {
        matches!(api, Api::OpenaiResponses | Api::TgiGenerate)
    }

    /// Takes note of what one event, as it is let through, adds to the text.
    pub(in super::super) fn push(&mut self, api: Api, value: &Value) {
        let (place, text) = match api {
            Api::OpenaiResponses => {
                let Some(kind) = delta_kind(value["type"].as_str().unwrap_or_default()) else { return };
                (place(kind, value), &value["delta"])
            }
            Api::TgiGenerate if value["token"]["special"] != true => {
                (("token", 0, 0), &value["token"]["text"])
            }
            _ => return,
        };
        self.texts.entry(place).or_default().push_str(text.as_str().unwrap_or_default());
    }

    /// The text that an event with this place has added up to.
    pub(in super::super) fn of(&self, value: &Value) -> String {
        let kind = delta_kind(value["type"].as_str().unwrap_or_default());
        let place = kind.map_or(("token", 0, 0), |kind| place(kind, value));
        self.texts.get(&place).cloned().unwrap_or_default()
    }

    /// Makes `value` say again what was let through. True where it said something else.
    pub(in super::super) fn patch(&self, api: Api, value: &mut Value) -> bool {
        if api == Api::TgiGenerate {
            return match value.get_mut("generated_text") {
                Some(text @ Value::String(_)) => self.set(("token", 0, 0), text),
                _ => false,
            };
        }
        if api != Api::OpenaiResponses {
            return false;
        }
        let mut changed = false;
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        if let Some(kind) = done_kind(&kind) {
            let place = place(kind, value);
            changed |= value.get_mut("text").is_some_and(|text| self.set(place, text));
        }
        let index = value["output_index"].as_u64().unwrap_or(0);
        let inner = value["content_index"].as_u64().unwrap_or(0);
        if let Some(text) = value.get_mut("part").and_then(|part| part.get_mut("text")) {
            changed |= self.set(("text", index, inner), text);
        }
        if let Some(item) = value.get_mut("item") {
            changed |= self.patch_item(index, item);
        }
        if let Some(response) = value.get_mut("response") {
            for (i, item) in list(response, "output").enumerate() {
                changed |= self.patch_item(i as u64, item);
            }
        }
        changed
    }

    fn patch_item(&self, index: u64, item: &mut Value) -> bool {
        let kind = if item["type"] == "reasoning" { "reasoning" } else { "text" };
        let mut changed = false;
        for (list_key, kind) in [("content", kind), ("summary", "summary")] {
            for (i, part) in list(item, list_key).enumerate() {
                changed |= part.get_mut("text").is_some_and(|text| self.set((kind, index, i as u64), text));
            }
        }
        changed
    }

    /// Only what has been seen on its way is known well enough to be said again; an empty text says nothing yet.
    fn set(&self, place: (&'static str, u64, u64), text: &mut Value) -> bool {
        match self.texts.get(&place) {
            Some(known) if *text != **known && *text != "" => {
                *text = known.as_str().into();
                true
            }
            _ => false,
        }
    }
}

fn delta_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "response.output_text.delta" => Some("text"),
        "response.reasoning_text.delta" => Some("reasoning"),
        "response.reasoning_summary_text.delta" => Some("summary"),
        _ => None,
    }
}

fn done_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "response.output_text.done" => Some("text"),
        "response.reasoning_text.done" => Some("reasoning"),
        "response.reasoning_summary_text.done" => Some("summary"),
        _ => None,
    }
}

fn place(kind: &'static str, value: &Value) -> (&'static str, u64, u64) {
    let inner = if kind == "summary" { "summary_index" } else { "content_index" };
    (kind, value["output_index"].as_u64().unwrap_or(0), value[inner].as_u64().unwrap_or(0))
}
