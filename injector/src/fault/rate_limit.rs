//! `rateLimit`: requests beyond a rate get 429 with a true Retry-After. Buckets refill continuously.

mod buckets;

pub use buckets::{Buckets, Refusal};

use super::{About, Acts, Layer, check};
use crate::draw::Draw;
use crate::effect::{Before, Meaning};
use crate::facts::Facts;
use crate::units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Requests beyond a rate get 429 with a true Retry-After. Buckets refill continuously.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// Requests a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0))]
    pub requests_per_minute: Option<f64>,
    /// Tokens a minute: prompt and asked output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0))]
    pub tokens_per_minute: Option<f64>,
    /// What a full bucket holds, as the time in which it fills at its rate; one minute where left out. Providers often
    /// hold a minute's quota to a rate by the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<TimeSpan>,
}

/// What a full bucket holds where nothing else is said.
const MINUTE: Duration = Duration::from_secs(60);

impl RateLimit {
    pub(super) const ABOUT: About = About {
        kind: "rateLimit",
        layer: Layer::Router,
        acts: Acts::OnTheWire,
        meaning: "Requests beyond a rate get 429 in the provider's shape. Requests and tokens (the prompt's, a \
                  quarter of its characters, plus the output length asked for) have a bucket each that refills \
                  continuously and holds one minute's worth, or what refills in burst; a request takes from both or from none. Retry-After \
                  is true: after that wait the same request is admitted, if nobody else takes. The state of the \
                  buckets is told in the provider's own headers (x-ratelimit-..., anthropic-ratelimit-...).",
        certifies: "Clients honour Retry-After and rate-limit headers, spread their retries, and degrade \
                  gracefully at a quota instead of storming it.",
        does_not_certify: "Unused tokens of the output length asked for are not given back, and daily or concurrent quotas do \
                  not exist. The limit is that of one proxy; replicas have one each. What a full bucket holds is \
                  there at once, so without burst a short phase meets the limit late.",
        example: "\
- name: small-quota
  rateLimit: {requestsPerMinute: 60, tokensPerMinute: 40000}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = check::at_least("requestsPerMinute", self.requests_per_minute, 1.0);
        problems.extend(check::at_least("tokensPerMinute", self.tokens_per_minute, 1.0));
        let burst = self.burst.map_or(MINUTE, |span| span.0).as_secs_f64();
        let holds = |rate: Option<f64>| rate.is_none_or(|rate| rate * burst / 60.0 >= 1.0);
        if problems.is_empty() && !(holds(self.requests_per_minute) && holds(self.tokens_per_minute)) {
            problems.push(("burst", "long enough for a full bucket to hold 1 at the given rate".to_owned()));
        }
        if self.requests_per_minute.is_none() && self.tokens_per_minute.is_none() {
            problems.push(("requestsPerMinute", "a rate of requests, of tokens, or both".to_owned()));
        }
        problems
    }
}

impl Meaning for RateLimit {
    fn before(&self, _: &Facts<'_>, _: Draw) -> Before {
        let Self { requests_per_minute, tokens_per_minute, burst } = *self;
        let burst = burst.map_or(MINUTE, |span| span.0);
        Before::RateLimit { requests_per_minute, tokens_per_minute, burst }
    }
}
