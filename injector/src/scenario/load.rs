//! The load that a run puts on the server.

use crate::units::{LengthDist, TimeSpan};
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

/// When requests are sent. Open arrivals keep their schedule however slow the server is; `closed` waits for answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Arrival {
    /// Evenly spaced.
    Constant {
        /// Requests a second.
        rate: f64,
    },
    /// Independent of each other, as from many users.
    Poisson {
        /// Requests a second.
        rate: f64,
    },
    /// Bursty: gaps from a gamma distribution with shape `1 / burstiness`. 1 is Poisson, larger is burstier.
    Gamma {
        /// Requests a second.
        rate: f64,
        /// Squared coefficient of variation of the gaps.
        burstiness: f64,
    },
    /// So many users, each of whom sends the next request when the last is answered.
    Closed {
        /// Users.
        concurrency: u32,
        /// At most this many requests in all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requests: Option<u64>,
    },
}

/// More requests a second than one machine can send.
const MOST_REQUESTS_A_SECOND: f64 = 1e6;

impl Arrival {
    /// What is wrong beyond what the schema says: `(field, what would be right)` each.
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
            && !(*rate > 0.0 && *rate <= MOST_REQUESTS_A_SECOND)
        {
            all.push((rate_field, "more than 0 requests a second, and at most a million".to_owned()));
        }
        match self {
            Self::Gamma { burstiness, .. } if *burstiness <= 0.0 => {
                all.push(("gamma.burstiness", "more than 0; 1 is as bursty as Poisson".to_owned()));
            }
            Self::Closed { concurrency: 0, .. } => all.push(("closed.concurrency", "at least 1".to_owned())),
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
