//! What several kinds check of their parameters.

use crate::units::DelayDist;

/// The problems of one fault: `(field, what would be right)` each.
pub(super) type Problems = Vec<(&'static str, String)>;

/// `at` counts from 1.
pub(super) fn token_number(field: &'static str, at: u32) -> Problems {
    if at == 0 { vec![(field, "the first token has number 1".to_owned())] } else { Vec::new() }
}

/// A number that must be finite and at least `least`.
pub(super) fn at_least(field: &'static str, value: Option<f64>, least: f64) -> Problems {
    match value {
        Some(value) if !(value.is_finite() && value >= least) => {
            vec![(field, format!("a number of at least {least}"))]
        }
        _ => Vec::new(),
    }
}

/// An HTTP status that tells of an error.
pub(super) fn error_status(field: &'static str, status: u16) -> Problems {
    if (400..=599).contains(&status) {
        Vec::new()
    } else {
        vec![(field, "an HTTP status of an error, from 400 to 599".to_owned())]
    }
}

/// A distribution that can be drawn from.
pub(super) fn delay(field: &'static str, dist: &DelayDist) -> Problems {
    let wrong = match dist {
        DelayDist::Constant(span) if span.0.is_zero() => "a constant delay of more than 0s",
        DelayDist::Uniform { min, max } if min > max => "`min` no longer than `max`",
        DelayDist::Uniform { max, .. } if max.0.is_zero() => "`max` of more than 0s",
        DelayDist::Lognormal { median, .. } if median.0.is_zero() => "`median` of more than 0s",
        DelayDist::Lognormal { median, p99 } if p99 < median => "`p99` no shorter than `median`",
        _ => return Vec::new(),
    };
    vec![(field, wrong.to_owned())]
}
