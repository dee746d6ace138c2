//! How unsteady a stream of tokens is.

/// A gap counts as a stall when it is longer than this many times the usual gap.
pub const STALL_FACTOR: f64 = 3.0;

/// The sum of |change from one gap to the next| within one stream, and how many changes there were.
#[must_use]
pub fn changes(gaps: &[f32]) -> (f64, u64) {
    let sum = gaps.windows(2).map(|pair| f64::from((pair[1] - pair[0]).abs())).sum();
    (sum, gaps.len().saturating_sub(1) as u64)
}

/// How many of `gaps` are stalls, given the usual gap.
#[must_use]
pub fn stalls(gaps: &[f32], usual: f64) -> u64 {
    gaps.iter().filter(|gap| f64::from(**gap) > STALL_FACTOR * usual).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_stream_has_neither_changes_nor_stalls() {
        assert_eq!(changes(&[0.5; 10]), (0.0, 9));
        assert_eq!(stalls(&[0.5; 10], 0.5), 0);
        assert_eq!(changes(&[]), (0.0, 0));
    }

    #[test]
    fn a_gap_beyond_three_usual_ones_is_a_stall() {
        let gaps = [0.5, 0.5, 2.0, 1.5, 0.5];
        assert_eq!(stalls(&gaps, 0.5), 1);
        assert_eq!(changes(&gaps), (0.0 + 1.5 + 0.5 + 1.0, 4));
    }
}
