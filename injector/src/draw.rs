//! The randomness of decisions, with what the shim has no use for.

pub use brownout_control::draw::{Draw, stable_hash};

/// Draws from the standard normal distribution.
pub trait Normal {
    /// The `i`th number of a standard normal distribution (Box and Muller, 1958).
    #[must_use]
    fn normal(self, i: u64) -> f64;
}

impl Normal for Draw {
    fn normal(self, i: u64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit(2 * i)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit(2 * i + 1)).cos()
    }
}
