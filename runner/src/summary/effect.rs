//! Proof of effect: what each fault was asked to do, and what it did.

use crate::record::{Phase, RequestRecord};
use crate::stats::quantile::of_sorted;
use crate::stats::rate::wilson;
use crate::stats::{Interval, Sides, mean};
use brownout_injector::fault::Acts;
use brownout_injector::journal::{Entry, Fired, What};
use brownout_injector::scenario::FaultEntry;
use brownout_injector::{Plan, Scenario};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// How often a fault met a request, or a call in a process, and chose to fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    /// The fault's name.
    pub fault: String,
    /// Requests or calls that it was eligible for.
    pub eligible: u64,
    /// Of those, the ones it chose.
    pub chosen: u64,
}

impl RuleCount {
    /// The counts of a plan that has run, in file order.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Vec<Self> {
        let count = |(rule, eligible, chosen): (&brownout_injector::plan::Rule, u64, u64)| Self {
            fault: rule.name.clone(),
            eligible,
            chosen,
        };
        plan.counts().map(count).collect()
    }
}

/// What is known of one fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultProof {
    /// Its name in the scenario.
    pub fault: String,
    /// Its kind.
    pub kind: String,
    /// The layer of the serving system that it stands for.
    pub layer: String,
    /// What a passed run with it says.
    pub certifies: String,
    /// What it does not say.
    pub does_not_certify: String,
    /// When it was armed, in seconds since the run began; none where the journal does not say so.
    pub armed_at: Option<f64>,
    /// When it was healed.
    pub healed_at: Option<f64>,
    /// Requests or calls that passed its matchers in its window.
    pub eligible: Option<u64>,
    /// Of those, the ones that it chose.
    pub chosen: Option<u64>,
    /// Requests or calls that it did something to, by the journal.
    pub fired: u64,
    /// Events, tokens or bodies that it touched.
    pub touched: u64,
    /// When it had first done something at the latest, in seconds since the run began: a firing enters the journal as
    /// its request ends, so the waiting that the fault gave is taken off; what the server itself took is not known.
    pub first_fired_at: Option<f64>,
    /// The share of eligible requests that it was asked to choose, where that is one number.
    pub asked_share: Option<f64>,
    /// chosen / eligible.
    pub share: Option<f64>,
    /// Its 95 % interval.
    pub share_interval: Option<Interval>,
    /// Delays asked and given, for faults that hold requests.
    pub delay: Option<DelayProof>,
    /// What is odd, in words; empty when all is as asked.
    pub odd: Vec<String>,
}

impl FaultProof {
    /// Several faults of one kind, as one; nothing for none. What cannot be added up is left out.
    #[must_use]
    pub fn merged(name: String, all: &[&Self]) -> Option<Self> {
        let first = *all.first()?;
        let sum = |count: fn(&Self) -> Option<u64>| all.iter().map(|fault| count(fault)).sum::<Option<u64>>();
        Some(Self {
            fault: name,
            armed_at: None,
            healed_at: None,
            eligible: sum(|fault| fault.eligible),
            chosen: sum(|fault| fault.chosen),
            fired: all.iter().map(|fault| fault.fired).sum(),
            touched: all.iter().map(|fault| fault.touched).sum(),
            first_fired_at: None,
            asked_share: None,
            share: None,
            share_interval: None,
            delay: None,
            odd: Vec::new(),
            ..first.clone()
        })
    }
}

/// Asked and given delays, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelayProof {
    /// Requests that were held.
    pub n: u64,
    /// Mean of what was asked.
    pub asked_mean_ms: f64,
    /// Mean of what was given.
    pub given_mean_ms: f64,
    /// 99th percentile of |given - asked|, as observed.
    pub error_p99_ms: f64,
    /// Largest |given - asked|.
    pub error_max_ms: f64,
}

/// A stretch of time in which a fault could fire, in seconds since the run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultWindow {
    /// The fault's name.
    pub fault: String,
    /// It could fire from here.
    pub from: f64,
    /// It could no longer.
    pub until: f64,
}

/// Most windows that a repeating fault is shown with.
const MOST_WINDOWS: usize = 200;

/// The journal, on the clock of the recording.
pub struct Aligned<'a> {
    /// The entries, with their time since the run began.
    pub entries: Vec<(f64, &'a What)>,
    /// When each fault was first armed.
    armed: BTreeMap<&'a str, f64>,
}

impl<'a> Aligned<'a> {
    /// Puts the journal on the clock of the recording, by the beginning of the first phase that both know.
    #[must_use]
    pub fn new(journal: &'a [Entry], phases: &[(Phase, f64, f64)]) -> Self {
        let same = |entry: &Entry| {
            let What::Phase { name } = &entry.what else { return None };
            let phase = phases.iter().find(|(phase, ..)| phase.name() == name)?;
            Some(phase.1 - entry.at)
        };
        let offset = journal.iter().find_map(same).unwrap_or(0.0);
        let entries: Vec<(f64, &What)> =
            journal.iter().map(|entry| (entry.at + offset, &entry.what)).collect();
        let mut armed = BTreeMap::new();
        for (at, what) in &entries {
            if let What::Armed { fault, .. } = what {
                armed.entry(fault.as_str()).or_insert(*at);
            }
        }
        Self { entries, armed }
    }

    fn armed(&self, fault: &str) -> Option<f64> {
        self.armed.get(fault).copied()
    }

    /// When the faults were last healed.
    #[must_use]
    pub fn healed(&self) -> Option<f64> {
        let is = |(at, what): &(f64, &What)| matches!(what, What::Healed { .. }).then_some(*at);
        self.entries.iter().rev().find_map(is)
    }

    /// What fired and touched something.
    pub fn fired(&self) -> impl Iterator<Item = (f64, &'a Fired)> + '_ {
        self.entries.iter().filter_map(|(at, what)| match what {
            What::Fired(fired) if fired.touched > 0 => Some((*at, fired)),
            _ => None,
        })
    }

    /// Numbers of the requests on which a fault fired, by the journal and by the marks on the answers.
    #[must_use]
    pub fn injected(&self, requests: &[RequestRecord]) -> HashSet<u64> {
        let marked = requests.iter().filter(|r| !r.faults.is_empty()).map(|r| r.number);
        self.fired().filter_map(|(_, fired)| fired.request).chain(marked).collect()
    }

    /// When each fault of `scenario` could fire, by its trigger and the times at which it was armed and healed.
    #[must_use]
    pub fn windows(&self, scenario: &Scenario, end: f64) -> Vec<FaultWindow> {
        let mut windows = Vec::new();
        // By the scenario and not by a plan, which has no rules for faults in processes.
        for entry in &scenario.spec.faults {
            let Some(armed) = self.armed(&entry.name) else { continue };
            let healed = self.healed().filter(|healed| *healed >= armed).unwrap_or(end);
            let window = entry.when.trigger(scenario.spec.phases.fault.0).window;
            let length = window.until.saturating_sub(window.from).as_secs_f64();
            let period = window.repeat.map(|period| period.as_secs_f64()).filter(|period| *period > 0.0);
            for i in 0..MOST_WINDOWS {
                let from = armed + window.from.as_secs_f64() + period.unwrap_or(0.0) * i as f64;
                let until = (from + length).min(armed + window.ends.as_secs_f64()).min(healed);
                if until <= from || (i > 0 && period.is_none()) {
                    break;
                }
                windows.push(FaultWindow { fault: entry.name.clone(), from, until });
            }
        }
        windows
    }

    /// What is known of each fault of `scenario`.
    #[must_use]
    pub fn proofs(&self, scenario: &Scenario, counts: &[RuleCount]) -> Vec<FaultProof> {
        let counts: BTreeMap<&str, &RuleCount> =
            counts.iter().map(|count| (count.fault.as_str(), count)).collect();
        let mut fired: BTreeMap<&str, Vec<(f64, &Fired)>> = BTreeMap::new();
        for (at, one) in self.fired() {
            fired.entry(one.fault.as_str()).or_default().push((at, one));
        }
        let faults = scenario.spec.faults.iter();
        faults
            .map(|entry| {
                let name = entry.name.as_str();
                let fired = fired.get(name).map(Vec::as_slice).unwrap_or_default();
                self.proof(entry, fired, counts.get(name).copied())
            })
            .collect()
    }

    fn proof(&self, entry: &FaultEntry, fired: &[(f64, &Fired)], count: Option<&RuleCount>) -> FaultProof {
        let about = entry.fault.about();
        let (eligible, chosen) = (count.map(|c| c.eligible), count.map(|c| c.chosen));
        let when = &entry.when;
        let one_number = when.ramp.is_none()
            && when.every.is_none()
            && when.max_hits.is_none()
            && when.after_calls.is_none();
        let asked_share = one_number.then(|| when.probability.unwrap_or(1.0));
        let met = count.filter(|count| count.eligible > 0);
        let share_interval = met.and_then(|c| wilson(c.chosen, c.eligible, Sides::Two));
        let armed_at = self.armed(&entry.name);
        let mut proof = FaultProof {
            fault: entry.name.clone(),
            kind: about.kind.to_owned(),
            layer: serde_json::to_value(about.layer)
                .ok()
                .and_then(|v| v.as_str().map(str::to_owned))
                .unwrap_or_default(),
            certifies: about.certifies.to_owned(),
            does_not_certify: about.does_not_certify.to_owned(),
            armed_at,
            healed_at: armed_at.and_then(|_| self.healed()),
            eligible,
            chosen,
            fired: fired.len() as u64,
            touched: fired.iter().map(|(_, f)| f.touched).sum(),
            first_fired_at: fired
                .iter()
                .map(|(at, f)| (at - f.given_ms / 1e3).max(armed_at.unwrap_or(0.0)))
                .min_by(f64::total_cmp),
            asked_share,
            share: met.map(|c| c.chosen as f64 / c.eligible as f64),
            share_interval,
            delay: delays(fired),
            odd: Vec::new(),
        };
        proof.odd = odd(&proof, about.acts);
        proof
    }
}

fn delays(fired: &[(f64, &Fired)]) -> Option<DelayProof> {
    let held: Vec<&Fired> = fired.iter().map(|(_, f)| *f).filter(|f| f.asked_ms > 0.0).collect();
    let mut errors: Vec<f64> = held.iter().map(|f| (f.given_ms - f.asked_ms).abs()).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let mean_of = |value: fn(&Fired) -> f64| mean::mean(&held.iter().map(|f| value(f)).collect::<Vec<_>>());
    Some(DelayProof {
        n: held.len() as u64,
        asked_mean_ms: mean_of(|f| f.asked_ms)?,
        given_mean_ms: mean_of(|f| f.given_ms)?,
        error_p99_ms: of_sorted(&errors, 0.99)?,
        error_max_ms: errors.last().copied()?,
    })
}

/// What a fault meets.
const fn met(acts: Acts) -> &'static str {
    match acts {
        Acts::OnTheWire => "request",
        Acts::InTheProcess => "call",
    }
}

fn odd(proof: &FaultProof, acts: Acts) -> Vec<String> {
    let mut odd = Vec::new();
    if proof.armed_at.is_none() {
        odd.push("the journal does not show that it was armed".to_owned());
    } else if proof.fired == 0 {
        odd.push(match proof.eligible {
            Some(0) => {
                format!("it was armed, and no {} was eligible for it", met(acts))
            }
            _ => "it was armed and never fired".to_owned(),
        });
    }
    if let (Some(asked), Some(interval), Some(share)) = (proof.asked_share, proof.share_interval, proof.share)
        && !interval.contains(asked)
    {
        odd.push(format!(
            "it chose {:.1} % of eligible {}s, asked were {:.1} %",
            share * 100.0,
            met(acts),
            asked * 100.0
        ));
    }
    odd
}
