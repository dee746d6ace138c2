//! Order statistics and a plain table.

use std::time::Duration;

/// The median; NaN of nothing, so that a missing figure never passes for a good one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The smallest value with at least the share `q` of all at or below it, in milliseconds.
pub(crate) fn quantile_ms(durations: &mut [Duration], q: f64) -> f64 {
    if durations.is_empty() {
        return f64::NAN;
    }
    let rank = ((q * durations.len() as f64).ceil() as usize).clamp(1, durations.len());
    let (_, value, _) = durations.select_nth_unstable(rank - 1);
    value.as_secs_f64() * 1e3
}

/// A figure with three significant digits.
pub(crate) fn three(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let digits = if value == 0.0 { 2 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 4) };
    format!("{value:.*}", digits as usize)
}

/// Prints `rows` in columns as wide as their widest cell, the first to the left, all others to the right.
pub(crate) fn table(title: &str, head: &[&str], rows: &[Vec<String>]) {
    println!("{title}");
    let width = |i: usize| {
        rows.iter().map(|row| row[i].chars().count()).chain([head[i].chars().count()]).max().unwrap_or(0)
    };
    let line = |cells: Vec<&str>| {
        let mut text = String::from("  ");
        for (i, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(width(i) - cell.chars().count());
            text += &if i == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
        }
        println!("{}", text.trim_end());
    };
    line(head.to_vec());
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
    println!();
}
