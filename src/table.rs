//! What the terminal shows of reports.

use brownout_runner::report::{Report, text};
use brownout_runner::sla::LineOutcome;
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
        let _ = write!(lines, "\n  {:12} {}", outcome_word(line.outcome), line.line);
    }
    if let Some(change) = worst(report) {
        let _ = write!(lines, "\n  worst: {} {}", change.metric, by_how_much(change));
    }
    lines
}

/// One line a story: what degraded, by how much, how long recovery took, and the verdict.
pub(crate) fn stories(reports: &[Report]) -> String {
    let head =
        ["story", "what degraded", "by how much (95 % interval)", "recovery", "verdict"].map(str::to_owned);
    let rows = reports.iter().map(|report| {
        let worst = worst(report);
        [
            report.name().to_owned(),
            worst.map_or_else(|| "nothing beyond doubt".to_owned(), |change| change.metric.clone()),
            worst.map_or_else(|| "-".to_owned(), by_how_much),
            recovery(report),
            report.verdict.kind.word().to_owned(),
        ]
    });
    aligned(std::iter::once(head).chain(rows).collect())
}

/// The metric that moved most: by ratio, and by difference where the baseline is 0.
fn worst(report: &Report) -> Option<&Change> {
    let weight = |change: &Change| {
        let ratio = change.ratio.unwrap_or(f64::INFINITY);
        if ratio < 1.0 { 1.0 / ratio } else { ratio }
    };
    report
        .changes
        .iter()
        .filter(|change| change.finding == Finding::Worse)
        .max_by(|a, b| weight(a).total_cmp(&weight(b)))
}

fn by_how_much(change: &Change) -> String {
    if let (Some(ratio), Some(interval)) = (change.ratio, change.ratio_interval) {
        let between = text::interval(Some(interval), text::factor).unwrap_or_default();
        return format!("{} ({between})", text::factor(ratio));
    }
    let show = |value: f64| format!("{value:+.3}");
    let between = text::interval(change.difference_interval, show).unwrap_or_default();
    format!("{} ({between})", text::maybe(change.difference, show))
}

fn recovery(report: &Report) -> String {
    match &report.recovery {
        Some(recovery) => match (recovery.state, recovery.within_seconds) {
            (RecoveryState::Recovered, Some(within)) => text::seconds(within),
            (RecoveryState::NotRecovered, _) => "not recovered".to_owned(),
            _ => "unknown".to_owned(),
        },
        None => "-".to_owned(),
    }
}

fn aligned<const N: usize>(rows: Vec<[String; N]>) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut table = String::new();
    for row in &rows {
        table.push('\n');
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(table, "{cell:width$}  ");
        }
        table.truncate(table.trim_end().len());
    }
    table
}

const fn outcome_word(outcome: LineOutcome) -> &'static str {
    match outcome {
        LineOutcome::Pass => "pass",
        LineOutcome::Broken => "broken",
        LineOutcome::Inconclusive => "inconclusive",
        LineOutcome::NotJudged => "not judged",
    }
}
