//! `rateLimit`: requests beyond a rate get 429 with a true Retry-After. Buckets hold one minute and refill continuously.

mod buckets;

pub use buckets::{Buckets, Refusal};

use super::{About, Layer, check};
use crate::draw::Draw;
use crate::effect::{Before, Meaning};
use crate::facts::Facts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests beyond a rate get 429 with a true Retry-After. Buckets hold one minute and refill continuously.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// Requests a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<f64>,
    /// Tokens a minute: prompt and asked output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<f64>,
}

impl RateLimit {
    pub(super) const ABOUT: About = About {
        kind: "rateLimit",
        layer: Layer::Router,
        meaning: "Requests beyond a rate get 429 in the provider's shape. Requests and tokens (the prompt's, a \
                  quarter of its characters, plus the output length asked for) have a bucket each that holds one \
                  minute's worth and refills continuously; a request takes from both or from none. Retry-After \
                  is true: after that wait the same request is admitted, if nobody else takes. The state of the \
                  buckets is told in the provider's own headers (x-ratelimit-..., anthropic-ratelimit-...).",
        certifies: "Clients honour Retry-After and rate-limit headers, spread their retries, and degrade \
                  gracefully at a quota instead of storming it.",
        does_not_certify: "Unused tokens of the output length asked for are not given back, and daily or concurrent \
                  quotas do not exist. The limit is that of one proxy; replicas have one each. The first \
                  minute's worth is there at once, so a short phase meets the limit late: choose rates well \
                  below the load.",
        example: "\
- name: small-quota
  rateLimit: {requestsPerMinute: 60, tokensPerMinute: 40000}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = check::at_least("requestsPerMinute", self.requests_per_minute, 1.0);
        problems.extend(check::at_least("tokensPerMinute", self.tokens_per_minute, 1.0));
        if self.requests_per_minute.is_none() && self.tokens_per_minute.is_none() {
            problems.push(("requestsPerMinute", "a rate of requests, of tokens, or both".to_owned()));
        }
        problems
    }
}

impl Meaning for RateLimit {
    fn before(&self, _: &Facts<'_>, _: Draw) -> Before {
        let Self { requests_per_minute, tokens_per_minute } = *self;
        Before::RateLimit { requests_per_minute, tokens_per_minute }
    }
}
