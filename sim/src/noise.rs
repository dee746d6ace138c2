//! Counter-based randomness: a number is a pure function of its coordinates, never of how many were drawn before.

/// SplitMix64's finalizer (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Joins two coordinates into one.
pub(crate) fn join(a: u64, b: u64) -> u64 {
    mix(mix(a) ^ b)
}

/// A uniform number in (0, 1), never 0 and never 1, so that logarithms of it are finite.
pub(crate) fn uniform(key: u64) -> f64 {
    ((mix(key) >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// A standard normal number (Box and Muller 1958).
pub(crate) fn normal(key: u64) -> f64 {
    let radius = (-2.0 * uniform(join(key, 1)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(join(key, 2))).cos()
}

/// A standard Gumbel number: adding one to each logit and taking the largest samples from their softmax.
pub(crate) fn gumbel(key: u64) -> f64 {
    -(-uniform(key).ln()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moments_are_those_of_the_distributions() {
        let n = 20_000_u64;
        let mean = |f: fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        assert!((mean(uniform) - 0.5).abs() < 0.01);
        assert!(mean(normal).abs() < 0.03);
        assert!((mean(|k| normal(k).powi(2)) - 1.0).abs() < 0.05);
        assert!((mean(gumbel) - 0.577_215).abs() < 0.05);
    }
}
