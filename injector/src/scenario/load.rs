//! The load that a run puts on the server.

use crate::units::{LengthDist, MAX_TOKENS, TimeSpan};
use crate::wire::Api;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Load {
    /// The protocol.
    #[serde(default = "Load::default_api")]
    pub api: Api,
    /// The model to ask for; the first of `/v1/models` where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When requests are sent.
    pub arrival: Arrival,
    /// What is asked.
    pub prompt: PromptSource,
    /// How long the answers are.
    #[serde(default = "Load::default_output")]
    pub output: OutputLength,
    /// Whether answers are streamed.
    #[serde(default = "Load::default_stream")]
    pub stream: bool,
    /// Sampling temperature. At 0 the same prompt has one answer.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// When a request is given up.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Further request headers. `${NAME}` stands for an environment variable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Further fields of the request body.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub body: serde_json::Map<String, serde_json::Value>,
}

impl Load {
    fn default_api() -> Api {
        Api::OpenaiChat
    }
    fn default_output() -> OutputLength {
        OutputLength { tokens: LengthDist::Constant(64) }
    }
    fn default_stream() -> bool {
        true
    }
}

/// The highest rate that can be asked for, in requests a second: one machine runs out of ports long before.
pub const MAX_RATE: f64 = 100_000.0;

/// The most users of a closed loop, each with a connection of its own.
pub const MAX_CONCURRENCY: u32 = 10_000;

/// The squared coefficients of variation that a gamma process is drawn with.
const BURSTINESS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// When requests are sent. Open arrivals keep their schedule however slow the server is; `closed` waits for answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Arrival {
    /// Evenly spaced.
    Constant {
        /// Requests a second, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0), range(max = MAX_RATE))]
        rate: f64,
    },
    /// Independent of each other, as from many users.
    Poisson {
        /// Requests a second, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0), range(max = MAX_RATE))]
        rate: f64,
    },
    /// Bursty: gaps from a gamma distribution with shape `1 / burstiness`. 1 is Poisson, larger is burstier.
    Gamma {
        /// Requests a second, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0), range(max = MAX_RATE))]
        rate: f64,
        /// Squared coefficient of variation of the gaps.
        #[schemars(range(min = *BURSTINESS.start(), max = *BURSTINESS.end()))]
        burstiness: f64,
    },
    /// So many users, each of whom sends the next request when the last is answered.
    Closed {
        /// Users.
        #[schemars(range(min = 1, max = MAX_CONCURRENCY))]
        concurrency: u32,
        /// At most this many requests in all, those of the warm-up included.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        requests: Option<u64>,
    },
}

impl Arrival {
    /// What is wrong with it, by the schema and beyond: `(field, what would be right)` each.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let rate_field = match self {
            Self::Constant { .. } => "constant.rate",
            Self::Poisson { .. } => "poisson.rate",
            Self::Gamma { .. } => "gamma.rate",
            Self::Closed { .. } => "closed",
        };
        let mut all = Vec::new();
        if let Self::Constant { rate } | Self::Poisson { rate } | Self::Gamma { rate, .. } = self
            && !(*rate > 0.0 && *rate <= MAX_RATE)
        {
            all.push((rate_field, format!("more than 0 requests a second, and at most {MAX_RATE}")));
        }
        match self {
            Self::Gamma { burstiness, .. } if !BURSTINESS.contains(burstiness) => {
                let (least, most) = (BURSTINESS.start(), BURSTINESS.end());
                all.push(("gamma.burstiness", format!("from {least} to {most}; 1 is as bursty as Poisson")));
            }
            Self::Closed { concurrency, .. } if !(1..=MAX_CONCURRENCY).contains(concurrency) => {
                all.push(("closed.concurrency", format!("from 1 to {MAX_CONCURRENCY}")));
            }
            Self::Closed { requests: Some(0), .. } => all.push(("closed.requests", "at least 1".to_owned())),
            _ => {}
        }
        all
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptSource {
    /// Made-up prompts with this many tokens, about four characters each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<LengthDist>,
    /// The first so many tokens are the same in all made-up prompts, as a system prompt is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_TOKENS))]
    pub shared_prefix: Option<u32>,
    /// A file of JSON lines instead, relative to the scenario: each `{"prompt": "..."}` or `{"messages": [...]}`,
    /// with `"max_tokens"` where it wants its own. Used in order, again from the start when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// How long the answers are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputLength {
    /// `max_tokens` of each request.
    pub tokens: LengthDist,
}

/// When a request is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timeouts {
    /// The longest a request may take in all.
    #[serde(default = "Timeouts::default_request")]
    pub request: TimeSpan,
    /// The longest wait for the first token.
    #[serde(default = "Timeouts::default_first_token")]
    pub first_token: TimeSpan,
    /// The longest silence between two tokens.
    #[serde(default = "Timeouts::default_stall")]
    pub stall: TimeSpan,
}

impl Timeouts {
    /// What is wrong beyond what the schema says: `(field, what would be right)` each.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        [("request", self.request), ("firstToken", self.first_token), ("stall", self.stall)]
            .into_iter()
            .filter(|(_, span)| span.0.is_zero())
            .map(|(field, _)| (field, "more than 0s".to_owned()))
            .collect()
    }
}

const fn seconds(n: u64) -> TimeSpan {
    TimeSpan(std::time::Duration::from_secs(n))
}

impl Timeouts {
    fn default_request() -> TimeSpan {
        seconds(120)
    }
    fn default_first_token() -> TimeSpan {
        seconds(30)
    }
    fn default_stall() -> TimeSpan {
        seconds(10)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            request: Self::default_request(),
            first_token: Self::default_first_token(),
            stall: Self::default_stall(),
        }
    }
}
