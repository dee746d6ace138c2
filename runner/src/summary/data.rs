//! The requests of one phase, arranged so that any metric can be asked of them.

use super::good::GoodRule;
use super::{FEW_IN_BURSTS, event_times, failed, response_e2e, token_gaps, tokens_per_event, truncated};
use crate::record::{Outcome, Phase, RequestRecord};
use crate::stats::bootstrap::{Resampled, Sample, Stat};
use crate::stats::{Estimate, Interval, Sides, jitter, mean, quantile, rate};
use brownout_injector::sla::{Metric, Statistic};
use std::cell::RefCell;
use std::collections::HashMap;

/// Latencies in the order in which their requests were scheduled.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The values.
    pub values: Vec<f64>,
    /// Where each request's values end.
    pub ends: Vec<usize>,
    /// The values, ascending.
    pub sorted: Vec<f64>,
}

impl Series {
    fn of<'a, I: IntoIterator<Item = f64>>(
        requests: &[&'a RequestRecord],
        values: impl Fn(&'a RequestRecord) -> I,
    ) -> Self {
        let mut series = Self::default();
        for request in requests {
            let before = series.values.len();
            series.values.extend(values(request).into_iter().filter(|v| v.is_finite() && *v >= 0.0));
            if series.values.len() > before {
                series.ends.push(series.values.len());
            }
        }
        series.sorted.clone_from(&series.values);
        series.sorted.sort_unstable_by(f64::total_cmp);
        series
    }
}

/// The statistics that are resampled together, since one resample gives them all.
const STATS: [Stat; 6] = [
    Stat::Quantile(0.5),
    Stat::Quantile(0.9),
    Stat::Quantile(0.95),
    Stat::Quantile(0.99),
    Stat::Quantile(0.999),
    Stat::Mean,
];

/// One phase.
pub struct PhaseData<'a> {
    /// Which.
    pub phase: Phase,
    /// When it began, in seconds since the run began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// Its requests, by schedule.
    pub requests: Vec<&'a RequestRecord>,
    /// Time to first token, scheduled send.
    pub ttft: Series,
    /// Time to first output, scheduled send.
    pub ttfo: Series,
    /// Gaps between tokens of complete requests.
    pub itl: Series,
    /// Time per output token of complete requests.
    pub tpot: Series,
    /// Scheduled send to last token of complete requests.
    pub e2e: Series,
    /// The usual gap, by which stalls are told: the baseline's median, or this phase's own.
    pub usual_gap: Option<f64>,
    /// Requests that count for availability.
    pub counted: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Of those, truncated.
    pub truncated: u64,
    good: Vec<f64>,
    good_total: u64,
    finished: Vec<f64>,
    tokens: Vec<f64>,
    seed: u64,
    cache: RefCell<HashMap<Metric, Vec<Vec<f64>>>>,
}

impl<'a> PhaseData<'a> {
    /// Gathers `requests`, which are those of the phase that lasted from `start` to `end`; `all` are those of the
    /// whole run, whose tokens and ends may fall into it. `seed` makes the resampling reproducible.
    #[must_use]
    pub fn new(
        phase: Phase,
        (start, end): (f64, f64),
        mut requests: Vec<&'a RequestRecord>,
        all: &[RequestRecord],
        seed: u64,
    ) -> Self {
        requests.sort_by(|a, b| a.scheduled.total_cmp(&b.scheduled).then(a.number.cmp(&b.number)));
        let complete: Vec<&RequestRecord> =
            requests.iter().copied().filter(|r| r.outcome == Outcome::Ok).collect();
        let counted: Vec<&&RequestRecord> = requests.iter().filter(|r| r.outcome.counts()).collect();
        let count = |is: fn(Outcome) -> bool| counted.iter().filter(|r| is(r.outcome)).count() as u64;
        let itl = Series::of(&complete, token_gaps);
        let mut this = Self {
            phase,
            start,
            end,
            ttft: Series::of(&requests, RequestRecord::response_ttft),
            ttfo: Series::of(&requests, |r| r.ttfo.map(|ttfo| ttfo + r.lag())),
            tpot: Series::of(&complete, RequestRecord::tpot),
            e2e: Series::of(&complete, response_e2e),
            usual_gap: quantile::of_sorted(&itl.sorted, 0.5),
            itl,
            counted: counted.len() as u64,
            failed: count(failed),
            truncated: count(truncated),
            good: Vec::new(),
            good_total: 0,
            finished: Vec::new(),
            tokens: Vec::new(),
            seed,
            cache: RefCell::default(),
            requests,
        };
        this.finished = this.binned(all.iter().filter(|r| r.outcome.counts()).map(|r| (r.ended, 1.0)));
        this.tokens =
            this.binned(all.iter().flat_map(|r| event_times(r).map(|at| (at, tokens_per_event(r).max(1.0)))));
        this
    }

    /// Counts good requests by `rule`, and stalls by `usual_gap` where it is known.
    pub fn judge(&mut self, rule: &GoodRule, usual_gap: Option<f64>) {
        let good: Vec<f64> = self.requests.iter().filter(|r| rule.is_good(r)).map(|r| r.scheduled).collect();
        self.good_total = good.len() as u64;
        self.good = self.binned(good.into_iter().map(|at| (at, 1.0)));
        self.usual_gap = usual_gap.or(self.usual_gap);
        self.cache.borrow_mut().clear();
    }

    /// Token events of complete requests that came in one read with the one before / all of them.
    #[must_use]
    pub fn coalesced_share(&self) -> Option<f64> {
        let complete = self.requests.iter().filter(|r| r.outcome == Outcome::Ok);
        let (coalesced, chunks) = complete.fold((0, 0), |(coalesced, chunks), request| {
            (coalesced + u64::from(request.coalesced), chunks + u64::from(request.chunks))
        });
        (chunks > 0).then(|| coalesced as f64 / chunks as f64)
    }

    /// That share, where it is large enough to move the time per token.
    #[must_use]
    pub fn bursts(&self) -> Option<f64> {
        self.coalesced_share().filter(|share| *share > FEW_IN_BURSTS)
    }

    /// How long the phase lasted, in seconds.
    #[must_use]
    pub fn duration(&self) -> f64 {
        (self.end - self.start).max(0.0)
    }

    /// Good requests and requests that count.
    #[must_use]
    pub const fn good_share(&self) -> (u64, u64) {
        (self.good_total, self.counted)
    }

    /// Amounts a second in bins of about a second (a twentieth of a shorter phase), from `(time, amount)`.
    fn binned(&self, events: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
        let duration = self.duration();
        if duration <= 0.0 {
            return Vec::new();
        }
        let bins = (duration / (duration / 20.0).clamp(0.25, 1.0)).round().max(1.0);
        let width = duration / bins;
        let mut sums = vec![0.0; bins as usize];
        for (at, amount) in events {
            let bin = ((at - self.start) / width).floor();
            if bin >= 0.0 && bin < bins {
                sums[bin as usize] += amount / width;
            }
        }
        sums
    }

    fn series(&self, metric: Metric) -> Option<&Series> {
        match metric {
            Metric::Ttft => Some(&self.ttft),
            Metric::Ttfo => Some(&self.ttfo),
            Metric::Itl => Some(&self.itl),
            Metric::Tpot => Some(&self.tpot),
            Metric::E2e => Some(&self.e2e),
            _ => None,
        }
    }

    /// Values a second in bins of time, for metrics that are such.
    fn per_second(&self, metric: Metric) -> &[f64] {
        match metric {
            Metric::Goodput => &self.good,
            Metric::Throughput => &self.tokens,
            Metric::RequestRate => &self.finished,
            _ => &[],
        }
    }

    /// Stalls and gaps of complete requests.
    fn stalls(&self) -> (u64, u64) {
        let usual = self.usual_gap.unwrap_or(f64::INFINITY);
        let above = self.itl.sorted.partition_point(|gap| *gap <= jitter::STALL_FACTOR * usual);
        ((self.itl.sorted.len() - above) as u64, self.itl.sorted.len() as u64)
    }

    /// A statistic as it was observed, however few the values: for limits and pictures, never as evidence.
    #[must_use]
    pub fn observed(&self, metric: Metric, statistic: Statistic) -> Option<f64> {
        let series = self.series(metric)?;
        match statistic {
            Statistic::Percentile(p) => quantile::of_sorted(&series.sorted, p / 100.0),
            Statistic::Mean => mean::mean(&series.values),
            Statistic::Max => series.sorted.last().copied(),
        }
    }

    /// A metric with its interval; no value where there are too few samples for one.
    #[must_use]
    pub fn estimate(&self, metric: Metric, statistic: Option<Statistic>) -> Estimate {
        let (n, value) = self.value(metric, statistic);
        let interval = self.bounds(metric, statistic, Sides::Two).filter(|_| value.is_some());
        Estimate { n, value, interval }
    }

    /// How many values a metric has, and its value where they suffice.
    #[must_use]
    pub fn value(&self, metric: Metric, statistic: Option<Statistic>) -> (u64, Option<f64>) {
        let share = |hits: u64, n: u64| (n, (n > 0).then(|| hits as f64 / n as f64));
        match (metric, self.series(metric)) {
            (_, Some(series)) => {
                let (n, statistic) = (series.values.len() as u64, statistic.unwrap_or(Statistic::Mean));
                let enough = match statistic {
                    Statistic::Percentile(p) => n >= quantile::least_samples(p / 100.0),
                    Statistic::Mean | Statistic::Max => n > 0,
                };
                (n, self.observed(metric, statistic).filter(|_| enough))
            }
            (Metric::ErrorRate, _) => share(self.failed, self.counted),
            (Metric::TruncationRate, _) => share(self.truncated, self.counted),
            (Metric::StallRate, _) => share(self.stalls().0, self.stalls().1),
            // Nothing good, nothing finished is a rate of 0; only where nothing was sent is there nothing to say.
            _ if self.requests.is_empty() => (0, None),
            _ => (self.per_second(metric).len() as u64, mean::mean(self.per_second(metric))),
        }
    }

    /// The bounds of a metric. They may exist where the value does not: few samples can show that a line is broken.
    #[must_use]
    pub fn bounds(&self, metric: Metric, statistic: Option<Statistic>, sides: Sides) -> Option<Interval> {
        let statistic = statistic.unwrap_or(Statistic::Mean);
        match (metric, self.series(metric)) {
            (_, Some(series)) if series.values.is_empty() => None,
            (_, Some(_)) if statistic == Statistic::Max => None,
            // Gaps of one request are alike: only whole requests can be resampled.
            (Metric::Itl, _) => self.resampled(metric, Some(statistic)).interval(sides),
            (_, Some(series)) => match statistic {
                Statistic::Percentile(p) => Some(quantile::interval(&series.sorted, p / 100.0, sides)),
                _ => never_negative(mean::interval(&series.values, sides)),
            },
            (Metric::ErrorRate, _) => rate::wilson(self.failed, self.counted, sides),
            (Metric::TruncationRate, _) => rate::wilson(self.truncated, self.counted, sides),
            (Metric::StallRate, _) => self.resampled(metric, None).interval(sides),
            _ if self.requests.is_empty() => None,
            _ => never_negative(mean::interval(self.per_second(metric), sides)),
        }
    }

    /// A metric with its resamples, for contrasts with another phase.
    #[must_use]
    pub fn resampled(&self, metric: Metric, statistic: Option<Statistic>) -> Resampled {
        let value = self.value(metric, statistic).1;
        let stat = match statistic {
            Some(Statistic::Percentile(p)) => Stat::Quantile(p / 100.0),
            Some(Statistic::Max) => return Resampled { value, replicates: Vec::new() },
            Some(Statistic::Mean) | None => Stat::Mean,
        };
        let replicates = match STATS.iter().position(|known| *known == stat) {
            Some(index) => {
                let mut cache = self.cache.borrow_mut();
                cache.entry(metric).or_insert_with(|| self.resample(metric, &STATS))[index].clone()
            }
            None => self.resample(metric, &[stat]).remove(0),
        };
        Resampled { value, replicates }
    }

    fn resample(&self, metric: Metric, stats: &[Stat]) -> Vec<Vec<f64>> {
        let flag = |is: fn(Outcome) -> bool| {
            let counted = self.requests.iter().filter(|r| r.outcome.counts());
            Sample::of_values(&counted.map(|r| f64::from(u8::from(is(r.outcome)))).collect::<Vec<_>>())
        };
        let sample = match (metric, self.series(metric)) {
            (_, Some(series)) => Sample::of_units(&series.values, &series.ends),
            (Metric::ErrorRate, _) => flag(failed),
            (Metric::TruncationRate, _) => flag(truncated),
            (Metric::StallRate, _) => {
                let limit = jitter::STALL_FACTOR * self.usual_gap.unwrap_or(f64::INFINITY);
                let stalls: Vec<f64> =
                    self.itl.values.iter().map(|gap| f64::from(u8::from(*gap > limit))).collect();
                Sample::of_units(&stalls, &self.itl.ends)
            }
            _ => Sample::of_values(self.per_second(metric)),
        };
        // Where nobody reasons, TTFO is TTFT: the same resamples, so that the same numbers say the same.
        let like = if metric == Metric::Ttfo { Metric::Ttft } else { metric };
        let label = format!("{} {}", self.phase.name(), like.name());
        match sample {
            Some(sample) => sample.resample(stats, self.seed, &label),
            None => vec![Vec::new(); stats.len()],
        }
    }
}

/// What is never below 0, such as a time or a rate, has no bound below it either; a t interval does not know that.
fn never_negative(interval: Option<Interval>) -> Option<Interval> {
    interval.map(|interval| Interval { low: interval.low.map(|low| low.max(0.0)), ..interval })
}
