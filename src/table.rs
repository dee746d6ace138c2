//! What the terminal shows of reports.

use brownout_runner::report::markdown::{change_cells, line_cells, outcome_words};
use brownout_runner::report::{Mode, Report, text};
use brownout_runner::sla::{LineOutcome, LineResult};
use brownout_runner::summary::degradation::{Change, Finding};
use brownout_runner::summary::recovery::RecoveryState;
use std::fmt::Write;

/// One report in a few lines.
pub(crate) fn summary(report: &Report) -> String {
    let mut lines = format!("{}: {}", report.verdict.kind.word(), report.verdict.headline);
    for reason in &report.verdict.reasons {
        let _ = write!(lines, "\n  - {reason}");
    }
    for line in &report.sla {
        let _ = write!(lines, "\n  {:12}  {}", outcome_words(line), line.line);
    }
    // The load alone has nothing to compare it with.
    if report.meta.mode == Mode::Run {
        let (what, by_how_much) = degraded(report);
        let _ = write!(lines, "\ndegraded most: {what}, {by_how_much}; recovery: {}", recovery(report));
    }
    lines
}

/// One line a story: what degraded, by how much, how long recovery took, and the verdict.
pub(crate) fn stories(reports: &[Report]) -> String {
    let head =
        ["story", "what degraded", "by how much (95 % interval)", "recovery", "verdict"].map(str::to_owned);
    let rows = reports.iter().map(|report| {
        let (what, by_how_much) = degraded(report);
        [report.name().to_owned(), what, by_how_much, recovery(report), report.verdict.kind.word().to_owned()]
    });
    aligned(std::iter::once(head).chain(rows).collect())
}

/// What degraded most, and by how much: of what the SLA speaks of, if any of that got worse beyond doubt.
fn degraded(report: &Report) -> (String, String) {
    let broken = |line: &&LineResult| line.outcome == LineOutcome::Broken;
    let asked_for =
        |change: &&Change| report.sla.iter().filter(broken).any(|line| line.line.starts_with(&change.metric));
    let worse = || report.changes.iter().filter(|change| change.finding == Finding::Worse);
    let most = |a: &&Change, b: &&Change| weight(a).total_cmp(&weight(b));
    if let Some(change) = worse().filter(asked_for).max_by(most) {
        return (change.metric.clone(), by_how_much(change));
    }
    // A line may speak of a number that is too rare for an interval, such as a maximum.
    if let Some(line) = report.sla.iter().find(broken) {
        let metric = line.line.split(['<', '>']).next().unwrap_or(&line.line).trim();
        let (measured, bounds) = line_cells(line);
        return (metric.to_owned(), format!("{measured} ({bounds})"));
    }
    match worse().max_by(most) {
        Some(change) => (change.metric.clone(), by_how_much(change)),
        None => ("nothing beyond doubt".to_owned(), text::NOTHING.to_owned()),
    }
}

/// How far a metric moved, upwards or downwards; what was 0 before moved furthest.
fn weight(change: &Change) -> f64 {
    let ratio = change.ratio.unwrap_or(f64::INFINITY);
    ratio.max(1.0 / ratio)
}

fn by_how_much(change: &Change) -> String {
    let [_, _, ratio, difference] = change_cells(change);
    if change.ratio.is_some() { ratio } else { difference }
}

fn recovery(report: &Report) -> String {
    let Some(recovery) = &report.recovery else { return text::NOTHING.to_owned() };
    recovery.in_short().unwrap_or_else(|| {
        match recovery.state {
            RecoveryState::NotRecovered => "not recovered",
            RecoveryState::Recovered | RecoveryState::Unknown => "unknown",
        }
        .to_owned()
    })
}

fn aligned<const N: usize>(rows: Vec<[String; N]>) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut table = String::new();
    for row in &rows {
        table.push('\n');
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(table, "{cell:width$}  ");
        }
        table.truncate(table.trim_end().len());
    }
    table
}
