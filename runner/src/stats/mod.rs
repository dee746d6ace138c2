//! Statistics for latencies of a serving system: numbers with intervals, and no number where there is no evidence.
//!
//! Everything here is pure: the same data and seed give the same result on every machine. What each method assumes,
//! and where it comes from, is told in `docs/numbers.md`.

pub mod bootstrap;
pub mod histogram;
pub mod jitter;
pub mod mean;
pub mod quantile;
pub mod rate;
pub mod shift;

use serde::{Deserialize, Serialize};

/// The 97.5 % point of the standard normal distribution: two-sided 95 %.
pub const Z_TWO_SIDED: f64 = 1.959_963_984_540_054;
/// The 95 % point of the standard normal distribution: one-sided 95 %.
pub const Z_ONE_SIDED: f64 = 1.644_853_626_951_472_7;

/// How an interval shares its 5 % of doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// Both bounds hold together with 95 %: 2.5 % beyond each. For tables.
    Two,
    /// Each bound alone holds with 95 %. For judging a line, where only one side can hurt.
    One,
}

impl Sides {
    /// The probability that is left beyond each bound.
    #[must_use]
    pub const fn tail(self) -> f64 {
        match self {
            Self::Two => 0.025,
            Self::One => 0.05,
        }
    }

    /// The normal distribution's point for [`Sides::tail`].
    #[must_use]
    pub const fn z(self) -> f64 {
        match self {
            Self::Two => Z_TWO_SIDED,
            Self::One => Z_ONE_SIDED,
        }
    }
}

/// A confidence interval. A bound that the data cannot give is absent, never invented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower bound; none where there are too few samples for one.
    pub low: Option<f64>,
    /// The upper bound; none where there are too few samples for one.
    pub high: Option<f64>,
}

impl Interval {
    /// An interval with both bounds.
    #[must_use]
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low: Some(low), high: Some(high) }
    }

    /// Whether the interval lies below `other`, with no point in common; a missing bound is no border.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        matches!((self.high, other.low), (Some(high), Some(low)) if high < low)
    }

    /// Whether `value` lies inside; a missing bound is no border.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low.is_none_or(|low| low <= value) && self.high.is_none_or(|high| value <= high)
    }
}

/// A number with what is known of its uncertainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// How many values it is made of.
    pub n: u64,
    /// The number; none where there are too few values.
    pub value: Option<f64>,
    /// Its two-sided 95 % interval, where one can be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}
