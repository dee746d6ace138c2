//! Places spread evenly over a range: one drawn in each of its equal parts.
//!
//! Nothing is kept of the places but how to find each again, so that a million of them take no memory, and a read looks
//! only at those it may meet.

use core::ops::Range;

use crate::Draw;

/// A range of units (bytes or pages) cut into parts whose sizes differ by one at most, the larger ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strata {
    from: u64,
    count: u64,
    /// Units in each part.
    width: u64,
    /// Parts that have one more.
    wider: u64,
    draw: Draw,
}

impl Strata {
    /// Cuts `range` into `count` parts, or into its units where it has fewer. `None` if there is nothing to cut.
    pub(super) fn new(range: Range<u64>, count: u64, draw: Draw) -> Option<Self> {
        let units = range.end.checked_sub(range.start)?;
        let count = count.min(units);
        let width = units.checked_div(count)?;
        let wider = units.checked_rem(count)?;
        Some(Self { from: range.start, count, width, wider, draw })
    }

    /// How many parts there are.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The parts that have units in `range`.
    pub(super) fn touching(&self, range: Range<u64>) -> Range<u64> {
        let end = self.start(self.count);
        let first = range.start.max(self.from);
        let last = range.end.min(end);
        if first >= last {
            return 0..0;
        }
        self.of(first)..self.of(last.saturating_sub(1)).saturating_add(1)
    }

    /// The unit drawn in a part.
    pub(super) fn place(&self, part: u64) -> u64 {
        let width = self.width.saturating_add(u64::from(part < self.wider));
        self.start(part).saturating_add(self.draw.below(part, width))
    }

    /// The bit drawn in a part. [`Draw::below`] takes a place from the high end of the number, this is its low end.
    pub(super) fn bit(&self, part: u64) -> u8 {
        1 << (self.draw.bits(part) & 7)
    }

    fn start(&self, part: u64) -> u64 {
        self.from.saturating_add(part.saturating_mul(self.width)).saturating_add(part.min(self.wider))
    }

    /// The part that a unit of the range lies in.
    fn of(&self, unit: u64) -> u64 {
        let unit = unit.saturating_sub(self.from);
        let wide = self.width.saturating_add(1);
        let in_wider = self.wider.saturating_mul(wide);
        match unit.checked_sub(in_wider) {
            None => unit.checked_div(wide).unwrap_or(0),
            Some(rest) => self.wider.saturating_add(rest.checked_div(self.width).unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The parts follow on each other without a gap, and each has its place.
        #[test]
        fn parts_fill_their_range(from in 0..1000_u64, units in 1..500_u64, count in 1..600_u64, seed: u64) {
            let range = from..from + units;
            let strata = Strata::new(range.clone(), count, Draw::new(seed, "a", 0)).unwrap();
            prop_assert_eq!(strata.count(), count.min(units));
            let mut next = from;
            for part in 0..strata.count() {
                let (start, end) = (strata.start(part), strata.start(part + 1));
                prop_assert_eq!(start, next);
                prop_assert!((units / strata.count()..=units.div_ceil(strata.count())).contains(&(end - start)));
                prop_assert!((start..end).contains(&strata.place(part)));
                for unit in start..end {
                    prop_assert_eq!(strata.of(unit), part);
                }
                next = end;
            }
            prop_assert_eq!(next, range.end);
        }

        #[test]
        fn nothing_overflows(from: u64, to: u64, count: u64, asked: (u64, u64), part: u64) {
            if let Some(strata) = Strata::new(from..to, count, Draw::new(1, "a", 0)) {
                let parts = strata.touching(asked.0..asked.1);
                prop_assert!(parts.end <= strata.count());
                prop_assert!((from..to).contains(&strata.place(part % strata.count())));
            }
        }
    }

    #[test]
    fn there_is_nothing_to_cut() {
        let draw = Draw::new(1, "a", 0);
        assert_eq!(Strata::new(5..5, 3, draw), None);
        assert_eq!(Strata::new(5..9, 0, draw), None);
        assert_eq!(Strata::new(Range { start: 9, end: 5 }, 1, draw), None);
    }
}
