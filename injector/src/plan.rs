//! A scenario made ready to decide: the plan, its triggers, and the counters that they need.
//!
//! **What decides.** `probability`, `every` and the window are pure: they follow (seed, fault name, n) and the time since
//! arming, where n is the request's own number if the client gave one, and the count of eligible arrivals if not. With
//! numbered requests the same requests are hit however connections race each other.
//!
//! `afterCalls` and `maxHits` are bounds on how often, and count arrivals in any case: a run's numbers are long past 0
//! when a fault is armed, so a number cannot say "the first n". The counts are exact under any number of threads; which
//! of the requests that race each other at the border are inside is not decided by the seed.

use crate::draw::Draw;
use crate::facts::Facts;
use crate::fault::Fault;
use crate::scenario::{Scenario, When};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Paths of health checks and metrics: no fault touches them unless its `when.path` or its own `paths` name them.
pub const PROBE_PATHS: [&str; 14] = [
    "/health",
    "/healthz",
    "/health_generate",
    "/healthcheck",
    "/live",
    "/livez",
    "/ready",
    "/readyz",
    "/metrics",
    "/ping",
    "/info",
    "/v2/health/live",
    "/v2/health/ready",
    "/v1/health/ready",
];

/// All that a scenario's faults will do, ready to decide.
#[derive(Debug)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of every decision.
    pub seed: u64,
    /// The rules, in file order.
    pub rules: Vec<Rule>,
    /// Time from arming after which nothing fires, whatever the rules say.
    pub ends: Duration,
}

/// One fault with its trigger and its counters.
#[derive(Debug)]
pub struct Rule {
    /// The fault's name in the scenario.
    pub name: String,
    /// What it does.
    pub fault: Fault,
    when: When,
    window: Window,
    eligible: AtomicU64,
    hits: AtomicU64,
}

/// When a rule may fire, in time since arming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// It may not fire before.
    pub from: Duration,
    /// It may not fire from here on, and what it holds is let go.
    pub until: Duration,
    /// The probability climbs from nothing to its full value over this time.
    pub ramp: Duration,
    /// Where set, the window comes again each such period after `from`, until the plan ends.
    pub repeat: Option<Duration>,
    /// How long the plan lasts.
    pub ends: Duration,
}

impl Window {
    /// The time since the current window opened, or nothing where it is shut at `at`.
    #[must_use]
    pub fn since_open(&self, at: Duration) -> Option<Duration> {
        if at < self.from || at >= self.ends {
            return None;
        }
        let since = match self.repeat {
            Some(period) if !period.is_zero() => {
                let nanos = (at - self.from).as_nanos() % period.as_nanos();
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            _ => at - self.from,
        };
        (since < self.until - self.from).then_some(since)
    }

    /// The time at which the window that is open at `at` shuts.
    #[must_use]
    pub fn shuts(&self, at: Duration) -> Duration {
        match self.since_open(at) {
            Some(since) => (at - since + (self.until - self.from)).min(self.ends),
            None => at,
        }
    }
}

/// What the plan says of one request: the faults that fire, in file order.
pub type Verdict = SmallVec<[Firing; 2]>;

/// One fault fires on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// Index of the rule.
    pub rule: usize,
    /// Number of the decision.
    pub n: u64,
    /// The randomness that belongs to it.
    pub draw: Draw,
    /// Time from arming at which whatever it holds is let go.
    pub until: Duration,
}

impl Plan {
    /// Makes `scenario` ready to decide. `seed` overrides the scenario's own.
    #[must_use]
    pub fn compile(scenario: &Scenario, seed: Option<u64>) -> Self {
        let spec = &scenario.spec;
        let ends = spec.phases.fault.0;
        let rules = spec
            .faults
            .iter()
            .map(|entry| {
                let mut when = entry.when.clone();
                // Facts look headers up by their lower-case names.
                when.headers =
                    when.headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
                let from = when.after.map_or(Duration::ZERO, |span| span.0);
                let until = when.r#for.map_or(ends, |span| from + span.0).min(ends).max(from);
                let ramp = when.ramp.map_or(Duration::ZERO, |span| span.0);
                let window = Window { from, until, ramp, repeat: when.repeat.map(|span| span.0), ends };
                Rule {
                    name: entry.name.clone(),
                    fault: entry.fault.clone(),
                    when,
                    window,
                    eligible: AtomicU64::new(0),
                    hits: AtomicU64::new(0),
                }
            })
            .collect();
        Self { scenario: scenario.metadata.name.clone(), seed: seed.unwrap_or(spec.seed), rules, ends }
    }

    /// Which faults fire on the request that `facts` describe, in file order. Counts the request for each rule that
    /// it is eligible for. A fault that ends the request before it reaches the server ends the list.
    pub fn decide(&self, facts: &Facts<'_>) -> Verdict {
        let mut verdict = Verdict::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let Some(since) = rule.window.since_open(facts.at) else { continue };
            if !rule.matches(facts) {
                continue;
            }
            let arrival = rule.eligible.fetch_add(1, Relaxed);
            let n = facts.number.unwrap_or(arrival);
            let draw = Draw::new(self.seed, &rule.name, n);
            if rule.fires(arrival, facts.number, since, draw) && rule.take_hit() {
                let until = rule.window.shuts(facts.at);
                verdict.push(Firing { rule: index, n, draw, until });
                if rule.fault.before(facts, draw).ends_request() {
                    break;
                }
            }
        }
        verdict
    }

    /// How often each rule met an eligible request, and how often it chose to fire, in file order.
    pub fn counts(&self) -> impl Iterator<Item = (&Rule, u64, u64)> {
        self.rules.iter().map(|rule| (rule, rule.eligible.load(Relaxed), rule.hits.load(Relaxed)))
    }
}

impl Rule {
    /// When the rule may fire.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }

    /// Whether the rule is about this request at all.
    fn matches(&self, facts: &Facts<'_>) -> bool {
        self.when.matches(facts, self.fault.own_paths())
    }

    /// Whether the request fires, `since` after the window opened: pure. `arrival` counts eligible requests from 0;
    /// `number` is the request's own, where it has one.
    fn fires(&self, arrival: u64, number: Option<u64>, since: Duration, draw: Draw) -> bool {
        let skip = self.when.after_calls.unwrap_or(0);
        let Some(past) = arrival.checked_sub(skip) else { return false };
        if let Some(every) = self.when.every.filter(|every| *every > 1)
            && number.unwrap_or(past) % every != every - 1
        {
            return false;
        }
        let mut probability = self.when.probability.unwrap_or(1.0);
        if since < self.window.ramp {
            probability *= since.as_secs_f64() / self.window.ramp.as_secs_f64();
        }
        draw.fork("fires").unit(0) < probability
    }

    /// Takes one of the `maxHits` that are left.
    fn take_hit(&self) -> bool {
        let limit = self.when.max_hits.unwrap_or(u64::MAX);
        self.hits.fetch_update(Relaxed, Relaxed, |hits| (hits < limit).then_some(hits + 1)).is_ok()
    }
}
