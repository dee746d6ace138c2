//! What shows of the directives about a file, now.

use super::Moment;
use super::files::File;
use super::tally::{self, Done};
use crate::plan::{Plan, choose};
use crate::sys::Errno;
use brownout_control::directive::{Act, Failure};
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

/// The slots whose damage of a file shows, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown(pub(super) u32);

impl Shown {
    /// The file as it is.
    pub(super) const NOTHING: Self = Self(0);
}

/// Which damage shows. Whether a file is damaged at all is decided once, when the window is first seen open.
pub(super) fn shown(plan: &Plan, file: &File, at: Duration) -> Shown {
    let open = |directive: &brownout_control::Directive| directive.trigger().window.since_open(at).is_some();
    let damages = plan.among(file.slots()).filter(|(slot, _)| file.damage(*slot).is_some());
    let bits = damages.filter(|(_, directive)| open(directive)).fold(0, |bits, (slot, directive)| {
        let bit = 1 << slot;
        if file.decided.fetch_or(bit, Relaxed) & bit == 0
            && choose(slot, directive, Some(file.number()), at).is_some()
        {
            file.chosen.fetch_or(bit, Relaxed);
        }
        bits | (file.chosen.load(Relaxed) & bit)
    });
    Shown(bits)
}

/// The length that the file seems to have, where that is not its own.
pub(super) fn limit(file: &File, shown: Shown) -> Option<u64> {
    slots(shown).filter_map(|slot| file.damage(slot)?.limit()).min()
}

/// As [`limit`], for who is told it as the file's size: some look at no more than that, and it is an effect by itself.
pub(super) fn told_limit(file: &File, shown: Shown) -> Option<u64> {
    let (limit, slot) = slots(shown).filter_map(|slot| Some((file.damage(slot)?.limit()?, slot))).min()?;
    tally::count(file, slot, &Done::touched(1));
    Some(limit)
}

/// Changes `bytes`, which are the file's own from `offset` on, to what shows. `each` learns which slot changed how many.
pub(super) fn apply(
    file: &File,
    shown: Shown,
    offset: u64,
    bytes: &mut [u8],
    mut each: impl FnMut(usize, u64),
) {
    for slot in slots(shown) {
        let changed = file.damage(slot).map_or(0, |damage| damage.apply(offset, bytes));
        if changed > 0 {
            each(slot, changed);
        }
    }
}

/// The slots that show.
pub(super) fn slots(shown: Shown) -> impl Iterator<Item = usize> {
    (0..u32::BITS).filter(move |slot| shown.0 & (1 << slot) != 0).map(|slot| slot as usize)
}

/// The error that a call on the file ends with, if one of `failures` fires on it.
pub(super) fn fails(now: &Moment, failures: &[Failure]) -> Option<Errno> {
    let mut failing = now.plan.among(now.file.slots()).filter_map(|(slot, directive)| {
        let failure = directive.failure().filter(|failure| failures.contains(failure))?;
        choose(slot, directive, None, now.at)?;
        let (errno, note) = match failure {
            Failure::Io | Failure::Bus => (libc::EIO, "EIO"),
            Failure::NotFound => (libc::ENOENT, "ENOENT"),
            Failure::Stale => (libc::ESTALE, "ESTALE"),
        };
        // No byte came, and one call failed: what touched nothing would count as never fired.
        tally::count(now.file, slot, &Done { note, ..Done::touched(1) });
        Some(Errno(errno))
    });
    failing.next()
}

/// Whether a directive of this act is about the file.
pub(super) fn any(plan: &Plan, file: &File, act: Act) -> bool {
    plan.among(file.slots()).any(|(_, directive)| directive.act() == Some(act))
}
