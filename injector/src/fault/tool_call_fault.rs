//! `toolCallFault`: tool calls in the answer are broken.

use super::{About, Acts, Layer, shape};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning, Step};
use crate::facts::Facts;
use crate::wire::{Api, Class, Event};
use serde_json::Value;
use std::collections::BTreeSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tool calls in the answer are broken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCallFault {
    /// How.
    #[serde(default)]
    pub how: ToolCallBreak,
}

/// How tool calls are broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolCallBreak {
    /// The arguments are no JSON.
    #[default]
    BadArguments,
    /// The tool called is none that was offered.
    UnknownTool,
}

impl ToolCallFault {
    pub(super) const ABOUT: About = About {
        kind: "toolCallFault",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "Each tool call in the answer is broken. With badArguments its arguments begin with one brace \
                  too many and are no JSON; with unknownTool it calls a tool that was never offered (its name \
                  with -does-not-exist behind it). Where the arguments are an object (Anthropic, not streamed) \
                  they become a text that is no JSON. Answers without tool calls pass untouched.",
        certifies: "Agents check tool calls before they run them: they report the error back to the model or \
                  retry, and never run a tool by a name or arguments that are not as declared.",
        does_not_certify: "Wrong but well-formed arguments, calls of the wrong offered tool, and calls that a server's \
                  parser leaves in the text are not imitated. TGI's and Triton's generate have no tool calls.",
        example: "\
- name: broken-tools
  toolCallFault: {how: badArguments}
  when: {probability: 0.5}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for ToolCallFault {
    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        Some(Box::new(BreakCalls { how: self.how, api: facts.api, broken: BTreeSet::new(), done: Done::default() }))
    }
}

struct BreakCalls {
    how: ToolCallBreak,
    api: Api,
    /// Calls of which a delta is broken already: one is enough, and the texts stay those of one call.
    broken: BTreeSet<String>,
    done: Done,
}

impl BreakCalls {
    fn break_calls(&mut self, value: &mut Value) -> bool {
        let (mut changed, how, broken) = (false, self.how, &mut self.broken);
        shape::each_call(self.api, value, &mut |address, call| match how {
            ToolCallBreak::UnknownTool => {
                if let Some(Value::String(name)) = call.get_mut("name").filter(|name| *name != "") {
                    name.push_str("-does-not-exist");
                    changed = true;
                }
            }
            ToolCallBreak::BadArguments => changed |= break_arguments(address, call, broken),
        });
        self.done.touched += u64::from(changed);
        changed
    }
}

fn break_arguments(address: &str, call: &mut Value, broken: &mut BTreeSet<String>) -> bool {
    // A delta comes in pieces, of which the first is broken; what says the arguments whole is broken each time.
    let is_delta = call["type"].as_str().is_some_and(|kind| kind.ends_with(".delta"));
    let streamed = call["partial_json"].is_string() || is_delta;
    let key = ["partial_json", "arguments", "delta", "input"].into_iter().find(|key| match &call[*key] {
        Value::String(text) => !text.is_empty(),
        Value::Object(_) => *key == "input" && call["type"] == "tool_use",
        _ => false,
    });
    let Some(key) = key else { return false };
    // OpenAI chat says `arguments` both in deltas and in whole messages; a whole message comes only once.
    let once = streamed || (key == "arguments" && call["type"].is_null());
    if once && !broken.insert(address.to_owned()) {
        return false;
    }
    match &mut call[key] {
        Value::String(text) => text.insert(0, '{'),
        // The block's start says `{}` before the deltas of a stream, which are broken instead.
        Value::Object(input) if input.is_empty() => return false,
        object => *object = format!("{{{object}").into(),
    }
    true
}

impl Effect for BreakCalls {
    fn event(&mut self, event: &Event<'_>) -> Step {
        if matches!(event.class, Class::Content | Class::Reasoning | Class::Done) {
            return Step::PASS;
        }
        let Some(mut value) = shape::json(event) else { return Step::PASS };
        if self.break_calls(&mut value) { Step::replace(shape::with_json(event.raw, &value)) } else { Step::PASS }
    }

    fn body(&mut self, body: &[u8], _: u32) -> Step {
        let Some(mut value) = shape::object(body) else { return Step::PASS };
        if self.break_calls(&mut value) { Step::replace(value.to_string().into()) } else { Step::PASS }
    }

    fn done(&self) -> Done {
        let note = match self.how {
            ToolCallBreak::BadArguments => "broke the arguments of tool calls",
            ToolCallBreak::UnknownTool => "renamed tools",
        };
        Done { note: note.to_owned(), ..self.done.clone() }
    }
}
