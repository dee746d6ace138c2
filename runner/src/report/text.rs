//! Numbers as people read them.

use crate::stats::Interval;
use crate::summary::Unit;

/// What stands where there is no number.
pub const NOTHING: &str = "–";

/// About three significant digits, without an exponent for everyday sizes.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size >= 99.95 || size == 0.0 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.09995 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    // Trailing zeros pretend to a precision that a round number such as 3 or 0.5 was never given with.
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    if text == "-0" { "0".to_owned() } else { text }
}

/// A time: `850 µs`, `42.1 ms`, `1.25 s`, `2 min 5 s`.
#[must_use]
pub fn seconds(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0 s".to_owned(),
        _ if size < 0.000_999_5 => format!("{} µs", number(value * 1e6)),
        _ if size < 0.999_5 => format!("{} ms", number(value * 1e3)),
        _ if size < 120.0 => format!("{} s", number(value)),
        _ => format!(
            "{}{:.0} min {:.0} s",
            if value < 0.0 { "-" } else { "" },
            (size / 60.0).floor(),
            size % 60.0
        ),
    }
}

/// A share in percent.
#[must_use]
pub fn share(value: f64) -> String {
    format!("{} %", number(value * 100.0))
}

/// A difference of two shares: `48.8 points`, which are percentage points. In percent it would read as a ratio.
#[must_use]
pub fn points(value: f64) -> String {
    let number = number(value * 100.0);
    let one = matches!(number.as_str(), "1" | "-1");
    format!("{number} point{}", if one { "" } else { "s" })
}

/// `text`, as the upper bound that it is where `bound` says so.
#[must_use]
pub fn at_most(bound: bool, text: String) -> String {
    if bound { format!("≤ {text}") } else { text }
}

/// A factor: `2.31×`.
#[must_use]
pub fn factor(value: f64) -> String {
    format!("{}×", number(value))
}

/// A value with its unit.
#[must_use]
pub fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => seconds(value),
        Unit::Share => share(value),
        Unit::RequestsPerSecond => format!("{} req/s", number(value)),
        Unit::TokensPerSecond => format!("{} tok/s", number(value)),
    }
}

/// A difference of two values of that unit, with a sign: a difference of shares is in percentage points.
#[must_use]
pub fn difference(value: f64, unit: Unit) -> String {
    let text = self::value(value, unit);
    let text = if unit == Unit::Share { points(value) } else { text };
    // No sign before what is shown as nothing.
    let shown = text.contains(|c: char| ('1'..='9').contains(&c));
    match (value > 0.0, shown) {
        (_, false) => text.trim_start_matches('-').to_owned(),
        (true, true) => format!("+{text}"),
        (false, true) => text,
    }
}

/// A value with its unit, or a dash.
#[must_use]
pub fn maybe(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), show)
}

/// An interval, or nothing at all where neither bound is known.
#[must_use]
pub fn interval(interval: Option<Interval>, show: impl Fn(f64) -> String) -> Option<String> {
    let interval = interval?;
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => Some(format!("{} to {}", show(low), show(high))),
        (Some(low), None) => Some(format!("at least {}", show(low))),
        (None, Some(high)) => Some(format!("at most {}", show(high))),
        (None, None) => None,
    }
}

/// A count with thousands set apart: `12,345`.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 request`, `2 requests`.
#[must_use]
pub fn plural(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (value, text) in [
            (0.0, "0 s"),
            (0.000_25, "250 µs"),
            (0.0421, "42.1 ms"),
            (0.99951, "1 s"),
            (1.254, "1.25 s"),
            (30.0, "30 s"),
            (125.0, "2 min 5 s"),
            (-0.5, "-500 ms"),
        ] {
            assert_eq!(seconds(value), text);
        }
        assert_eq!(share(0.012_34), "1.23 %");
        assert_eq!(difference(0.488, Unit::Share), "+48.8 points");
        assert_eq!(difference(-0.01, Unit::Share), "-1 point");
        assert_eq!(difference(0.1, Unit::Seconds), "+100 ms");
        assert_eq!(factor(3.0), "3×");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "request"), "1 request");
        assert_eq!(number(-0.000_001), "0");
    }

    #[test]
    fn half_an_interval_is_said_to_be_one() {
        let low = Interval { low: Some(1.0), high: None };
        assert_eq!(interval(Some(low), seconds).as_deref(), Some("at least 1 s"));
        assert_eq!(interval(Some(Interval::default()), seconds), None);
    }
}
