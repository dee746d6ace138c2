//! Quantities as people write them: `60ms`, `1m30s`, and the distributions that faults and load draw from.

use crate::draw::{Draw, Normal as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

/// A length of time with its unit, as in `250us`, `60ms`, `10s`, `1m30s`, `2h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub Duration);

/// Units from the largest to the smallest, with their length in nanoseconds.
const TIME_UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A text that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTimeSpan {
    text: String,
    too_long: bool,
}

impl fmt::Display for BadTimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        if self.too_long {
            return write!(f, "`{text}` is longer than a century");
        }
        write!(
            f,
            "`{text}` is not a length of time: write a number with a unit, such as 250us, 60ms, 10s, 1m30s, 2h"
        )
    }
}

impl std::error::Error for BadTimeSpan {}

impl FromStr for TimeSpan {
    type Err = BadTimeSpan;

    fn from_str(text: &str) -> Result<Self, BadTimeSpan> {
        let bad = || BadTimeSpan { text: text.to_owned(), too_long: false };
        let mut rest = text;
        let mut nanos = 0_u128;
        if text.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
            let (number, after) = rest.split_at(digits);
            let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            let unit = TIME_UNITS.iter().find(|(name, _)| *name == &after[..letters]).ok_or_else(bad)?.1;
            let part = nanos_of(number, unit).ok_or_else(bad)?;
            nanos = nanos.saturating_add(part);
            rest = &after[letters..];
        }
        match u64::try_from(nanos) {
            Ok(nanos) if nanos <= LONGEST_NANOS => Ok(Self(Duration::from_nanos(nanos))),
            _ => Err(BadTimeSpan { text: text.to_owned(), too_long: true }),
        }
    }
}

/// The longest span: a century is longer than any experiment, and keeps every later sum far from overflow.
const LONGEST_NANOS: u64 = 100 * 365 * 24 * 3_600_000_000_000;

/// Nanoseconds in a plain decimal number of units, to the nearest; exact for whole numbers of any size.
fn nanos_of(number: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(fraction) {
        return None;
    }
    let whole = whole.parse::<u128>().unwrap_or(u128::MAX).saturating_mul(u128::from(unit));
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    Some(whole.saturating_add((fraction * unit as f64).round() as u128))
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut nanos = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return f.write_str("0s");
        }
        for (name, unit) in TIME_UNITS {
            if nanos >= unit {
                write!(f, "{}{name}", nanos / unit)?;
                nanos %= unit;
            }
        }
        Ok(())
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for TimeSpan {
    fn schema_name() -> Cow<'static, str> {
        "TimeSpan".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A length of time with its unit: 250us, 60ms, 10s, 1m30s, 2h.",
            "pattern": r"^([0-9]+(\.[0-9]+)?(h|ms|m|us|ns|s))+$"
        })
    }
}

/// How long one delay is. Negative draws count as no delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum DelayDist {
    /// Always the same.
    Constant(TimeSpan),
    /// Any length between `min` and `max`, all equally likely.
    #[serde(rename_all = "camelCase")]
    Uniform {
        /// The shortest.
        min: TimeSpan,
        /// The longest.
        max: TimeSpan,
    },
    /// A normal distribution.
    #[serde(rename_all = "camelCase")]
    Normal {
        /// The mean.
        mean: TimeSpan,
        /// The standard deviation.
        stddev: TimeSpan,
    },
    /// A log-normal distribution, by the two numbers that people know of a latency.
    #[serde(rename_all = "camelCase")]
    Lognormal {
        /// Half of the delays are shorter.
        median: TimeSpan,
        /// One delay in a hundred is longer.
        p99: TimeSpan,
    },
}

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

impl DelayDist {
    /// What is wrong beyond what the schema says: `(field, what would be right)` each.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Uniform { min, max } if min > max => {
                vec![("uniform.max", format!("`max` is at least `min`, which is {min}"))]
            }
            Self::Lognormal { median, .. } if median.0.is_zero() => {
                vec![("lognormal.median", "the median is more than 0s".to_owned())]
            }
            Self::Lognormal { median, p99 } if p99 <= median => {
                vec![("lognormal.p99", format!("`p99` is more than `median`, which is {median}"))]
            }
            _ => Vec::new(),
        }
    }

    /// The `i`th delay of `draw`.
    #[must_use]
    pub fn sample(&self, draw: Draw, i: u64) -> Duration {
        let seconds = match self {
            Self::Constant(span) => return span.0,
            Self::Uniform { min, max } => {
                let (low, high) = (min.0.as_secs_f64(), max.0.as_secs_f64());
                low + (high - low) * draw.unit(i)
            }
            Self::Normal { mean, stddev } => mean.0.as_secs_f64() + stddev.0.as_secs_f64() * draw.normal(i),
            Self::Lognormal { median, p99 } => {
                let sigma = (p99.0.as_secs_f64() / median.0.as_secs_f64()).ln() / Z99;
                median.0.as_secs_f64() * (sigma * draw.normal(i)).exp()
            }
        };
        Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::ZERO)
    }
}

/// The longest prompt or answer that can be asked for, in tokens: more than any model's context.
pub const MAX_TOKENS: u32 = 4_000_000;

/// How many tokens a prompt or an answer has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum LengthDist {
    /// Always the same.
    Constant(#[schemars(range(min = 1, max = MAX_TOKENS))] u32),
    /// Any length between `min` and `max`, all equally likely.
    Uniform {
        /// The shortest.
        #[schemars(range(min = 1, max = MAX_TOKENS))]
        min: u32,
        /// The longest.
        #[schemars(range(min = 1, max = MAX_TOKENS))]
        max: u32,
    },
    /// A normal distribution, rounded, at least 1.
    Normal {
        /// The mean.
        #[schemars(range(min = 1.0, max = f64::from(MAX_TOKENS)))]
        mean: f64,
        /// The standard deviation.
        #[schemars(range(min = 0.0))]
        stddev: f64,
    },
    /// Zipf's law: length k with a probability proportional to 1 / k^exponent.
    Zipf {
        /// The longest.
        #[schemars(range(min = 1, max = MAX_TOKENS))]
        max: u32,
        /// The exponent, above 0; the larger, the shorter the usual length.
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        exponent: f64,
    },
}

impl LengthDist {
    /// What is wrong with it, by the schema and beyond: `(field, what would be right)` each.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        let mut need = |right: bool, field: &'static str, text: String| {
            if !right {
                all.push((field, text));
            }
        };
        let tokens = 1..=MAX_TOKENS;
        let in_range = || format!("from 1 to {MAX_TOKENS}");
        match self {
            Self::Constant(n) => need(tokens.contains(n), "constant", in_range()),
            Self::Uniform { min, max } => {
                need(tokens.contains(min), "uniform.min", in_range());
                need(tokens.contains(max), "uniform.max", in_range());
                need(max >= min, "uniform.max", format!("`max` is at least `min`, which is {min}"));
            }
            Self::Normal { mean, stddev } => {
                need(*mean >= 1.0 && *mean <= f64::from(MAX_TOKENS), "normal.mean", in_range());
                // Six standard deviations: one draw in a thousand million lies beyond.
                let most = ((f64::from(MAX_TOKENS) - mean) / 6.0).floor().max(0.0);
                need(*stddev >= 0.0 && *stddev <= most, "normal.stddev", format!("from 0 to {most}"));
            }
            Self::Zipf { max, exponent } => {
                need(tokens.contains(max), "zipf.max", in_range());
                need(*exponent > 0.0 && exponent.is_finite(), "zipf.exponent", "more than 0".to_owned());
            }
        }
        all
    }

    /// The longest length, where the distribution has one.
    #[must_use]
    pub const fn longest(&self) -> Option<u32> {
        match self {
            Self::Constant(n) => Some(*n),
            Self::Uniform { max, .. } | Self::Zipf { max, .. } => Some(*max),
            Self::Normal { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_written() {
        for (text, millis) in
            [("60ms", 60), ("10s", 10_000), ("1m30s", 90_000), ("2h", 7_200_000), ("1.5s", 1_500)]
        {
            assert_eq!(text.parse(), Ok(TimeSpan(Duration::from_millis(millis))), "{text}");
        }
        for text in
            ["", "10", "s", "10 s", "10parsecs", "-1s", "1..2s", "1.s", ".5s", "1.5", "99999999h", "9e9s"]
        {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_reads_back(nanos in 0..=LONGEST_NANOS) {
            let span = TimeSpan(Duration::from_nanos(nanos));
            proptest::prop_assert_eq!(span.to_string().parse(), Ok(span));
        }
    }

    #[test]
    fn a_lognormal_has_its_median_and_its_p99() {
        let dist = DelayDist::Lognormal {
            median: TimeSpan(Duration::from_millis(60)),
            p99: TimeSpan(Duration::from_millis(400)),
        };
        let mut all: Vec<f64> =
            (0..50_000).map(|n| dist.sample(Draw::new(3, "x", n), 0).as_secs_f64() * 1e3).collect();
        all.sort_by(f64::total_cmp);
        assert!((all[25_000] - 60.0).abs() < 2.0, "median {}", all[25_000]);
        assert!((all[49_500] - 400.0).abs() < 25.0, "p99 {}", all[49_500]);
    }
}
