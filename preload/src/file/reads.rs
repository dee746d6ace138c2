//! Reads from descriptors.

use super::tally::{self, Done};
use super::verdict::Shown;
use super::{Moment, slow, verdict};
use crate::sys;
use brownout_control::block::SLOTS;
use brownout_control::directive::Failure;
use core::ffi::c_int;

/// From where a call reads.
#[derive(Clone, Copy)]
pub(crate) enum At {
    /// From where the descriptor stands, which moves on.
    Position,
    /// From here.
    Offset(i64),
}

impl At {
    /// As `preadv2` has it, where -1 stands for the position.
    pub(crate) const fn of(offset: i64) -> Self {
        if offset == -1 { Self::Position } else { Self::Offset(offset) }
    }
}

/// Does `call`, which reads into `pieces` from `fd` and at most as many bytes as it is given, as the directives say.
///
/// # Safety
/// The pieces are memory that the call may write to.
pub(crate) unsafe fn around(
    fd: c_int,
    at: At,
    pieces: &[libc::iovec],
    call: impl FnOnce(usize) -> isize,
) -> isize {
    let Some(now) = Moment::of(fd) else { return call(usize::MAX) };
    if let Some(errno) = verdict::fails(&now, &[Failure::Io, Failure::Stale]) {
        sys::set_errno(errno);
        return -1;
    }
    let from = match at {
        At::Position => sys::seek(fd, 0, libc::SEEK_CUR).ok(),
        At::Offset(offset) => u64::try_from(offset).ok(),
    };
    let Some(from) = from else { return call(usize::MAX) };
    let shown = verdict::shown(now.plan, now.file, now.at);
    let end = End::of(&now, shown);
    let most = end.left(from);
    let wanted = pieces.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.iov_len));
    let result = if most == 0 && wanted > 0 { 0 } else { call(most) };
    let Ok(read) = usize::try_from(result) else { return result };
    slow::hold(&now, read as u64);
    let kept = read.min(most);
    end.tell(&now, wanted.min(now.file.left(from)).saturating_sub(kept));
    if kept < read
        && let (At::Position, Ok(end)) = (at, i64::try_from(from + kept as u64))
    {
        let _ = sys::seek(fd, end, libc::SEEK_SET);
    }
    // SAFETY: as the caller says; the call has filled so much of it.
    unsafe { damage(&now, shown, from, pieces, kept) };
    kept as isize
}

/// Where the file seems to end.
pub(super) struct End {
    shown: Shown,
    at: Option<u64>,
}

impl End {
    pub(super) fn of(now: &Moment, shown: Shown) -> Self {
        Self { shown, at: verdict::limit(now.file, shown) }
    }

    /// How many bytes seem to be left from `from` on.
    pub(super) fn left(&self, from: u64) -> usize {
        self.at.map_or(usize::MAX, |end| usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX))
    }

    /// Tells that `missing` bytes were there and did not come.
    pub(super) fn tell(&self, now: &Moment, missing: usize) {
        if self.at.is_some() && missing > 0 {
            let cut = |slot: &usize| now.file.damage(*slot).is_some_and(|damage| damage.limit() == self.at);
            if let Some(slot) = verdict::slots(self.shown).find(cut) {
                tally::count(now.file, slot, &Done::touched(missing as u64));
            }
        }
    }
}

/// Damages the first `read` bytes of the pieces, which were read from `from` on, as it shows.
///
/// # Safety
/// They are memory that may be written to.
pub(super) unsafe fn damage(now: &Moment, shown: Shown, from: u64, pieces: &[libc::iovec], read: usize) {
    let mut changed = [0_u64; SLOTS];
    let (mut offset, mut left) = (from, read);
    for piece in pieces {
        let length = piece.iov_len.min(left);
        if length == 0 || piece.iov_base.is_null() {
            continue;
        }
        // SAFETY: as the caller says.
        let bytes = unsafe { core::slice::from_raw_parts_mut(piece.iov_base.cast::<u8>(), length) };
        verdict::apply(now.file, shown, offset, bytes, |slot, bytes| {
            if let Some(sum) = changed.get_mut(slot) {
                *sum += bytes;
            }
        });
        offset += length as u64;
        left -= length;
    }
    for (slot, bytes) in changed.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0) {
        tally::count(now.file, slot, &Done::touched(bytes));
    }
}
