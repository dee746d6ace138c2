//! `corruptTokens`: the text of tokens is wrong, the events around it stay valid.

use super::{About, Acts, Layer, shape};
use crate::draw::Draw;
use crate::effect::{Done, Effect, Meaning, Step};
use crate::facts::Facts;
use crate::wire::{Api, Class, Event};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The text of tokens is wrong, the events around it stay valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CorruptTokens {
    /// How.
    pub how: Corruption,
    /// The share of tokens, above 0 and at most 1.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1.0))]
    pub share: f64,
}

/// How text is corrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Corruption {
    /// The text is replaced by the text of an earlier token of the same answer.
    #[default]
    Swap,
    /// The text comes twice.
    Repeat,
    /// The text is left out.
    Drop,
    /// Letters are replaced by other letters.
    Garble,
}

impl CorruptTokens {
    pub(super) const ABOUT: About = About {
        kind: "corruptTokens",
        layer: Layer::InferenceEngine,
        acts: Acts::OnTheWire,
        meaning: "A share of the events that carry answer or reasoning text gets wrong text: that of an earlier \
                  token of the same answer (swap), its own twice (repeat), none (drop), or other letters \
                  (garble). All other fields stay, events stay valid JSON, and where a protocol says the whole \
                  text again at its end, it says the wrong one. Tool calls are left alone. An answer that is not \
                  streamed is corrupted word by word.",
        certifies: "Checks of content notice wrong output: evaluation gates, canary prompts with known answers, \
                  checksums between replicas.",
        does_not_certify: "Bad weights, a bad KV cache or a flipped bit make text that is wrong but fluent, and one wrong \
                  token changes all that follow; here the model never sees what was changed. Token ids and log \
                  probabilities still tell of the right token.",
        example: "\
- name: garbled
  corruptTokens: {how: garble, share: 0.2}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        if self.share > 0.0 && self.share <= 1.0 {
            return Vec::new();
        }
        vec![("share", "a share above 0 and at most 1".to_owned())]
    }
}

impl Meaning for CorruptTokens {
    fn on_answer(&self, facts: &Facts<'_>, draw: Draw) -> Option<Box<dyn Effect>> {
        Some(Box::new(Corrupt {
            how: self.how,
            share: self.share,
            api: facts.api,
            draw: draw.fork("corrupt"),
            earlier: Vec::new(),
            restate: shape::Restate::default(),
            done: Done::default(),
        }))
    }
}

/// How many earlier texts are kept to swap with: enough for variety, and a bound.
const EARLIER: usize = 64;

struct Corrupt {
    how: Corruption,
    share: f64,
    api: Api,
    draw: Draw,
    earlier: Vec<String>,
    restate: shape::Restate,
    done: Done,
}

impl Corrupt {
    /// What is said in the place of `text`, the token with number `i`; nothing where it stays.
    fn instead(&mut self, text: &str, i: u64) -> Option<String> {
        let chosen = self.draw.fork("share").unit(i) < self.share;
        let instead = if chosen { self.corrupted(text, i) } else { None };
        if self.how == Corruption::Swap {
            if self.earlier.len() < EARLIER {
                self.earlier.push(text.to_owned());
            } else {
                self.earlier[i as usize % EARLIER] = text.to_owned();
            }
        }
        let instead = instead.filter(|instead| instead != text)?;
        self.done.touched += 1;
        Some(instead)
    }

    fn corrupted(&self, text: &str, i: u64) -> Option<String> {
        Some(match self.how {
            Corruption::Swap => {
                let others: Vec<&String> = self.earlier.iter().filter(|other| *other != text).collect();
                let which = self.draw.fork("which").below(i, others.len() as u64);
                (*others.get(which as usize)?).clone()
            }
            Corruption::Repeat => text.repeat(2),
            Corruption::Drop => String::new(),
            Corruption::Garble => {
                let draw = self.draw.fork("letters").fork(&i.to_string());
                text.chars().zip(0..).map(|(c, k)| other_letter(c, draw.bits(k))).collect()
            }
        })
    }
}

/// Another letter of the same kind; what is no letter stays.
fn other_letter(c: char, bits: u64) -> char {
    let turn = |first: u8, letter: u8| {
        let by = 1 + (bits % 25) as u8;
        char::from(first + (letter - first + by) % 26)
    };
    match c {
        'a'..='z' => turn(b'a', c as u8),
        'A'..='Z' => turn(b'A', c as u8),
        // Neighbours in Unicode are letters of the same script almost always.
        _ if c.is_alphabetic() => {
            let neighbour = |by: i64| char::from_u32((i64::from(u32::from(c)) + by) as u32);
            [1, -1].into_iter().filter_map(neighbour).find(|other| other.is_alphabetic()).unwrap_or('x')
        }
        _ => c,
    }
}

impl Effect for Corrupt {
    fn event(&mut self, event: &Event<'_>) -> Step {
        let restates = shape::Restate::matters(self.api);
        let speaks = matches!(event.class, Class::Content | Class::Reasoning);
        if !speaks && !restates {
            return Step::PASS;
        }
        let Some(mut value) = shape::json(event) else { return Step::PASS };
        let (api, mut changed) = (self.api, false);
        if speaks {
            shape::each_text(api, &mut value, &mut |_, text| {
                if let Some(instead) = self.instead(text, u64::from(event.token)) {
                    *text = instead;
                    changed = true;
                }
            });
        }
        if restates {
            self.restate.push(api, &value);
            changed |= self.restate.patch(api, &mut value);
        }
        if changed { Step::replace(shape::with_json(event.raw, &value)) } else { Step::PASS }
    }

    fn body(&mut self, body: &[u8], _: u32) -> Step {
        let Some(mut value) = shape::object(body) else { return Step::PASS };
        let (api, mut i, mut changed) = (self.api, 0, false);
        shape::each_text(api, &mut value, &mut |_, text| {
            let mut out = String::with_capacity(text.len());
            for piece in shape::pieces(text) {
                match self.instead(piece, i) {
                    Some(instead) => out.push_str(&instead),
                    None => out.push_str(piece),
                }
                i += 1;
            }
            changed |= out != *text;
            *text = out;
        });
        if changed { Step::replace(value.to_string().into()) } else { Step::PASS }
    }

    fn done(&self) -> Done {
        let verb = match self.how {
            Corruption::Swap => "swapped",
            Corruption::Repeat => "repeated",
            Corruption::Drop => "dropped",
            Corruption::Garble => "garbled",
        };
        Done { note: format!("{verb} {} tokens", self.done.touched), ..self.done.clone() }
    }
}
