//! `httpError`: the answer is an HTTP error in the provider's own shape; the server never sees the request.

use super::{About, Acts, Layer, check};
use crate::draw::Draw;
use crate::effect::{Answer, AnswerBody, Before, Meaning, RetryValue};
use crate::facts::Facts;
use crate::wire::{Api, ProviderError};
use std::time::Duration;
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
        acts: Acts::OnTheWire,
        meaning: "The request is answered with an error status at once, in the body shape of the request's own \
                  provider (OpenAI, Anthropic, TGI, Triton), with a Retry-After where asked: as seconds (rounded \
                  up), as an HTTP date, or as retry-after-ms. The server never sees the request.",
        certifies: "Clients tell errors that may be retried from those that may not, honour Retry-After, back off, \
                  and fail over.",
        does_not_certify: "The server is relieved of these requests, so the load on it falls, while a real overload keeps \
                  it busy. The error comes at once; many real ones come late (combine with latency).",
        example: "\
- name: overloaded
  httpError: {status: 503, retryAfter: {in: 2s, as: seconds}}
  when: {probability: 0.4}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = check::error_status("status", self.status);
        if self.message.as_ref().is_some_and(String::is_empty) {
            problems.push(("message", "a text, or nothing for the provider's usual one".to_owned()));
        }
        problems
    }
}

impl Meaning for HttpError {
    fn before(&self, facts: &Facts<'_>, _: Draw) -> Before {
        let message = self.message.clone().unwrap_or_else(|| usual_message(facts.api, self.status).to_owned());
        let headers = self.retry_after.iter().map(RetryAfter::header).collect();
        let code = self.code.clone().unwrap_or_default();
        let error = ProviderError { status: self.status, code, message };
        Before::Answer(Answer { status: self.status, headers, body: AnswerBody::Error(error) })
    }
}

impl RetryAfter {
    fn header(&self) -> (String, RetryValue) {
        let wait = self.r#in.0;
        match self.r#as {
            RetryAfterForm::Seconds => ("retry-after".to_owned(), RetryValue::Text(whole_seconds(wait).to_string())),
            RetryAfterForm::Date => ("retry-after".to_owned(), RetryValue::DateIn(wait)),
            RetryAfterForm::Milliseconds => {
                ("retry-after-ms".to_owned(), RetryValue::Text(whole_millis(wait).to_string()))
            }
        }
    }
}

/// Seconds, rounded up: who waits that long has waited long enough.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Milliseconds, rounded up.
pub(super) fn whole_millis(wait: Duration) -> u128 {
    wait.as_nanos().div_ceil(1_000_000)
}

/// What the provider usually says with a status.
pub(super) const fn usual_message(api: Api, status: u16) -> &'static str {
    match (api, status) {
        (Api::AnthropicMessages, 529) => "Overloaded",
        (Api::AnthropicMessages, 500) => "Internal server error",
        (Api::TgiGenerate, 429 | 503) => "Model is overloaded",
        (Api::TritonGenerate, 503) => "Exceeds maximum queue size",
        (_, 400) => "The request could not be understood.",
        (_, 401) => "Incorrect API key provided.",
        (_, 403) => "You do not have access to this resource.",
        (_, 404) => "Not found.",
        (_, 408) => "The request took too long.",
        (_, 413) => "The request is too large.",
        (_, 422) => "The request could not be processed.",
        (_, 429) => "Rate limit reached. Please try again later.",
        (_, 502) => "Bad gateway.",
        (_, 503) => "The engine is currently overloaded, please try again later.",
        (_, 504) => "The upstream server did not answer in time.",
        (_, 400..=499) => "The request was refused.",
        _ => "The server had an error while processing your request.",
    }
}
