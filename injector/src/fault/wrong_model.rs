//! `wrongModel`: the answer names another model, or the model is said not to exist.

use super::{About, Acts, Layer, shape};
use crate::draw::Draw;
use crate::effect::{Answer, AnswerBody, Before, Done, Effect, Meaning, Step};
use crate::facts::Facts;
use crate::wire::{Api, Event, ProviderError};
use serde_json::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer names another model, or the model is said not to exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrongModel {
    /// How.
    #[serde(default)]
    pub how: WrongModelHow,
    /// The other model's name; the asked one with `-other` where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// How the model is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WrongModelHow {
    /// The answer comes, and says that another model gave it.
    #[default]
    Swapped,
    /// 404: no such model.
    NotFound,
}

impl WrongModel {
    pub(super) const ABOUT: About = About {
        kind: "wrongModel",
        layer: Layer::Router,
        acts: Acts::OnTheWire,
        meaning: "With how: swapped the answer comes from the server as ever and names another model in every \
                  event that names one. With how: notFound it is a 404 that says there is no such model, and the \
                  server never sees the request.",
        certifies: "Clients compare the model that answered with the one they asked for; routing rules, fallbacks \
                  and deployments fail loudly when a model is gone.",
        does_not_certify: "No other model runs: quality, speed and tokenizer stay those of the right one. TGI's generate \
                  names no model in its answers, so swapped does nothing there.",
        example: "\
- name: another-model
  wrongModel: {how: swapped, model: tiny-draft-model}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        match (self.how, &self.model) {
            (WrongModelHow::NotFound, Some(_)) => {
                vec![("model", "no model: `how: notFound` speaks of the one that was asked for".to_owned())]
            }
            (_, Some(model)) if model.is_empty() => vec![("model", "the name of a model".to_owned())],
            _ => Vec::new(),
        }
    }
}

impl Meaning for WrongModel {
    fn before(&self, facts: &Facts<'_>, _: Draw) -> Before {
        if self.how != WrongModelHow::NotFound {
            return Before::Forward;
        }
        let model = facts.model.unwrap_or("unknown");
        let (code, message) = match facts.api {
            Api::AnthropicMessages => ("", format!("model: {model}")),
            Api::TritonGenerate => ("", format!("Request for unknown model: '{model}' is not found")),
            _ => ("model_not_found", format!("The model `{model}` does not exist or you do not have access to it.")),
        };
        let error = ProviderError { status: 404, code: code.to_owned(), message };
        Before::Answer(Answer { status: 404, headers: Vec::new(), body: AnswerBody::Error(error) })
    }

    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        if self.how != WrongModelHow::Swapped {
            return None;
        }
        let model = self.model.clone().or_else(|| Some(format!("{}-other", facts.model?)));
        Some(Box::new(Rename { model, api: facts.api, done: Done::default() }))
    }
}

struct Rename {
    /// Nothing = what the answer says, with `-other`.
    model: Option<String>,
    api: Api,
    done: Done,
}

impl Rename {
    fn rename(&mut self, value: &mut Value) -> bool {
        let mut changed = false;
        let key = if self.api == Api::TritonGenerate { "model_name" } else { "model" };
        let mut set = |holder: &mut Value| {
            if let Some(Value::String(name)) = holder.get_mut(key) {
                let other = self.model.clone().unwrap_or_else(|| format!("{name}-other"));
                changed |= other != *name;
                *name = other;
            }
        };
        set(value);
        for inner in ["response", "message"] {
            if let Some(holder) = value.get_mut(inner) {
                set(holder);
            }
        }
        self.done.touched += u64::from(changed);
        changed
    }
}

impl Effect for Rename {
    fn event(&mut self, event: &Event<'_>) -> Step {
        let Some(mut value) = shape::json(event) else { return Step::PASS };
        if self.rename(&mut value) { Step::replace(shape::with_json(event.raw, &value)) } else { Step::PASS }
    }

    fn body(&mut self, body: &[u8], _: u32) -> Step {
        let Some(mut value) = shape::object(body) else { return Step::PASS };
        if self.rename(&mut value) { Step::replace(value.to_string().into()) } else { Step::PASS }
    }

    fn done(&self) -> Done {
        Done { note: "another model named".to_owned(), ..self.done.clone() }
    }
}
