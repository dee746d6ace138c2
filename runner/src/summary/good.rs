//! When a request is good: complete, and within every latency line.

use super::data::PhaseData;
use super::{response_e2e, statistic_name, token_gaps};
use crate::record::{Outcome, RequestRecord};
use crate::stats::quantile::of_sorted;
use brownout_injector::sla::{Bound, Demand, Line, Metric, Operator, Statistic};

/// Without any latency line, recovery asks that TTFT and mean gap stay within this many times the baseline's p95.
const IMPLIED_FACTOR: f64 = 2.0;

/// Lines on lower percentiles speak of the run's middle, which half of all requests are beyond: `ttft p50 < 200ms` does
/// not say that a request of 250 ms is bad.
const LEAST_PERCENTILE: f64 = 90.0;

/// Whether a line on this statistic says what a single request must keep.
fn bounds_each(statistic: Statistic) -> bool {
    match statistic {
        Statistic::Percentile(p) => p >= LEAST_PERCENTILE,
        Statistic::Max => true,
        Statistic::Mean => false,
    }
}

/// One bound that a request must keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    metric: Metric,
    statistic: Statistic,
    operator: Operator,
    seconds: f64,
}

/// What makes a request good.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoodRule {
    limits: Vec<Limit>,
}

impl GoodRule {
    /// The rule that the latency lines of an SLA make: each on `max` or on a percentile from p90 on bounds every single
    /// request; means and lower percentiles bound none. `baseline` gives relative lines their number; where it
    /// cannot, they bound nothing.
    #[must_use]
    pub fn of_lines(lines: &[Line], baseline: Option<&PhaseData<'_>>) -> Self {
        let limits = lines.iter().filter_map(|line| {
            let Demand::Threshold { metric, statistic, operator, bound, .. } = line.demand else {
                return None;
            };
            let statistic =
                statistic.filter(|one| super::unit(metric) == super::Unit::Seconds && bounds_each(*one))?;
            let seconds = match bound {
                Bound::Absolute(seconds) => seconds,
                Bound::TimesBaseline(times) => times * baseline?.observed(metric, statistic)?,
            };
            Some(Limit { metric, statistic, operator, seconds })
        });
        Self { limits: limits.collect() }
    }

    /// The rule by which recovery is seen where no line bounds a latency: about as fast as the baseline was.
    #[must_use]
    pub fn like(baseline: &PhaseData<'_>) -> Self {
        let limits =
            [(Metric::Ttft, Statistic::Percentile(95.0)), (Metric::Tpot, Statistic::Percentile(95.0))];
        let limits = limits.into_iter().filter_map(|(metric, statistic)| {
            let seconds = IMPLIED_FACTOR * baseline.observed(metric, statistic)?;
            Some(Limit { metric, statistic, operator: Operator::LessOrEqual, seconds })
        });
        Self { limits: limits.collect() }
    }

    /// Whether no latency is bounded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Whether `request` is complete and within every limit. A request with no such latency (one token has no gaps)
    /// is within it.
    #[must_use]
    pub fn is_good(&self, request: &RequestRecord) -> bool {
        request.outcome == Outcome::Ok
            && self.limits.iter().all(|limit| {
                latency(request, limit.metric, limit.statistic)
                    .is_none_or(|value| limit.operator.holds(value, limit.seconds))
            })
    }

    /// The rule in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut words = "complete".to_owned();
        for limit in &self.limits {
            let statistic = match limit.metric {
                Metric::Itl => format!(" {}", statistic_name(limit.statistic)),
                _ => String::new(),
            };
            let time = crate::report::text::seconds(limit.seconds);
            words += &format!(", {}{statistic} {} {time}", limit.metric.name(), sign(limit.operator));
        }
        words
    }
}

/// The operator's sign.
#[must_use]
pub const fn sign(operator: Operator) -> &'static str {
    match operator {
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
    }
}

/// One request's own latency. For gaps, the statistic of its own gaps.
fn latency(request: &RequestRecord, metric: Metric, statistic: Statistic) -> Option<f64> {
    match metric {
        Metric::Ttft => request.response_ttft(),
        Metric::Ttfo => request.ttfo.map(|ttfo| ttfo + request.lag()),
        Metric::Tpot => request.tpot(),
        Metric::E2e => response_e2e(request),
        Metric::Itl => {
            let mut gaps: Vec<f64> = token_gaps(request).collect();
            match statistic {
                Statistic::Mean => crate::stats::mean::mean(&gaps),
                Statistic::Max => gaps.into_iter().max_by(f64::total_cmp),
                Statistic::Percentile(p) => {
                    gaps.sort_unstable_by(f64::total_cmp);
                    of_sorted(&gaps, p / 100.0)
                }
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_on_the_slow_end_say_what_a_good_request_is() {
        let rule = |text: &str| {
            let line = brownout_injector::sla::parse(text).expect("is a line");
            GoodRule::of_lines(&[line], None)
        };
        for text in
            ["ttft p50 < 200ms", "e2e p89.9 < 1s", "tpot mean < 20ms", "itl p50 < 20ms", "error rate < 1%"]
        {
            assert!(rule(text).is_empty(), "{text}");
        }
        for text in ["ttft p90 < 200ms", "e2e p99.9 < 1s", "tpot max < 20ms", "itl p99 < 20ms"] {
            assert!(!rule(text).is_empty(), "{text}");
        }
    }
}
