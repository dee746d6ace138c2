//! One fault as a control block has it: numbers and short texts only.

use crate::damage::How;
use crate::draw::{Draw, stable_hash};
use crate::glob;
use crate::plain::Plain;
use crate::text::Text;
use crate::trigger::{Trigger, Window};
use core::time::Duration;

/// A name in the journal.
pub type Name = Text<64>;
/// A pattern of paths.
pub type Pattern = Text<256>;

/// What a directive does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Act {
    /// A file reads as damaged.
    Corrupt = 1,
    /// Reading, opening or touching a file fails.
    Fail = 2,
    /// Reading a file takes longer.
    Slow = 3,
}

impl Act {
    const ALL: [Self; 3] = [Self::Corrupt, Self::Fail, Self::Slow];
}

/// Groups of hooks, one bit each: a hook that nothing concerns is passed through after one look at one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Family {
    /// What opens, reads and maps files.
    Files = 1,
    /// What tells the size of files.
    Sizes = 2,
}

impl Family {
    /// Its bit.
    #[must_use]
    pub const fn bit(self) -> u64 {
        self as u64
    }
}

/// How a file fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Failure {
    /// `EIO` from reads, `SIGBUS` in maps.
    Io = 1,
    /// `ENOENT` from opens.
    NotFound = 2,
    /// `ESTALE` from opens and reads, `SIGBUS` in maps.
    Stale = 3,
    /// `SIGBUS` in maps.
    Bus = 4,
}

impl Failure {
    const ALL: [Self; 4] = [Self::Io, Self::NotFound, Self::Stale, Self::Bus];

    /// The failure with this number.
    #[must_use]
    pub fn from_u32(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|failure| *failure as u32 == number)
    }
}

/// A delay as equally likely steps: [`Quantiles::STEPS`] intervals between neighbouring quantiles, so that the shim can
/// draw from any distribution by one multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Quantiles([u64; Self::STEPS + 1]);

impl Quantiles {
    /// How many intervals there are.
    pub const STEPS: usize = 64;
    /// No delay.
    pub const NONE: Self = Self([0; Self::STEPS + 1]);

    /// The quantiles of a distribution, `of(p)` in nanoseconds for `p` from 0 to 1. The two ends are half a step
    /// inside, where a distribution may be endless.
    #[must_use]
    pub fn new(of: impl Fn(f64) -> u64) -> Self {
        let mut quantiles = Self::NONE;
        for (i, value) in quantiles.0.iter_mut().enumerate() {
            let edge = 1.0 / (2.0 * Self::STEPS as f64);
            *value = of((i as f64 / Self::STEPS as f64).clamp(edge, 1.0 - edge));
        }
        quantiles
    }

    /// The delay at `unit` of `[0, 1)`.
    #[must_use]
    pub fn at(&self, unit: f64) -> Duration {
        let place = unit.clamp(0.0, 1.0) * Self::STEPS as f64;
        let step = (place as usize).min(Self::STEPS - 1);
        let (Some(low), Some(high)) = (self.0.get(step), self.0.get(step + 1)) else { return Duration::ZERO };
        let part = (place - step as f64) * high.saturating_sub(*low) as f64;
        Duration::from_nanos(low.saturating_add(part as u64))
    }

    /// Whether there is never a delay.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.iter().all(|value| *value == 0)
    }
}

/// One fault, ready for the shim. Times are nanoseconds since arming.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Directive {
    /// What it does: an [`Act`].
    pub act: u32,
    /// Which kind of it: a [`Failure`], or how a file is damaged.
    pub how: u32,
    /// How many places are damaged.
    pub count: u64,
    /// Thousandths of the file that are left of it.
    pub keep: u64,
    /// Bytes a second, 0 for as many as there are.
    pub bytes_per_second: f64,
    /// The seed of its decisions.
    pub seed: u64,
    /// See [`Trigger`].
    pub probability: f64,
    /// See [`Trigger`].
    pub every: u64,
    /// See [`Trigger`].
    pub after_calls: u64,
    /// See [`Trigger`].
    pub max_hits: u64,
    /// See [`Window`].
    pub from: u64,
    /// See [`Window`].
    pub until: u64,
    /// See [`Window`].
    pub ramp: u64,
    /// See [`Window`]; 0 for never again.
    pub repeat: u64,
    /// See [`Window`].
    pub ends: u64,
    /// Only this rank; [`Directive::ANY_RANK`] for all, also those without one.
    pub rank: u64,
    /// Its name in the scenario.
    pub name: Name,
    /// Only processes with such an executable; all where empty.
    pub process: Name,
    /// Only files with such a path.
    pub file: Pattern,
    /// How long a call takes longer.
    pub delay: Quantiles,
}

#[allow(unsafe_code, reason = "see `Plain`")]
// SAFETY: two words of 32 bits, words of 64 bits, and texts of whole words; no padding.
unsafe impl Plain for Directive {}

impl Directive {
    /// Every rank.
    pub const ANY_RANK: u64 = u64::MAX;

    /// None: a slot that is free. Also what is given most often, to be changed from.
    pub const NOTHING: Self = Self {
        act: 0,
        how: 0,
        count: 0,
        keep: 0,
        bytes_per_second: 0.0,
        seed: 0,
        probability: 1.0,
        every: 0,
        after_calls: 0,
        max_hits: u64::MAX,
        from: 0,
        until: u64::MAX,
        ramp: 0,
        repeat: 0,
        ends: u64::MAX,
        rank: Self::ANY_RANK,
        name: Name::EMPTY,
        process: Name::EMPTY,
        file: Pattern::EMPTY,
        delay: Quantiles::NONE,
    };

    /// The families of hooks that it is about.
    #[must_use]
    pub fn families(&self) -> u64 {
        match self.act() {
            None => 0,
            Some(Act::Corrupt) if self.shortens() => Family::Files.bit() | Family::Sizes.bit(),
            Some(Act::Corrupt | Act::Fail | Act::Slow) => Family::Files.bit(),
        }
    }

    /// Whether files look shorter to it.
    #[must_use]
    pub fn shortens(&self) -> bool {
        self.act() == Some(Act::Corrupt) && self.how == How::Truncate.to_u32()
    }

    /// Whether this process, with this executable and rank, is one of those that it is about.
    #[must_use]
    pub fn is_about(&self, exe: &[u8], rank: u64) -> bool {
        let process = self.process.bytes();
        (process.is_empty() || glob(process, exe)) && (self.rank == Self::ANY_RANK || self.rank == rank)
    }

    /// What it does; nothing where the number means nothing.
    #[must_use]
    pub fn act(&self) -> Option<Act> {
        Act::ALL.into_iter().find(|act| *act as u32 == self.act)
    }

    /// How it makes a file fail, where it does.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        (self.act() == Some(Act::Fail)).then(|| Failure::from_u32(self.how)).flatten()
    }

    /// The randomness of its decision `n`.
    #[must_use]
    pub fn draw(&self, n: u64) -> Draw {
        Draw::of_hash(self.seed, stable_hash(self.name.bytes()), n)
    }

    /// When it fires.
    #[must_use]
    pub const fn trigger(&self) -> Trigger {
        let nanos = Duration::from_nanos;
        let window = Window {
            from: nanos(self.from),
            until: nanos(self.until),
            ramp: nanos(self.ramp),
            repeat: if self.repeat == 0 { None } else { Some(nanos(self.repeat)) },
            ends: nanos(self.ends),
        };
        Trigger {
            probability: self.probability,
            every: self.every,
            after_calls: self.after_calls,
            max_hits: self.max_hits,
            window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_give_the_distribution_back() {
        let uniform = Quantiles::new(|p| (p * 1e9) as u64);
        let mean =
            (0..10_000).map(|n| uniform.at(Draw::new(1, "q", n).unit(0)).as_secs_f64()).sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert_eq!(Quantiles::new(|_| 5).at(0.999), Duration::from_nanos(5));
        assert!(Quantiles::NONE.is_none() && !uniform.is_none());
        // Out of range, as a torn read may be.
        assert_eq!(Quantiles::new(|_| 5).at(f64::NAN), Duration::from_nanos(5));
        assert_eq!(Quantiles::new(|_| 5).at(7.0), Duration::from_nanos(5));
    }
}
