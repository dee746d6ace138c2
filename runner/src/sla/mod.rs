//! Judging SLA lines: pass, broken, or too little evidence for either.
//!
//! A line is broken when even the kind bound of the measurement is on the wrong side, and passes when even the unkind
//! one is on the right side; both are one-sided 95 % bounds. Between the two it is inconclusive.

mod bursts;
pub(crate) mod cut_off;
mod guard;
pub mod lateness;
mod recovers;

pub use guard::AbortGuard;

use crate::record::RequestRecord;
use crate::report::text;
use crate::stats::bootstrap::Contrast;
use crate::stats::quantile::least_samples;
use crate::stats::shift::holm;
use crate::stats::{Interval, Sides, rate};
use crate::summary::data::PhaseData;
use crate::summary::degradation::full_name;
use crate::summary::good::sign;
use crate::summary::recovery::Recovery;
use crate::summary::{Unit, unit};
use brownout_injector::sla::{Bound, Demand, Line, Metric, Operator, Statistic};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How one line came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineResult {
    /// The line as written.
    pub line: String,
    /// How it came out.
    pub outcome: LineOutcome,
    /// What the numbers below are counted in: `seconds`, `share`, `perSecond`, `timesBaseline`.
    pub unit: LineUnit,
    /// What was measured; none where there are too few samples.
    pub measured: Option<f64>,
    /// Whether that is only an upper bound: recovered in the first window that was looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// The one-sided 95 % bounds of it, each on its own.
    pub bounds: Option<Interval>,
    /// What it was held against.
    pub bound: Option<f64>,
    /// For relative lines: what the baseline had, in the metric's own unit.
    pub baseline: Option<f64>,
    /// For relative lines: what the fault phase had, in the metric's own unit.
    pub value: Option<f64>,
    /// Values that it is made of.
    pub n: u64,
    /// Why, in words.
    pub reason: String,
    /// Whether it speaks of time per token, and tokens came in bursts: it may have come out as it did by how tokens
    /// were bundled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bursts: bool,
}

/// How a line came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LineOutcome {
    /// It holds.
    Pass,
    /// It does not.
    Broken,
    /// There is too little evidence for either.
    Inconclusive,
    /// It was not asked in this run: a recovery or relative line of a run without faults.
    NotJudged,
}

/// What a line's numbers are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LineUnit {
    /// Seconds.
    Seconds,
    /// A share from 0 to 1.
    Share,
    /// Requests a second.
    RequestsPerSecond,
    /// Tokens a second.
    TokensPerSecond,
    /// Times what the baseline had.
    TimesBaseline,
}

impl LineUnit {
    const fn of(metric: Metric) -> Self {
        match unit(metric) {
            Unit::Seconds => Self::Seconds,
            Unit::Share => Self::Share,
            Unit::RequestsPerSecond => Self::RequestsPerSecond,
            Unit::TokensPerSecond => Self::TokensPerSecond,
        }
    }

    /// A value as people read it.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Seconds => text::value(value, Unit::Seconds),
            Self::Share => text::value(value, Unit::Share),
            Self::RequestsPerSecond => text::value(value, Unit::RequestsPerSecond),
            Self::TokensPerSecond => text::value(value, Unit::TokensPerSecond),
            Self::TimesBaseline => text::factor(value),
        }
    }
}

/// What lines are judged on.
pub struct Evidence<'d, 'a> {
    /// The phase that is judged: with faults, or, in a run of load alone, all of it.
    pub judged: Option<&'d PhaseData<'a>>,
    /// The phase that it is compared with; none in a run of load alone.
    pub baseline: Option<&'d PhaseData<'a>>,
    /// How recovery went; none in a run of load alone.
    pub recovery: Option<&'d Recovery>,
}

/// Judges all lines. Relative lines that look broken are held to Holm's correction together, so that many lines raise
/// no more false alarms than one.
#[must_use]
pub fn judge(lines: &[Line], evidence: &Evidence<'_, '_>) -> Vec<LineResult> {
    let mut results: Vec<(LineResult, Option<f64>)> =
        lines.iter().map(|line| judge_line(line, evidence)).collect();
    let doubts: Vec<f64> = results.iter().filter_map(|(_, doubt)| *doubt).collect();
    let mut adjusted = holm(&doubts).into_iter();
    for (result, doubt) in &mut results {
        if doubt.is_some()
            && adjusted.next().is_some_and(|p| p > 0.05)
            && result.outcome == LineOutcome::Broken
        {
            result.outcome = LineOutcome::Inconclusive;
            result.reason = format!(
                "{}; with {} relative lines judged at once, that is not beyond doubt",
                result.reason,
                doubts.len()
            );
        }
    }
    let mut results: Vec<LineResult> = results.into_iter().map(|(result, _)| result).collect();
    for (line, result) in lines.iter().zip(&mut results) {
        bursts::remark(line, result, evidence);
    }
    results
}

/// Judges one line; for relative lines also the p-value of "it holds".
fn judge_line(line: &Line, evidence: &Evidence<'_, '_>) -> (LineResult, Option<f64>) {
    match line.demand {
        Demand::RecoversWithin(limit) => (recovers::judge(line, limit, evidence.recovery), None),
        Demand::Threshold { metric, statistic, operator, bound, hold } => {
            let asked = Asked { line, metric, statistic, operator };
            let Some(judged) = evidence.judged.filter(|judged| !judged.requests.is_empty()) else {
                return (
                    asked.result(LineOutcome::Inconclusive, "no request was sent in the judged phase"),
                    None,
                );
            };
            match (bound, hold) {
                (Bound::Absolute(bound), None) => (asked.absolute(bound, judged, evidence.baseline), None),
                (Bound::TimesBaseline(times), None) => asked.relative(times, judged, evidence.baseline),
                (bound, Some(hold)) => (asked.held(bound, hold, judged, evidence.baseline), None),
            }
        }
    }
}

/// What a threshold line asks for.
struct Asked<'l> {
    line: &'l Line,
    metric: Metric,
    statistic: Option<Statistic>,
    operator: Operator,
}

impl Asked<'_> {
    fn result(&self, outcome: LineOutcome, reason: &str) -> LineResult {
        LineResult {
            line: self.line.text.clone(),
            outcome,
            unit: LineUnit::of(self.metric),
            measured: None,
            at_most: false,
            bounds: None,
            bound: None,
            baseline: None,
            value: None,
            n: 0,
            reason: reason.to_owned(),
            bursts: false,
        }
    }

    fn name(&self) -> String {
        full_name(self.metric, self.statistic)
    }

    fn absolute(&self, bound: f64, judged: &PhaseData<'_>, baseline: Option<&PhaseData<'_>>) -> LineResult {
        let mut result = self.absolute_in(bound, judged);
        let before = baseline.filter(|b| !b.requests.is_empty()).map(|b| self.absolute_in(bound, b));
        if let Some(before) = before.filter(|before| before.outcome == LineOutcome::Broken) {
            result.outcome = LineOutcome::Inconclusive;
            result.reason = format!(
                "the baseline already breaks it, before any fault: {}. With faults, {}",
                before.reason, result.reason
            );
        }
        result
    }

    fn absolute_in(&self, bound: f64, phase: &PhaseData<'_>) -> LineResult {
        let (n, measured) = phase.value(self.metric, self.statistic);
        let bounds = phase.bounds(self.metric, self.statistic, Sides::One);
        let show = |v: f64| LineUnit::of(self.metric).show(v);
        // The largest value, and "none at all", are plain facts of the run with nothing to infer.
        let fact = self.statistic == Some(Statistic::Max)
            || (bound == 0.0 && self.operator == Operator::LessOrEqual && unit(self.metric) == Unit::Share);
        let outcome = match measured {
            Some(value) if fact && self.operator.holds(value, bound) => LineOutcome::Pass,
            Some(_) if fact => LineOutcome::Broken,
            _ => decide(measured, bounds, self.operator, bound),
        };
        let (name, sign, limit) = (self.name(), sign(self.operator), show(bound));
        let range = text::interval(bounds, show).map_or(String::new(), |range| format!(" ({range})"));
        let reason = match (outcome, measured) {
            (LineOutcome::Broken, None) => {
                format!("{name} is beyond {limit} for certain{range}, few samples or not")
            }
            (_, None) => self.too_few(n),
            (LineOutcome::Inconclusive, Some(value)) => {
                format!(
                    "{name} was {}{range}: {} are too few to tell on which side of {limit} it lies",
                    show(value),
                    samples(n, self.metric)
                )
            }
            (LineOutcome::Pass, Some(value)) => {
                format!("{name} was {}{range}, demanded is {sign} {limit}", show(value))
            }
            (_, Some(value)) => format!("{name} was {}{range}, demanded was {sign} {limit}", show(value)),
        };
        LineResult { measured, bounds, bound: Some(bound), n, ..self.result(outcome, &reason) }
    }

    fn too_few(&self, n: u64) -> String {
        let need = match self.statistic {
            Some(Statistic::Percentile(p)) => least_samples(p / 100.0),
            _ => 1,
        };
        if n == 0 {
            format!("there is no {} to measure: no request got that far", self.metric.name())
        } else {
            format!(
                "{} needs at least {}, there were {}",
                self.name(),
                samples(need, self.metric),
                text::count(n)
            )
        }
    }

    fn relative(
        &self,
        times: f64,
        judged: &PhaseData<'_>,
        baseline: Option<&PhaseData<'_>>,
    ) -> (LineResult, Option<f64>) {
        let Some(baseline) = baseline else {
            return (
                self.result(LineOutcome::NotJudged, "there is no baseline in a run without faults"),
                None,
            );
        };
        let (old, new) =
            (baseline.resampled(self.metric, self.statistic), judged.resampled(self.metric, self.statistic));
        let (n, _) = judged.value(self.metric, self.statistic);
        let contrast = Contrast::new(&old, &new);
        let show = |v: f64| LineUnit::of(self.metric).show(v);
        let base = LineResult {
            unit: LineUnit::TimesBaseline,
            bound: Some(times),
            baseline: old.value,
            value: new.value,
            n,
            ..self.result(LineOutcome::Inconclusive, "")
        };
        let because =
            |outcome: LineOutcome, reason: String| (LineResult { outcome, reason, ..base.clone() }, None);
        let (Some(before), Some(after)) = (old.value, new.value) else {
            let (phase, n) = match old.value {
                None => ("baseline", baseline.value(self.metric, self.statistic).0),
                Some(_) => ("fault phase", n),
            };
            return because(LineOutcome::Inconclusive, format!("in the {phase}, {}", self.too_few(n)));
        };
        let Some(ratio) = contrast.ratio else {
            return self.grown_from_nothing(after, judged, baseline, base);
        };
        let Some(bounds) = contrast.ratio_interval(Sides::One) else {
            let reason = format!(
                "{} went from {} to {}, too few samples for an interval",
                self.name(),
                show(before),
                show(after)
            );
            return (LineResult { measured: Some(ratio), reason, ..base }, None);
        };
        let outcome = decide(Some(ratio), Some(bounds), self.operator, times);
        let doubt = match self.operator {
            Operator::Less | Operator::LessOrEqual => contrast.p_at_most(times),
            Operator::Greater | Operator::GreaterOrEqual => contrast.p_at_least(times),
        };
        let range = text::interval(Some(bounds), text::factor).unwrap_or_default();
        let verb = match outcome {
            LineOutcome::Inconclusive => {
                format!(": too few samples to tell on which side of {} it lies", text::factor(times))
            }
            _ => format!(", demanded is {} {}", sign(self.operator), text::factor(times)),
        };
        let reason = format!(
            "{} went from {} to {}, which is {} ({range}){verb}",
            self.name(),
            show(before),
            show(after),
            text::factor(ratio)
        );
        (LineResult { outcome, measured: Some(ratio), bounds: Some(bounds), reason, ..base }, doubt)
    }

    /// A relative line whose baseline is 0: no factor of it allows anything.
    fn grown_from_nothing(
        &self,
        after: f64,
        judged: &PhaseData<'_>,
        baseline: &PhaseData<'_>,
        base: LineResult,
    ) -> (LineResult, Option<f64>) {
        let grew = match self.metric {
            Metric::ErrorRate => rate::newcombe(
                (baseline.failed, baseline.counted),
                (judged.failed, judged.counted),
                Sides::One,
            ),
            Metric::TruncationRate => rate::newcombe(
                (baseline.truncated, baseline.counted),
                (judged.truncated, judged.counted),
                Sides::One,
            ),
            _ => None,
        };
        let upper = matches!(self.operator, Operator::Less | Operator::LessOrEqual);
        let outcome = match grew.and_then(|interval| interval.low) {
            _ if after == 0.0 && upper => LineOutcome::Pass,
            Some(low) if low > 0.0 && upper => LineOutcome::Broken,
            _ => LineOutcome::Inconclusive,
        };
        let now = LineUnit::of(self.metric).show(after);
        let reason = format!(
            "{} was 0 in the baseline and {now} with faults; an absolute line says more",
            self.name()
        );
        (LineResult { outcome, reason, ..base }, None)
    }

    /// A line that is broken only when it is broken for as long as `hold` without a break: looked at in windows.
    fn held(
        &self,
        bound: Bound,
        hold: Duration,
        judged: &PhaseData<'_>,
        baseline: Option<&PhaseData<'_>>,
    ) -> LineResult {
        let limit = match (bound, baseline) {
            (Bound::Absolute(bound), _) => bound,
            (Bound::TimesBaseline(_), None) => {
                return self.result(LineOutcome::NotJudged, "there is no baseline in a run without faults");
            }
            (Bound::TimesBaseline(times), Some(baseline)) => {
                match baseline.value(self.metric, self.statistic).1 {
                    Some(value) => times * value,
                    None => {
                        return self
                            .result(LineOutcome::Inconclusive, "the baseline has too few samples for it");
                    }
                }
            }
        };
        let line = Line {
            text: self.line.text.clone(),
            demand: Demand::Threshold {
                metric: self.metric,
                statistic: self.statistic,
                operator: opposite(self.operator),
                bound: Bound::Absolute(limit),
                hold: Some(hold),
            },
        };
        let mut guard = AbortGuard::new(std::slice::from_ref(&line));
        let mut by_end: Vec<&RequestRecord> = judged.requests.clone();
        by_end.sort_by(|a, b| a.ended.total_cmp(&b.ended));
        let broken = by_end.into_iter().find_map(|request| {
            guard.observe(request);
            guard.check(request.ended)
        });
        let base = LineResult { bound: Some(limit), n: judged.counted, ..self.result(LineOutcome::Pass, "") };
        match broken {
            Some(reason) => LineResult { outcome: LineOutcome::Broken, reason, ..base },
            None if judged.duration() < hold.as_secs_f64() => LineResult {
                outcome: LineOutcome::Inconclusive,
                reason: format!("the judged phase lasted less than {}", text::seconds(hold.as_secs_f64())),
                ..base
            },
            None => LineResult {
                reason: format!("never broken for {} without a break", text::seconds(hold.as_secs_f64())),
                ..base
            },
        }
    }
}

/// The number of values behind a metric, in words.
fn samples(n: u64, metric: Metric) -> String {
    match metric {
        Metric::Itl | Metric::StallRate => text::plural(n, "token gap"),
        Metric::Goodput | Metric::Throughput | Metric::RequestRate => text::plural(n, "bin"),
        _ => text::plural(n, "request"),
    }
}

const fn opposite(operator: Operator) -> Operator {
    match operator {
        Operator::Less => Operator::GreaterOrEqual,
        Operator::LessOrEqual => Operator::Greater,
        Operator::Greater => Operator::LessOrEqual,
        Operator::GreaterOrEqual => Operator::Less,
    }
}

/// Pass when even the bound towards the limit is on the right side, broken when even the one away from it is on the
/// wrong side. Where there is no value, only brokenness can be certain.
fn decide(value: Option<f64>, bounds: Option<Interval>, operator: Operator, limit: f64) -> LineOutcome {
    let Some(bounds) = bounds else { return LineOutcome::Inconclusive };
    let (unkind, kind) = match operator {
        Operator::Less | Operator::LessOrEqual => (bounds.high, bounds.low),
        Operator::Greater | Operator::GreaterOrEqual => (bounds.low, bounds.high),
    };
    if value.is_some() && unkind.is_some_and(|bound| operator.holds(bound, limit)) {
        LineOutcome::Pass
    } else if kind.is_some_and(|bound| !operator.holds(bound, limit)) {
        LineOutcome::Broken
    } else {
        LineOutcome::Inconclusive
    }
}
