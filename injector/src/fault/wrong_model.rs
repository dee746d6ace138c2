//! `wrongModel`: the answer names another model, or the model is said not to exist.

use super::{About, Layer};
use crate::effect::Meaning;
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
        meaning: "",
        certifies: "",
        does_not_certify: "",
        example: "",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for WrongModel {}
