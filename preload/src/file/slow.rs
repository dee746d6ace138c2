//! Reading takes longer: a delay for each call, and no more bytes a second than asked.

use super::Moment;
use super::tally::{self, Done};
use crate::plan::{Firing, choose};
use crate::{clock, control, sys};
use brownout_control::Directive;
use brownout_control::block::{SLOTS, nanos};
use brownout_control::directive::Act;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

/// A wait looks this often whether it is still wanted.
const SLICE: Duration = Duration::from_millis(10);

/// For each slot, when the bytes read so far are due, on the monotonic clock: all threads share a disk's bandwidth.
static DUE: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

/// Holds a call that reads `bytes` bytes.
pub(super) fn hold(now: &Moment, bytes: u64) {
    let slow = |directive: &Directive| directive.act() == Some(Act::Slow);
    for (slot, directive) in now.plan.among(now.file.slots()).filter(|(_, directive)| slow(directive)) {
        let Some(firing) = choose(slot, directive, None, now.at) else { continue };
        let begun = clock::now();
        let asked =
            directive.delay.at(firing.draw.fork("delay").unit(0)) + queue(slot, directive, bytes, begun);
        wait(begun, asked, firing);
        let waits = (asked, clock::between(begun, clock::now()));
        tally::count(now.file, slot, &Done { touched: bytes, waits, note: "held" });
    }
}

/// How long `bytes` bytes have to wait for their turn.
fn queue(slot: usize, directive: &Directive, bytes: u64, now: u64) -> Duration {
    let (Some(due), true) = (DUE.get(slot), directive.bytes_per_second > 0.0) else { return Duration::ZERO };
    let takes =
        Duration::try_from_secs_f64(bytes as f64 / directive.bytes_per_second).unwrap_or(Duration::MAX);
    let after = |before: u64| before.max(now).saturating_add(nanos(takes));
    let before = due.fetch_update(Relaxed, Relaxed, |before| Some(after(before))).unwrap_or(now);
    clock::between(now, after(before))
}

/// Waits until `asked` after `begun`, or until the fault is over.
fn wait(begun: u64, asked: Duration, firing: Firing) {
    loop {
        let left = asked.saturating_sub(clock::between(begun, clock::now()));
        if left.is_zero() || control::since_armed().is_none_or(|at| at >= firing.until) {
            return;
        }
        sys::sleep(left.min(SLICE));
    }
}
