//! When a fault fires: windows of time, shares and counts. The same for a request on the wire and a call in a process.

use crate::draw::Draw;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

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
        (since < self.until.saturating_sub(self.from)).then_some(since)
    }

    /// The time at which the window that is open at `at` shuts.
    #[must_use]
    pub fn shuts(&self, at: Duration) -> Duration {
        match self.since_open(at) {
            Some(since) => (at - since).saturating_add(self.until - self.from).min(self.ends),
            None => at,
        }
    }
}

/// How often something was there to be hit, and how often it was.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counters {
    /// What passed the matchers while the window was open.
    pub eligible: AtomicU64,
    /// What was chosen of it.
    pub hits: AtomicU64,
}

/// What a trigger demands beyond the matchers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trigger {
    /// The share that is hit.
    pub probability: f64,
    /// Every nth is hit; all of them where 0 or 1.
    pub every: u64,
    /// So many are left alone first.
    pub after_calls: u64,
    /// At most so many are hit.
    pub max_hits: u64,
    /// When.
    pub window: Window,
}

impl Trigger {
    /// Whether what is there now is hit, `since` after the window opened; counts it. `number`: its own number, where it
    /// has one, else the order of arrival decides. Gives the number that decided and its randomness.
    pub fn choose(
        &self,
        counters: &Counters,
        number: Option<u64>,
        since: Duration,
        draw: impl FnOnce(u64) -> Draw,
    ) -> Option<(u64, Draw)> {
        let arrival = counters.eligible.fetch_add(1, Relaxed);
        let n = number.unwrap_or(arrival);
        let draw = draw(n);
        (self.fires(arrival, number, since, draw) && self.take_hit(&counters.hits)).then_some((n, draw))
    }

    /// Whether it is hit: pure. `arrival` counts what is eligible from 0.
    fn fires(&self, arrival: u64, number: Option<u64>, since: Duration, draw: Draw) -> bool {
        let Some(past) = arrival.checked_sub(self.after_calls) else { return false };
        if self.every > 1 && number.unwrap_or(past) % self.every != self.every - 1 {
            return false;
        }
        let mut probability = self.probability;
        if since < self.window.ramp {
            probability *= since.as_secs_f64() / self.window.ramp.as_secs_f64();
        }
        draw.fork("fires").unit(0) < probability
    }

    /// Takes one of the hits that are left.
    fn take_hit(&self, hits: &AtomicU64) -> bool {
        hits.fetch_update(Relaxed, Relaxed, |hits| (hits < self.max_hits).then_some(hits + 1)).is_ok()
    }
}
