//! SLA lines: what must hold, readable by everyone.
//!
//! ```text
//! line      = threshold | recovery
//! threshold = metric [ statistic ] operator value [ "for" time ]
//! recovery  = "recovers" "within" time
//! metric    = "ttft" | "ttfo" | "itl" | "tpot" | "e2e"                        times: a statistic is required
//!           | "error rate" | "truncation rate" | "stall rate"                 shares: no statistic
//!           | "goodput" | "throughput" | "request rate"                       per second: no statistic
//! statistic = "p50" | "p90" | "p95" | "p99" | "p99.9" | ... | "mean" | "max"
//! operator  = "<" | "<=" | ">" | ">="
//! value     = time | number "%" | number "/s" | number "x" "baseline"
//! time      = { number ( "h" | "m" | "s" | "ms" | "us" | "ns" ) }
//! ```
//!
//! ```
//! use brownout_injector::sla;
//!
//! let line = sla::parse("ttft p99 < 800ms")?;
//! assert_eq!(line.to_string(), "ttft p99 < 800ms");
//!
//! let error = sla::parse("ttft < 800ms").unwrap_err();
//! assert_eq!(error.column, 6);
//! assert_eq!(error.suggestion.as_deref(), Some("ttft p99 < 800ms"));
//! # Ok::<(), sla::SlaError>(())
//! ```

mod parse;
mod print;

pub use parse::{SlaError, parse};

use std::time::Duration;

/// One parsed line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The line as written.
    pub text: String,
    /// What it demands.
    pub demand: Demand,
}

/// What a line demands.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// A metric stays on one side of a value.
    Threshold {
        /// What is measured.
        metric: Metric,
        /// Which number of its distribution; none for rates.
        statistic: Option<Statistic>,
        /// The side.
        operator: Operator,
        /// The value.
        bound: Bound,
        /// The line counts as broken (or an abort fires) only when it is broken for this long.
        hold: Option<Duration>,
    },
    /// The system is as good as before within this time after the faults end.
    RecoversWithin(Duration),
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Time to first token (content, reasoning or tool call), from the scheduled send.
    Ttft,
    /// Time to first output: the first token that is no reasoning.
    Ttfo,
    /// Inter-token latency.
    Itl,
    /// Time per output token: (last - first) / (tokens - 1).
    Tpot,
    /// From the scheduled send to the last content.
    E2e,
    /// Failed requests / finished requests.
    ErrorRate,
    /// Requests that end orderly but short of what was asked / finished requests.
    TruncationRate,
    /// Token gaps over three times the median gap / all gaps.
    StallRate,
    /// Requests a second that succeed and meet every latency line.
    Goodput,
    /// Output tokens a second, all requests together.
    Throughput,
    /// Finished requests a second.
    RequestRate,
}

/// Which number of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// A percentile, 0 < p < 100.
    Percentile(f64),
    /// The arithmetic mean.
    Mean,
    /// The largest.
    Max,
}

/// The side of the value on which a metric must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// The value that a metric is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A plain number: seconds for times, a share from 0 to 1 for rates of failure, per second for throughputs.
    Absolute(f64),
    /// So many times what the baseline phase had.
    TimesBaseline(f64),
}

/// The sort of number that a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Seconds, with a distribution: needs a statistic.
    Time,
    /// A share from 0 to 1.
    Share,
    /// Per second.
    Rate,
}

impl Metric {
    /// Every metric, in the order of the reference.
    pub const ALL: [Self; 11] = [
        Self::Ttft,
        Self::Ttfo,
        Self::Itl,
        Self::Tpot,
        Self::E2e,
        Self::ErrorRate,
        Self::TruncationRate,
        Self::StallRate,
        Self::Goodput,
        Self::Throughput,
        Self::RequestRate,
    ];

    /// Its name in a line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Ttfo => "ttfo",
            Self::Itl => "itl",
            Self::Tpot => "tpot",
            Self::E2e => "e2e",
            Self::ErrorRate => "error rate",
            Self::TruncationRate => "truncation rate",
            Self::StallRate => "stall rate",
            Self::Goodput => "goodput",
            Self::Throughput => "throughput",
            Self::RequestRate => "request rate",
        }
    }

    /// The sort of number that it is.
    #[must_use]
    pub const fn quantity(self) -> Quantity {
        match self {
            Self::Ttft | Self::Ttfo | Self::Itl | Self::Tpot | Self::E2e => Quantity::Time,
            Self::ErrorRate | Self::TruncationRate | Self::StallRate => Quantity::Share,
            Self::Goodput | Self::Throughput | Self::RequestRate => Quantity::Rate,
        }
    }

    /// Whether less of it is better; nothing for the rate of requests, which is neither good nor bad.
    #[must_use]
    pub const fn less_is_better(self) -> Option<bool> {
        match self.quantity() {
            Quantity::Time | Quantity::Share => Some(true),
            Quantity::Rate => match self {
                Self::RequestRate => None,
                _ => Some(false),
            },
        }
    }
}

impl Operator {
    /// Whether the metric must stay under the value.
    #[must_use]
    pub const fn is_upper_bound(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual)
    }

    /// Whether `value` stands on the right side of `bound`.
    #[must_use]
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
        }
    }
}
