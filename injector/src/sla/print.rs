//! Lines as people write them; what is printed reads back as the same line.

use super::{Bound, Demand, Line, Metric, Operator, Quantity, Statistic};
use crate::units::TimeSpan;
use std::fmt;
use std::time::Duration;

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.demand.fmt(f)
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecoversWithin(time) => write!(f, "recovers within {}", TimeSpan(*time)),
            Self::Threshold { metric, statistic, operator, bound, hold } => {
                write!(f, "{metric}")?;
                if let Some(statistic) = statistic {
                    write!(f, " {statistic}")?;
                }
                write!(f, " {operator} ")?;
                match (bound, metric.quantity()) {
                    (Bound::TimesBaseline(factor), _) => write!(f, "{factor}x baseline")?,
                    (Bound::Absolute(seconds), Quantity::Time) => {
                        let time = Duration::try_from_secs_f64(*seconds).unwrap_or_default();
                        write!(f, "{}", TimeSpan(time))?;
                    }
                    (Bound::Absolute(share), Quantity::Share) => write!(f, "{}%", percent(*share))?,
                    (Bound::Absolute(rate), Quantity::Rate) => write!(f, "{rate}/s")?,
                }
                match hold {
                    Some(hold) => write!(f, " for {}", TimeSpan(*hold)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The shortest number of percent that reads back as this share.
fn percent(share: f64) -> String {
    (0..17)
        .map(|digits| format!("{:.digits$}", share * 100.0))
        .find(|text| text.parse::<f64>().is_ok_and(|number| number / 100.0 == share))
        .unwrap_or_else(|| (share * 100.0).to_string())
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(p) => write!(f, "p{p}"),
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}
