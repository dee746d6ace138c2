//! Lengths of prompts and answers, drawn from a seed.

use brownout_injector::Draw;
use brownout_injector::draw::Normal as _;
use brownout_injector::units::LengthDist;
pub use brownout_injector::units::MAX_TOKENS;
use rand_distr::{Distribution, Zipf};
use std::convert::Infallible;

/// A [`Draw`] read from its beginning, for distributions that need an unknown number of random words.
pub(super) struct DrawRng {
    draw: Draw,
    next: u64,
}

impl DrawRng {
    pub(super) const fn new(draw: Draw) -> Self {
        Self { draw, next: 0 }
    }
}

impl rand::TryRng for DrawRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.try_next_u64()? >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.next += 1;
        Ok(self.draw.bits(self.next - 1))
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for chunk in dst.chunks_mut(8) {
            let word = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

/// What is wrong with a distribution, in words; nothing where it can be drawn from.
///
/// # Errors
/// Zero or more than [`MAX_TOKENS`] tokens, bounds the wrong way round, numbers that are not finite.
pub fn check(dist: &LengthDist) -> Result<(), String> {
    let words = |(field, right): &(&str, String)| format!("{field}: {right}");
    match dist.problems().first() {
        Some(problem) => Err(words(problem)),
        None => Ok(()),
    }
}

/// One length from `dist`: at least 1, at most [`MAX_TOKENS`].
#[must_use]
pub fn sample(dist: &LengthDist, draw: Draw) -> u32 {
    let tokens = match *dist {
        LengthDist::Constant(n) => n,
        LengthDist::Uniform { min, max } => {
            let width = u64::from(max.saturating_sub(min)) + 1;
            min + draw.below(0, width) as u32
        }
        LengthDist::Normal { mean, stddev } => (mean + stddev * draw.normal(0)).round().max(0.0) as u32,
        LengthDist::Zipf { max, exponent } => Zipf::new(f64::from(max.max(1)), exponent)
            .map_or(1, |zipf| zipf.sample(&mut DrawRng::new(draw)) as u32),
    };
    tokens.clamp(1, MAX_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn draws(dist: &LengthDist, n: u64) -> Vec<u32> {
        (0..n).map(|i| sample(dist, Draw::new(5, "length", i))).collect()
    }

    fn mean(lengths: &[u32]) -> f64 {
        lengths.iter().map(|n| f64::from(*n)).sum::<f64>() / lengths.len() as f64
    }

    #[test]
    fn a_uniform_length_reaches_both_ends_and_centres() {
        let lengths = draws(&LengthDist::Uniform { min: 10, max: 20 }, 20_000);
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&10), Some(&20)));
        assert!((mean(&lengths) - 15.0).abs() < 0.1, "{}", mean(&lengths));
    }

    #[test]
    fn a_normal_length_has_its_mean_and_spread() {
        let lengths = draws(&LengthDist::Normal { mean: 200.0, stddev: 30.0 }, 20_000);
        let centre = mean(&lengths);
        let spread =
            (lengths.iter().map(|n| (f64::from(*n) - centre).powi(2)).sum::<f64>() / 20_000.0).sqrt();
        assert!((centre - 200.0).abs() < 1.0 && (spread - 30.0).abs() < 1.0, "{centre} +- {spread}");
    }

    #[test]
    fn zipf_lengths_follow_the_power_law() {
        let lengths = draws(&LengthDist::Zipf { max: 512, exponent: 1.1 }, 50_000);
        let count = |k: u32| lengths.iter().filter(|n| **n == k).count() as f64;
        let ratio = count(1) / count(4);
        assert!((ratio - 4_f64.powf(1.1)).abs() < 0.4, "1 is {ratio} times as common as 4");
        assert!(lengths.iter().all(|n| (1..=512).contains(n)));
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for bad in [
            LengthDist::Constant(0),
            LengthDist::Constant(u32::MAX),
            LengthDist::Uniform { min: 9, max: 3 },
            LengthDist::Uniform { min: 0, max: 0 },
            LengthDist::Normal { mean: f64::NAN, stddev: 1.0 },
            LengthDist::Normal { mean: 5.0, stddev: -1.0 },
            LengthDist::Zipf { max: 0, exponent: 1.0 },
            LengthDist::Zipf { max: 10, exponent: -1.0 },
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
        assert_eq!(check(&LengthDist::Zipf { max: 512, exponent: 1.1 }), Ok(()));
    }

    proptest! {
        #[test]
        fn a_length_depends_on_the_seed_and_the_number_alone(seed: u64, n: u64, min in 1_u32..100, more in 0_u32..100) {
            let dist = LengthDist::Uniform { min, max: min + more };
            let length = sample(&dist, Draw::new(seed, "length", n));
            prop_assert!((min..=min + more).contains(&length));
            prop_assert_eq!(length, sample(&dist, Draw::new(seed, "length", n)));
        }
    }
}
