//! Counter-based randomness: a draw is a pure function of what it is for, never of what was drawn before.
//!
//! The mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", OOPSLA 2014), the constants are theirs. Names are hashed with 64-bit FNV-1a.

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(GOLDEN_GAMMA);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 64-bit FNV-1a of `bytes`; stable across platforms and versions, since recorded decisions depend on it.
#[must_use]
pub const fn stable_hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

/// A stream of random numbers addressed by index: `draw.unit(3)` is the same whether or not `draw.unit(2)` was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    key: u64,
}

impl Draw {
    /// The stream that belongs to event `n` of the fault called `name`, under `seed`.
    #[must_use]
    pub const fn new(seed: u64, name: &str, n: u64) -> Self {
        Self::of_hash(seed, stable_hash(name.as_bytes()), n)
    }

    /// As [`Draw::new`], for whoever has the name only as its [`stable_hash`].
    #[must_use]
    pub const fn of_hash(seed: u64, name: u64, n: u64) -> Self {
        Self { key: mix(mix(seed ^ name) ^ n) }
    }

    /// An independent stream for one purpose within the same event.
    #[must_use]
    pub const fn fork(self, purpose: &str) -> Self {
        Self { key: mix(self.key ^ stable_hash(purpose.as_bytes())) }
    }

    /// The `i`th 64-bit number of this stream.
    #[must_use]
    pub const fn bits(self, i: u64) -> u64 {
        mix(self.key ^ mix(i))
    }

    /// The `i`th number, uniform in `[0, 1)`, with 53 random bits.
    #[must_use]
    pub fn unit(self, i: u64) -> f64 {
        (self.bits(i) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The `i`th number, uniform in `0..n`; 0 where `n` is 0.
    #[must_use]
    pub fn below(self, i: u64, n: u64) -> u64 {
        ((u128::from(self.bits(i)) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_each_part_of_its_address() {
        let base = Draw::new(7, "slow", 3).bits(0);
        assert_eq!(base, Draw::new(7, "slow", 3).bits(0));
        for other in [Draw::new(8, "slow", 3), Draw::new(7, "slaw", 3), Draw::new(7, "slow", 4)] {
            assert_ne!(base, other.bits(0));
        }
        assert_ne!(base, Draw::new(7, "slow", 3).bits(1));
    }

    /// Whoever runs a scenario again, with another version or on another machine, hits the same requests.
    #[test]
    fn draws_are_those_of_the_published_functions() {
        // SplitMix64 from seed 0: its first two numbers. FNV-1a: the test vectors of its authors.
        assert_eq!([mix(0), mix(GOLDEN_GAMMA)], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        for (text, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(stable_hash(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn purposes_are_apart_and_whole_numbers_reach_their_end() {
        let draw = Draw::new(7, "slow", 3);
        assert!(draw.fork("fires") != draw.fork("tokens") && draw.fork("fires") != draw);
        let seen: std::collections::BTreeSet<u64> = (0..200).map(|i| draw.below(i, 5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(draw.below(0, 0), 0);
    }

    #[test]
    fn units_fill_the_interval_evenly() {
        let mean = (0..100_000).map(|n| Draw::new(1, "mean", n).unit(0)).sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "mean of 100,000 uniform draws was {mean}");
    }
}
