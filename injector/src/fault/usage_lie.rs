//! `usageLie`: the token usage that the answer reports is wrong.

use super::{About, Acts, Layer, check, shape};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning, Step};
use crate::facts::Facts;
use crate::wire::{Api, Class, Event};
use serde_json::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The token usage that the answer reports is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageLie {
    /// Reported counts are multiplied by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub factor: Option<f64>,
    /// The usage is left out.
    #[serde(default)]
    pub omit: bool,
}

impl UsageLie {
    pub(super) const ABOUT: About = About {
        kind: "usageLie",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "The token usage that the answer reports is wrong: every count in it is multiplied by factor \
                  and rounded, or the usage is left out. An event that carries nothing but usage is then left \
                  out too.",
        certifies: "Billing, quotas, rate limiters and dashboards that trust the server's usage notice when it \
                  cannot be true, and live without it.",
        does_not_certify: "Prices, log probabilities and server-side timings are not touched, nor are counts in headers. \
                  Triton reports no usage.",
        example: "\
- name: lying-meter
  usageLie: {factor: 10}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        match (self.factor, self.omit) {
            (None, false) => vec![("factor", "either `factor` or `omit: true`: neither is given".to_owned())],
            (Some(_), true) => vec![("omit", "either `factor` or `omit: true`: both are given".to_owned())],
            (factor, _) => check::at_least("factor", factor, 0.0),
        }
    }
}

impl Meaning for UsageLie {
    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        Some(Box::new(Lie { factor: self.factor, api: facts.api, done: Done::default() }))
    }
}

struct Lie {
    /// Nothing = the usage is left out.
    factor: Option<f64>,
    api: Api,
    done: Done,
}

impl Lie {
    /// True where there was any usage.
    fn lie(&mut self, value: &mut Value) -> bool {
        let told = match (shape::usage(self.api, value), self.factor) {
            (None, _) => false,
            // TGI's details hold other numbers too, the seed for one.
            (Some(details), Some(factor)) if self.api == Api::TgiGenerate => ["generated_tokens", "input_length"]
                .into_iter()
                .fold(false, |any, key| details.get_mut(key).is_some_and(|n| multiply(n, factor)) | any),
            (Some(usage), Some(factor)) => multiply(usage, factor),
            (Some(_), None) => shape::drop_usage(self.api, value),
        };
        self.done.touched += u64::from(told);
        told
    }
}

/// Multiplies every whole number in `value`; true where there is one.
fn multiply(value: &mut Value, factor: f64) -> bool {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(count) => {
                *value = ((count as f64 * factor).round() as u64).into();
                true
            }
            None => false,
        },
        Value::Object(fields) => fields.values_mut().fold(false, |any, field| multiply(field, factor) | any),
        _ => false,
    }
}

impl Effect for Lie {
    fn event(&mut self, event: &Event<'_>) -> Step {
        let Some(mut value) = shape::json(event) else { return Step::PASS };
        if !self.lie(&mut value) {
            Step::PASS
        } else if self.factor.is_none() && event.class == Class::Usage {
            Step::swallow()
        } else {
            Step::replace(shape::with_json(event.raw, &value))
        }
    }

    fn body(&mut self, body: &[u8], _: u32) -> Step {
        let Some(mut value) = shape::object(body) else { return Step::PASS };
        if self.lie(&mut value) { Step::replace(value.to_string().into()) } else { Step::PASS }
    }

    fn done(&self) -> Done {
        let note = self.factor.map_or_else(|| "usage left out".to_owned(), |factor| format!("usage times {factor}"));
        Done { note, ..self.done.clone() }
    }
}
