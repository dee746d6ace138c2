//! Guards that end a run at once: safety first, statistics later.

use crate::record::{Phase, RequestRecord};
use crate::report::text;
use crate::stats::mean;
use crate::stats::quantile::of_sorted;
use crate::summary::degradation::full_name;
use crate::summary::good::GoodRule;
use crate::summary::{Unit, failed, response_e2e, token_gaps, truncated, unit};
use brownout_injector::sla::{Bound, Demand, Line, Metric, Statistic};
use std::collections::VecDeque;

/// Seconds that a guard looks back.
const LOOK_BACK: f64 = 5.0;
/// Fewer finished requests than this in the look-back say nothing about a share or a latency.
const FEWEST: usize = 3;

/// Watches finished requests, and fires when the condition of an abort line has held for as long as the line says.
///
/// What a guard sees is what finished in the last five seconds (or in the line's own time, where that is shorter).
/// It takes the plain statistic of that, with no floor on samples: it guards, it proves nothing.
pub struct AbortGuard {
    watches: Vec<Watch>,
    recent: VecDeque<RequestRecord>,
    baseline: Vec<RequestRecord>,
    relative: bool,
    started: Option<f64>,
}

struct Watch {
    line: Line,
    since: Option<f64>,
    /// The baseline's value, once it was needed.
    baseline: Option<f64>,
}

impl AbortGuard {
    /// Watches for all of `lines`. Recovery lines are no conditions, and are left out.
    #[must_use]
    pub fn new(lines: &[Line]) -> Self {
        let threshold = |line: &&Line| matches!(line.demand, Demand::Threshold { .. });
        let watches: Vec<Watch> = lines
            .iter()
            .filter(threshold)
            .map(|line| Watch { line: line.clone(), since: None, baseline: None })
            .collect();
        let relative = watches.iter().any(|watch| {
            matches!(watch.line.demand, Demand::Threshold { bound: Bound::TimesBaseline(_), .. })
        });
        Self { watches, recent: VecDeque::new(), baseline: Vec::new(), relative, started: None }
    }

    /// Takes note of a request that has ended.
    pub fn observe(&mut self, request: &RequestRecord) {
        if self.watches.is_empty() || !request.outcome.counts() {
            return;
        }
        if self.relative && request.phase == Phase::Baseline {
            self.baseline.push(request.clone());
        }
        self.started.get_or_insert(request.scheduled);
        self.recent.push_back(request.clone());
    }

    /// Whether to end the run, and why, at `now` seconds since it began. To be asked about every second, and after
    /// each request.
    pub fn check(&mut self, now: f64) -> Option<String> {
        while self.recent.front().is_some_and(|request| request.ended < now - LOOK_BACK) {
            self.recent.pop_front();
        }
        let started = self.started?;
        for watch in &mut self.watches {
            let Demand::Threshold { metric, statistic, operator, bound, hold } = watch.line.demand else {
                continue;
            };
            let hold = hold.map_or(0.0, |hold| hold.as_secs_f64());
            let look_back = if hold > 0.0 { hold.min(LOOK_BACK) } else { LOOK_BACK };
            let limit = match bound {
                Bound::Absolute(limit) => Some(limit),
                // Known once the first request of another phase than the baseline has ended.
                Bound::TimesBaseline(times) => {
                    if watch.baseline.is_none()
                        && self.recent.back().is_some_and(|r| r.phase > Phase::Baseline)
                    {
                        let span = span_of(&self.baseline);
                        watch.baseline = reading(self.baseline.iter(), span, metric, statistic);
                    }
                    watch.baseline.map(|value| times * value)
                }
            };
            let within = self.recent.iter().filter(|request| request.ended >= now - look_back);
            // Before a whole look-back has passed, rates a second are still too low.
            let span = (now - started >= look_back).then_some(look_back);
            let value = reading(within, span, metric, statistic);
            let met = limit.zip(value).filter(|(limit, value)| operator.holds(*value, *limit));
            let Some((_, value)) = met else {
                watch.since = None;
                continue;
            };
            let since = *watch.since.get_or_insert(now);
            if now - since >= hold {
                let show = |v: f64| text::value(v, unit(metric));
                let lasting =
                    if hold > 0.0 { format!(" for {}", text::seconds(hold)) } else { String::new() };
                let name = full_name(metric, statistic);
                return Some(format!("{}: {name} was {}{lasting}", watch.line.text, show(value)));
            }
        }
        None
    }
}

fn span_of(requests: &[RequestRecord]) -> Option<f64> {
    let first = requests.iter().map(|r| r.scheduled).min_by(f64::total_cmp)?;
    let last = requests.iter().map(|r| r.ended).max_by(f64::total_cmp)?;
    (last > first).then_some(last - first)
}

/// The plain value of a metric over `requests`, which ended within `span` seconds.
fn reading<'r>(
    requests: impl Iterator<Item = &'r RequestRecord>,
    span: Option<f64>,
    metric: Metric,
    statistic: Option<Statistic>,
) -> Option<f64> {
    let requests: Vec<&RequestRecord> = requests.collect();
    let n = requests.len();
    let share = |hits: usize| (n >= FEWEST).then(|| hits as f64 / n as f64);
    let per_second = |amount: f64| span.map(|span| amount / span);
    match metric {
        Metric::ErrorRate => share(requests.iter().filter(|r| failed(r.outcome)).count()),
        Metric::TruncationRate => share(requests.iter().filter(|r| truncated(r.outcome)).count()),
        Metric::Goodput => {
            let rule = GoodRule::default();
            per_second(requests.iter().filter(|r| rule.is_good(r)).count() as f64)
        }
        Metric::Throughput => per_second(requests.iter().map(|r| f64::from(r.output_tokens)).sum()),
        Metric::RequestRate => per_second(n as f64),
        Metric::StallRate => {
            let mut gaps: Vec<f64> = requests.iter().flat_map(|r| token_gaps(r)).collect();
            gaps.sort_unstable_by(f64::total_cmp);
            let usual = of_sorted(&gaps, 0.5)?;
            let calm = gaps.partition_point(|gap| *gap <= crate::stats::jitter::STALL_FACTOR * usual);
            (n >= FEWEST).then(|| (gaps.len() - calm) as f64 / gaps.len() as f64)
        }
        _ => {
            debug_assert_eq!(unit(metric), Unit::Seconds);
            let one = |r: &&RequestRecord| match metric {
                Metric::Ttft => r.response_ttft(),
                Metric::Ttfo => r.ttfo.map(|ttfo| ttfo + r.lag()),
                Metric::Tpot => r.tpot(),
                _ => response_e2e(r),
            };
            let mut values: Vec<f64> = match metric {
                Metric::Itl => requests.iter().flat_map(|r| token_gaps(r)).collect(),
                _ => requests.iter().filter_map(one).collect(),
            };
            if values.len() < FEWEST {
                return None;
            }
            values.sort_unstable_by(f64::total_cmp);
            match statistic {
                Some(Statistic::Percentile(p)) => of_sorted(&values, p / 100.0),
                Some(Statistic::Max) => values.last().copied(),
                Some(Statistic::Mean) | None => mean::mean(&values),
            }
        }
    }
}
