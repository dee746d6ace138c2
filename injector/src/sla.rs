//! SLA lines: what must hold, readable by everyone.
//!
//! ```text
//! line      = threshold | recovery
//! threshold = metric [ statistic ] operator value [ "for" time ]
//! recovery  = "recovers" "within" time
//! metric    = "ttft" | "ttfo" | "itl" | "tpot" | "e2e" | "error rate" | "goodput" | "throughput" | ...
//! statistic = "p50" | "p90" | "p95" | "p99" | "p99.9" | "mean" | "max"
//! operator  = "<" | "<=" | ">" | ">="
//! value     = time | number | number "%" | number "/s" | number "x" "baseline"
//! ```

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
