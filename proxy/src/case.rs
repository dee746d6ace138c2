//! One request that faults fire on: which, what each did to it, and the journal lines that follow from that.

use crate::control::Armed;
use crate::facts::Known;
use crate::journal::Journal;
use brownout_injector::effect::{Done, RetryValue};
use brownout_injector::journal::{Fired, What, millis};
use brownout_injector::plan::{Firing, Rule};
use http::HeaderValue;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// One request that faults fire on. When it is dropped the request is over, and the journal is written.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) armed: Arc<Armed>,
    pub(crate) known: Known,
    pub(crate) deeds: SmallVec<[Deed; 2]>,
    journal: Journal,
    path: String,
    /// Headers that its answer shall carry.
    pub(crate) headers: Vec<(String, RetryValue)>,
    /// Places in queues, kept while the request is in flight.
    pub(crate) places: Vec<OwnedSemaphorePermit>,
}

/// What one fault did.
#[derive(Debug)]
pub(crate) struct Deed {
    pub(crate) firing: Firing,
    pub(crate) done: Done,
    pub(crate) given: Duration,
    /// A hold that goes on, since when; a client that leaves meanwhile has waited until then.
    pub(crate) holding: Option<Instant>,
    /// Whether it will see the answer.
    pub(crate) shapes: bool,
}

impl Deed {
    /// The hold that went on is over.
    pub(crate) fn held(&mut self) {
        if let Some(since) = self.holding.take() {
            self.given += since.elapsed();
        }
    }
}

impl Case {
    pub(crate) fn new(
        armed: Arc<Armed>,
        known: Known,
        path: &str,
        verdict: impl IntoIterator<Item = Firing>,
        journal: Journal,
    ) -> Self {
        let deed = |firing| Deed {
            firing,
            done: Done::default(),
            given: Duration::ZERO,
            holding: None,
            shapes: false,
        };
        Self {
            armed,
            known,
            deeds: verdict.into_iter().map(deed).collect(),
            journal,
            path: path.to_owned(),
            headers: Vec::new(),
            places: Vec::new(),
        }
    }

    pub(crate) fn rule(&self, deed: usize) -> &Rule {
        &self.armed.plan.rules[self.deeds[deed].firing.rule]
    }

    /// The names of the faults that did something, or that see the answer.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let names: Vec<&str> = self
            .deeds
            .iter()
            .filter(|deed| deed.done.touched > 0 || deed.shapes)
            .map(|deed| self.armed.plan.rules[deed.firing.rule].name.as_str())
            .collect();
        (!names.is_empty()).then(|| HeaderValue::from_str(&names.join(", ")).ok()).flatten()
    }

    /// Whether any fault did something.
    pub(crate) fn acted(&self) -> bool {
        self.deeds.iter().any(|deed| deed.done.touched > 0)
    }

    /// When nothing that fired on it may hold it any more.
    pub(crate) fn last_end(&self) -> Instant {
        let last = self.deeds.iter().map(|deed| deed.firing.until).max().unwrap_or_default();
        self.armed.moment(last)
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        for mut deed in self.deeds.drain(..) {
            deed.held();
            if deed.done.touched == 0 {
                continue;
            }
            let rule = &self.armed.plan.rules[deed.firing.rule];
            self.armed.rules[deed.firing.rule].fired.fetch_add(1, Relaxed);
            self.journal.write(What::Fired(Fired {
                fault: rule.name.clone(),
                kind: rule.fault.about().kind.to_owned(),
                n: deed.firing.n,
                request: self.known.number,
                process: None,
                path: self.path.clone(),
                touched: deed.done.touched,
                asked_ms: millis(deed.done.asked),
                given_ms: millis(deed.given),
                note: deed.done.note,
            }));
        }
    }
}
