//! `malformedStream`: the stream breaks its own format at one token.

use super::{About, Acts, Layer, check, shape};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning, Step};
use crate::facts::Facts;
use crate::wire::{Api, Event};
use bytes::Bytes;
use serde_json::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stream breaks its own format at one token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MalformedStream {
    /// How.
    pub how: Malformation,
    /// The token at which it breaks; the first token has number 1.
    #[schemars(range(min = 1))]
    pub at_token: u32,
    /// Size of an oversized event in bytes, from 1024 to 64 MiB; 1 MiB where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024, max = 67_108_864))]
    pub size: Option<u32>,
}

/// How a stream breaks its format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Malformation {
    /// JSON that ends in the middle.
    #[default]
    BadJson,
    /// Bytes that are no UTF-8.
    BadUtf8,
    /// Two events with no blank line between them.
    MissingBlankLine,
    /// One very large event.
    OversizedEvent,
}

impl MalformedStream {
    pub(super) const ABOUT: About = About {
        kind: "malformedStream",
        layer: Layer::Router,
        acts: Acts::OnTheWire,
        meaning: "One event that carries generated text breaks the format: its JSON ends in the middle, bytes in \
                  its text are no UTF-8, the blank line after it is missing, or it is blown up with blanks to \
                  size bytes (its content stays). The stream goes on behind it. An answer that is not streamed \
                  and has that token breaks as a whole; a missing blank line has no meaning there.",
        certifies: "Clients meet a broken event with an error they handle, not with a crash, a hang or silent \
                  loss; buffers hold or refuse an oversized event knowingly.",
        does_not_certify: "Broken HTTP framing (chunk sizes, content-length) is not imitated; see disconnect for a body \
                  that ends too early.",
        example: "\
- name: broken-events
  malformedStream: {how: badJson, atToken: 5}
  when: {probability: 0.2}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = check::token_number("atToken", self.at_token);
        match (self.how, self.size) {
            (_, None) => {}
            (Malformation::OversizedEvent, Some(size)) => {
                if !(1024..=MAX_SIZE).contains(&size) {
                    problems.push(("size", format!("from 1024 to {MAX_SIZE} bytes")));
                }
            }
            _ => problems.push(("size", "no size: only `how: oversizedEvent` has one".to_owned())),
        }
        problems
    }
}

impl Meaning for MalformedStream {
    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        Some(Box::new(Break { how: self.clone(), api: facts.api, done: Done::default() }))
    }
}

/// The largest event that is made: it is held in memory for each request that is hit.
const MAX_SIZE: u32 = 64 << 20;
const DEFAULT_SIZE: u32 = 1 << 20;

struct Break {
    how: MalformedStream,
    api: Api,
    done: Done,
}

impl Break {
    /// The data of an event, or a whole body, broken.
    fn broken(&self, data: &[u8], value: Value, room: usize) -> Vec<u8> {
        match self.how.how {
            Malformation::BadJson => half(data).to_vec(),
            Malformation::BadUtf8 => bad_utf8(self.api, data, value),
            Malformation::OversizedEvent => {
                let size = self.how.size.unwrap_or(DEFAULT_SIZE) as usize;
                let mut out = Vec::with_capacity(size + 1);
                // Blanks after the first brace: the JSON stays the same, and its length is what it is about.
                out.extend_from_slice(&data[..1]);
                out.resize(1 + size.saturating_sub(data.len() + room), b' ');
                out.extend_from_slice(&data[1..]);
                out
            }
            Malformation::MissingBlankLine => data.to_vec(),
        }
    }

    fn note(&mut self) {
        self.done.touched += 1;
        let what = match self.how.how {
            Malformation::BadJson => "bad JSON",
            Malformation::BadUtf8 => "bad UTF-8",
            Malformation::MissingBlankLine => "no blank line",
            Malformation::OversizedEvent => "oversized event",
        };
        self.done.note = format!("{what} at token {}", self.how.at_token);
    }
}

/// The first half, which ends between two characters: no beginning of a JSON object is a whole one.
fn half(data: &[u8]) -> &[u8] {
    let mut end = data.len() / 2;
    while end > 0 && data[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    &data[..end]
}

/// Two of the three bytes of a character, at the beginning of the generated text, or else of the first key.
fn bad_utf8(api: Api, data: &[u8], mut value: Value) -> Vec<u8> {
    const MARK: &str = "~brownout~";
    const CUT: &[u8] = &[0xe2, 0x82];
    let mut marked = false;
    shape::each_text(api, &mut value, &mut |_, text| {
        if !marked && !text.is_empty() {
            text.insert_str(0, MARK);
            marked = true;
        }
    });
    let text = value.to_string();
    let (before, after) = match text.split_once(MARK) {
        Some((before, after)) if marked => (before.as_bytes(), after.as_bytes()),
        _ => data.split_at(memchr::memchr(b'"', data).map_or(data.len(), |at| at + 1)),
    };
    [before, CUT, after].concat()
}

/// Without the line end that ends the event, so that the next one runs into it.
fn without_blank_line(raw: &[u8]) -> &[u8] {
    raw.strip_suffix(b"\r\n").or_else(|| raw.strip_suffix(b"\n")).or_else(|| raw.strip_suffix(b"\r")).unwrap_or(raw)
}

impl Effect for Break {
    fn event(&mut self, event: &Event<'_>) -> Step {
        let here = event.class.is_token() && u64::from(event.token) + 1 == u64::from(self.how.at_token);
        if !here || self.done.touched > 0 {
            return Step::PASS;
        }
        let Some(value) = shape::json(event) else { return Step::PASS };
        self.note();
        if self.how.how == Malformation::MissingBlankLine {
            return Step::replace(Bytes::copy_from_slice(without_blank_line(event.raw)));
        }
        let data = shape::data(event);
        let room = event.raw.len().saturating_sub(data.len());
        Step::replace(shape::with_data(event.raw, &self.broken(&data, value, room)))
    }

    fn body(&mut self, body: &[u8], tokens: u32) -> Step {
        let Some(mut value) = shape::object(body) else { return Step::PASS };
        let tokens = shape::body_tokens(self.api, &mut value, tokens);
        if tokens < self.how.at_token || self.how.how == Malformation::MissingBlankLine {
            return Step::PASS;
        }
        self.note();
        Step::replace(self.broken(body.trim_ascii(), value, 0).into())
    }

    fn done(&self) -> Done {
        self.done.clone()
    }
}
