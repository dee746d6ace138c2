//! `httpError`: the answer is an HTTP error in the provider's own shape; the server never sees the request.

use super::{About, Layer};
use crate::effect::Meaning;
use crate::units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer is an HTTP error in the provider's own shape; the server never sees the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpError {
    /// The status, from 400 to 599.
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// The message; the provider's usual one where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The provider's code for the error; by status where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// When the client is told to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<RetryAfter>,
}

/// When and how a client is told to try again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryAfter {
    /// How long it shall wait.
    pub r#in: TimeSpan,
    /// How it is told.
    #[serde(default)]
    pub r#as: RetryAfterForm,
}

/// How a client is told when to try again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RetryAfterForm {
    /// `Retry-After` with seconds (RFC 9110, 10.2.3).
    #[default]
    Seconds,
    /// `Retry-After` with an HTTP date.
    Date,
    /// `retry-after-ms` with milliseconds, as some model providers send.
    Milliseconds,
}

impl HttpError {
    pub(super) const ABOUT: About = About {
        kind: "httpError",
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

impl Meaning for HttpError {}
