//! What a fault did to a file, summed up: the first effects are told one by one, later ones together.

use super::files::File;
use crate::clock;
use crate::control::{self, Effect};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

/// So many effects are told one by one.
const ONE_BY_ONE: u64 = 8;

/// Later ones are told this far apart, and the more there are the farther, up to the second.
const APART: Duration = Duration::from_millis(50);
const FARTHEST: Duration = Duration::from_secs(1);

/// Sums since they were last told.
pub(crate) struct Tally {
    calls: AtomicU64,
    touched: AtomicU64,
    asked: AtomicU64,
    given: AtomicU64,
    told: AtomicU64,
    last: AtomicU64,
}

impl Tally {
    pub(super) const fn new() -> Self {
        Self {
            calls: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            given: AtomicU64::new(0),
            told: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }
}

/// What one call did.
pub(super) struct Done<'a> {
    /// Bytes that are others, are missing, or came late; 1 for a call that failed or was told a wrong size.
    pub(super) touched: u64,
    /// The wait that was asked for, and the one that was given.
    pub(super) waits: (Duration, Duration),
    /// In words, where it is not the damage that says it all.
    pub(super) note: &'a str,
}

impl Done<'_> {
    /// So many bytes, or calls, are not what they were.
    pub(super) const fn touched(touched: u64) -> Self {
        Self { touched, waits: (Duration::ZERO, Duration::ZERO), note: "" }
    }
}

/// Counts an effect of the directive in `slot` on `file`, and tells it or keeps it for later.
pub(super) fn count(file: &File, slot: usize, done: &Done<'_>) {
    let Some(tally) = file.tallies.get(slot) else { return };
    let nanos = brownout_control::block::nanos;
    tally.calls.fetch_add(1, Relaxed);
    tally.touched.fetch_add(done.touched, Relaxed);
    tally.asked.fetch_add(nanos(done.waits.0), Relaxed);
    tally.given.fetch_add(nanos(done.waits.1), Relaxed);
    let told = tally.told.load(Relaxed);
    let apart = APART.saturating_mul(u32::try_from(told / ONE_BY_ONE).unwrap_or(u32::MAX)).min(FARTHEST);
    if clock::between(tally.last.load(Relaxed), clock::now()) >= apart {
        tell(file, slot, tally, done.note);
    }
}

fn tell(file: &File, slot: usize, tally: &Tally, note: &str) {
    let calls = tally.calls.swap(0, Relaxed);
    if calls == 0 {
        return;
    }
    tally.told.fetch_add(1, Relaxed);
    tally.last.store(clock::now(), Relaxed);
    let effect = |note| Effect {
        slot,
        n: file.number(),
        touched: tally.touched.swap(0, Relaxed),
        asked: Duration::from_nanos(tally.asked.swap(0, Relaxed)),
        given: Duration::from_nanos(tally.given.swap(0, Relaxed)),
        path: file.path(),
        note,
    };
    match (file.damage(slot), calls) {
        (Some(damage), 1) => control::tell(&effect(format_args!("{damage}"))),
        (Some(damage), _) => control::tell(&effect(format_args!("{damage}; {calls} calls"))),
        (None, 1) => control::tell(&effect(format_args!("{note}"))),
        (None, _) => control::tell(&effect(format_args!("{note}; {calls} calls"))),
    }
}

/// Tells what has not been told yet: the process ends.
pub(crate) fn tell_all() {
    for file in File::all().filter(|file| file.is_known()) {
        file.tallies
            .iter()
            .enumerate()
            .for_each(|(slot, tally)| tell(file, slot, tally, "at the end of the process"));
    }
}
