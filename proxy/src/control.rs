//! Arming and healing. The end of a plan is kept here, by a monotonic clock, whatever happens to whoever armed it:
//! every decision asks whether the plan still lives, and one timer lets go of whatever is held when it no longer does.

use crate::journal::Journal;
use crate::meter::Traffic;
use crate::site::Site;
use arc_swap::ArcSwapOption;
use brownout_injector::Plan;
use brownout_injector::fault::Buckets;
use brownout_injector::journal::{What, seconds};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

/// A plan at work, with what its rules need to remember.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) plan: Plan,
    since: Instant,
    lease: Option<Duration>,
    /// When the lease runs out, in nanoseconds since arming; the largest number where there is none.
    lease_until: AtomicU64,
    /// Cancelled when no fault may act any more.
    pub(crate) over: CancellationToken,
    pub(crate) rules: Vec<RuleState>,
}

/// What one rule remembers.
#[derive(Debug, Default)]
pub(crate) struct RuleState {
    /// On how many requests it really acted.
    pub(crate) fired: AtomicU64,
    /// The places of a `queue`.
    pub(crate) places: OnceLock<Arc<Semaphore>>,
    /// Requests that wait for one.
    pub(crate) waiting: AtomicU32,
    /// The buckets of a `rateLimit`.
    pub(crate) buckets: Mutex<Option<Buckets>>,
}

impl Armed {
    fn new(plan: Plan, lease: Option<Duration>) -> Self {
        let rules = plan.rules.iter().map(|_| RuleState::default()).collect();
        let lease_until = AtomicU64::new(lease.map_or(u64::MAX, nanos));
        Self { plan, since: Instant::now(), lease, lease_until, over: CancellationToken::new(), rules }
    }

    /// Time since arming.
    pub(crate) fn at(&self) -> Duration {
        self.since.elapsed()
    }

    /// The moment that lies `at` after arming.
    pub(crate) fn moment(&self, at: Duration) -> Instant {
        self.since + at
    }

    /// When it ends, unless the lease is renewed.
    fn ends(&self) -> Duration {
        self.plan.ends.min(Duration::from_nanos(self.lease_until.load(Relaxed)))
    }

    fn lives(&self) -> bool {
        !self.over.is_cancelled() && self.at() < self.ends()
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// What all workers of a proxy share.
#[derive(Debug)]
pub(crate) struct Shared {
    armed: ArcSwapOption<Armed>,
    /// The plan armed last, also when it is over: its counts stay readable.
    last: ArcSwapOption<Armed>,
    /// Arming and healing happen one at a time.
    change: Mutex<()>,
    changed: Notify,
    pub(crate) journal: Journal,
}

impl Shared {
    pub(crate) fn new(journal: Journal) -> Self {
        Self {
            armed: ArcSwapOption::empty(),
            last: ArcSwapOption::empty(),
            change: Mutex::new(()),
            changed: Notify::new(),
            journal,
        }
    }

    /// Whether there may be anything to decide; costs next to nothing.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load().is_some()
    }

    /// The plan, while it lives.
    pub(crate) fn armed(&self) -> Option<Arc<Armed>> {
        self.armed.load_full().filter(|armed| armed.lives())
    }

    /// Heals when a plan's time is over or its lease lost; runs as long as the proxy, or as the layer is used.
    pub(crate) async fn keep_time(&self) {
        loop {
            let changed = self.changed.notified();
            match self.armed.load_full() {
                None => changed.await,
                Some(armed) if armed.lives() => {
                    let end = tokio::time::Instant::from_std(armed.moment(armed.ends()));
                    tokio::select! {
                        () = tokio::time::sleep_until(end) => {}
                        () = changed => {}
                    }
                }
                Some(armed) => {
                    let reason = if armed.at() >= armed.plan.ends { "ended" } else { "lease lost" };
                    self.heal(reason, Some(&armed));
                }
            }
        }
    }

    /// Ends the plan; only this one where `only` is given.
    fn heal(&self, reason: &str, only: Option<&Arc<Armed>>) -> bool {
        let _one_at_a_time = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(armed) = self.armed.load_full() else { return false };
        if only.is_some_and(|only| !Arc::ptr_eq(only, &armed)) {
            return false;
        }
        self.armed.store(None);
        armed.over.cancel();
        self.journal.write(What::Healed { reason: reason.to_owned() });
        self.changed.notify_one();
        true
    }
}

/// Arms and heals a running proxy or a layer, and says how it does. Clones control the same one.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sites: Arc<[Arc<Site>]>,
}

impl Control {
    /// Arms `plan`: its time starts now. A plan armed before is healed first. With a `lease`, the plan ends as soon
    /// as [`Control::renew`] was not called for that long.
    pub fn arm(&self, plan: Plan, lease: Option<Duration>) {
        self.shared.heal("replaced", None);
        let armed = Arc::new(Armed::new(plan, lease));
        let _one_at_a_time = self.shared.change.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in &armed.plan.rules {
            self.shared.journal.write(What::Armed {
                fault: rule.name.clone(),
                kind: rule.fault.about().kind.to_owned(),
                ends_in: seconds(rule.window().until),
            });
        }
        self.shared.last.store(Some(armed.clone()));
        self.shared.armed.store(Some(armed));
        self.shared.changed.notify_one();
    }

    /// Renews the lease; `false` where nothing is armed any more.
    pub fn renew(&self) -> bool {
        let Some(armed) = self.shared.armed() else { return false };
        if let Some(lease) = armed.lease {
            armed.lease_until.fetch_max(nanos(armed.at() + lease), Relaxed);
        }
        true
    }

    /// Ends all faults now: holds are let go, streams pass. `false` where nothing was armed.
    pub fn heal(&self, reason: &str) -> bool {
        self.shared.heal(reason, None)
    }

    /// The plan that is armed, or was last.
    #[must_use]
    pub fn status(&self) -> Status {
        let Some(armed) = self.shared.last.load_full() else { return Status::default() };
        let lives = armed.lives();
        let at = armed.at();
        let lease_until = Duration::from_nanos(armed.lease_until.load(Relaxed));
        Status {
            armed: lives,
            scenario: armed.plan.scenario.clone(),
            seed: armed.plan.seed,
            ends_in: if lives { armed.plan.ends.saturating_sub(at) } else { Duration::ZERO },
            lease_left: armed.lease.filter(|_| lives).map(|_| lease_until.saturating_sub(at)),
            rules: armed
                .plan
                .counts()
                .zip(&armed.rules)
                .map(|((rule, eligible, chosen), state)| RuleStatus {
                    fault: rule.name.clone(),
                    kind: rule.fault.about().kind,
                    open: lives && rule.window().since_open(at).is_some(),
                    eligible,
                    chosen,
                    fired: state.fired.load(Relaxed),
                })
                .collect(),
        }
    }

    /// What was measured of the traffic since the start.
    #[must_use]
    pub fn snapshot(&self) -> Traffic {
        let mut traffic = Traffic::default();
        for site in self.sites.iter() {
            site.meter.add_to(&mut traffic);
        }
        traffic
    }

    /// Journal lines that were lost because nobody read them in time.
    #[must_use]
    pub fn journal_lost(&self) -> u64 {
        self.shared.journal.lost()
    }
}

/// A plan and how far it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Whether any fault may fire now.
    pub armed: bool,
    /// The scenario's name; empty where nothing was ever armed.
    pub scenario: String,
    /// The seed of its decisions.
    pub seed: u64,
    /// Time until it ends by itself.
    pub ends_in: Duration,
    /// Time until it ends for want of renewal, where it has a lease.
    pub lease_left: Option<Duration>,
    /// Its rules, in file order.
    pub rules: Vec<RuleStatus>,
}

/// How often a rule was asked and acted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleStatus {
    /// The fault's name.
    pub fault: String,
    /// Its kind.
    pub kind: &'static str,
    /// Whether it may fire at this moment.
    pub open: bool,
    /// Requests it could have fired on.
    pub eligible: u64,
    /// Of those, chosen.
    pub chosen: u64,
    /// Of those, done and over: the fault really did something.
    pub fired: u64,
}
