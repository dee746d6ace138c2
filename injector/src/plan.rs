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
use crate::fault::{Acts, Fault};
use crate::scenario::{Scenario, When};
pub use brownout_control::Window;
use brownout_control::{Counters, Trigger};
use smallvec::SmallVec;
use std::sync::atomic::Ordering::Relaxed;
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
    /// The rules of the faults that act on the wire, in file order.
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
    trigger: Trigger,
    counters: Counters,
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
    /// Makes the faults of `scenario` that act on the wire ready to decide; those in processes are not for whoever sees
    /// requests. `seed` overrides the scenario's own.
    #[must_use]
    pub fn compile(scenario: &Scenario, seed: Option<u64>) -> Self {
        let spec = &scenario.spec;
        let ends = spec.phases.fault.0;
        let rules = spec
            .faults
            .iter()
            .filter(|entry| entry.fault.about().acts == Acts::OnTheWire)
            .map(|entry| {
                let mut when = entry.when.clone();
                // Facts look headers up by their lower-case names.
                when.headers =
                    when.headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
                Rule {
                    name: entry.name.clone(),
                    fault: entry.fault.clone(),
                    trigger: when.trigger(ends),
                    when,
                    counters: Counters::default(),
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
            let window = rule.trigger.window;
            let Some(since) = window.since_open(facts.at) else { continue };
            if !rule.matches(facts) {
                continue;
            }
            let draw = |n| Draw::new(self.seed, &rule.name, n);
            if let Some((n, draw)) = rule.trigger.choose(&rule.counters, facts.number, since, draw) {
                let until = window.shuts(facts.at);
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
        self.rules
            .iter()
            .map(|rule| (rule, rule.counters.eligible.load(Relaxed), rule.counters.hits.load(Relaxed)))
    }
}

impl Rule {
    /// When the rule may fire.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.trigger.window
    }

    /// Whether the rule is about this request at all.
    fn matches(&self, facts: &Facts<'_>) -> bool {
        self.when.matches(facts, self.fault.own_paths())
    }
}
