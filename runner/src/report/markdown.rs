//! The report as Markdown: for a pull request, a ticket, a chat.

use super::{Mode, Report, many, text};
use crate::sla::{LineOutcome, LineResult};
use crate::summary::degradation::{Change, Finding};
use crate::summary::phase::PhaseSummary;
use crate::summary::recovery::RecoveryState;
use crate::summary::{FEW_IN_BURSTS, Unit};
use std::fmt::Write;

/// Renders the report.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut md = String::new();
    // Writing to a string cannot fail.
    let _ = write(report, &mut md);
    md
}

fn write(report: &Report, md: &mut String) -> std::fmt::Result {
    let verdict = &report.verdict;
    writeln!(md, "# {}: {}\n", escape(report.name()), verdict.kind.word())?;
    writeln!(md, "**{}.** Exit code {}.\n", escape(&verdict.headline), verdict.exit_code)?;
    for reason in &verdict.reasons {
        writeln!(md, "- {}", escape(reason))?;
    }
    writeln!(
        md,
        "\nTarget {}, started {}, {} long, seed {}, Brownout {}.",
        escape(&report.meta.target),
        escape(&report.meta.started),
        text::seconds(report.duration),
        report.seed,
        escape(&report.meta.brownout_version)
    )?;
    if let Some(why) = &report.cut_short {
        writeln!(md, "\nThe run was cut short: {}.", escape(why))?;
    }
    if !report.sla.is_empty() {
        writeln!(
            md,
            "\n## SLA\n\n| line | outcome | measured | 95 % bounds (one-sided) |\n|---|---|---|---|"
        )?;
        for line in &report.sla {
            let (measured, bounds) = line_cells(line);
            writeln!(md, "| {} | {} | {measured} | {bounds} |", cell(&line.line), outcome_words(line))?;
        }
    }
    if !report.changes.is_empty() {
        writeln!(
            md,
            "\n## Degradation\n\n| metric | baseline | with faults | ratio (95 %) | difference (95 %) | finding |\n|---|---|---|---|---|---|"
        )?;
        for change in &report.changes {
            let [before, after, ratio, difference] = change_cells(change);
            writeln!(
                md,
                "| {} | {before} | {after} | {ratio} | {difference} | {} |",
                change.metric,
                finding_words(change)
            )?;
        }
    }
    if let Some(bursts) = bursts(report) {
        writeln!(md, "\n{bursts}")?;
    }
    let (shown, over) = (detection_words(report), recovery_words(report));
    writeln!(md, "\n## Detection and recovery\n\n{}\n\n{}", escape(&shown), escape(&over))?;
    if !report.faults.is_empty() {
        writeln!(
            md,
            "\n## What fired\n\n| fault | kind | eligible | chosen | did something | asked share | given share (95 %) | delay asked / given |\n|---|---|---|---|---|---|---|---|"
        )?;
        for fault in &many::rows(report) {
            let [eligible, chosen, fired, asked, share, delay] = fault_cells(fault);
            writeln!(
                md,
                "| {} | {} | {eligible} | {chosen} | {fired} | {asked} | {share} | {delay} |",
                cell(&fault.fault),
                cell(&fault.kind)
            )?;
        }
        for note in many::notes(report) {
            writeln!(md, "\n{note}")?;
        }
        let (odd, more) = many::odd(report);
        for fault in odd {
            writeln!(md, "\n{}: {}.", code(&fault.fault), escape(&fault.odd.join("; ")))?;
        }
        if more > 0 {
            writeln!(md, "\nSo are {} more faults; report.json has each.", text::count(more as u64))?;
        }
    }
    writeln!(
        md,
        "\n## Phases\n\n| | {} |",
        report.phases.iter().map(|p| p.phase.as_str()).collect::<Vec<_>>().join(" | ")
    )?;
    writeln!(md, "|---|{}", "---|".repeat(report.phases.len()))?;
    for (name, cells) in phase_rows(&report.phases) {
        writeln!(md, "| {name} | {} |", cells.join(" | "))?;
    }
    writeln!(
        md,
        "\n## Outcomes\n\n| phase | outcome | with a fault | with none | said most often |\n|---|---|---|---|---|"
    )?;
    for phase in &report.phases {
        for outcome in &phase.outcomes {
            let (injected, organic) = (text::count(outcome.injected), text::count(outcome.organic));
            let said = outcome.said.as_deref().map_or_else(|| text::NOTHING.to_owned(), cell);
            let name = cell(&outcome.outcome);
            writeln!(md, "| {} | {name} | {injected} | {organic} | {said} |", phase.phase)?;
        }
    }
    writeln!(md, "\n## Client\n\n{}", escape(&client_words(report)))?;
    writeln!(md, "\nA good request is: {}.", escape(&report.good_request))
}

/// Prose made fit for Markdown: what would be read as markup is escaped, what stands between backticks becomes code.
pub(crate) fn escape(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick without its fellow is no code.
    if parts.len().is_multiple_of(2) {
        return plain(text);
    }
    let part = |(i, part): (usize, &&str)| match i % 2 {
        0 => plain(part),
        _ if part.is_empty() => "\\`\\`".to_owned(),
        _ => cell(part),
    };
    parts.iter().enumerate().map(part).collect()
}

fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '[' | ']' | '~' | '`' | '\\' => escaped.extend(['\\', c]),
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A code span: nothing in it is markup, so nothing may be escaped. Backticks in it are kept apart from its ends by
/// longer ends (CommonMark 0.31, 6.1).
pub(crate) fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ends = "`".repeat(longest + 1);
    let room = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ends}{room}{text}{room}{ends}")
}

/// A code span in a table, or in prose that may come to stand in one: there a bar ends the cell even in code (GitHub
/// Flavored Markdown, 4.10).
fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// The word for a line's outcome.
#[must_use]
pub const fn outcome_word(outcome: LineOutcome) -> &'static str {
    match outcome {
        LineOutcome::Pass => "pass",
        LineOutcome::Broken => "broken",
        LineOutcome::Inconclusive => "inconclusive",
        LineOutcome::NotJudged => "not judged",
    }
}

/// What stands beside an outcome or a finding that hangs on bursts of tokens.
const IN_BURSTS: &str = ", tokens in bursts";

/// The outcome of a line, with what has to be known of it.
#[must_use]
pub fn outcome_words(line: &LineResult) -> String {
    format!("{}{}", outcome_word(line.outcome), if line.bursts { IN_BURSTS } else { "" })
}

/// What is said where tokens came in bursts; nothing otherwise.
pub(crate) fn bursts(report: &Report) -> Option<String> {
    let burst = |phase: &PhaseSummary| phase.jitter.coalesced_share.filter(|share| *share > FEW_IN_BURSTS);
    let phases: Vec<String> = report
        .phases
        .iter()
        .filter_map(|phase| burst(phase).map(|share| format!("{}: {}", phase.phase, text::share(share))))
        .collect();
    (!phases.is_empty()).then(|| {
        format!(
            "Tokens came in bursts ({} of the token events came in one read with the one before). ITL is the pause \
             between reads and does not see them; TPOT counts every token, and falls where tokens that were held, or \
             bundled on the way, come at once: that is no better service.",
            phases.join(", ")
        )
    })
}

/// The word for the finding of a change, with what has to be known of it.
pub(crate) fn finding_words(change: &Change) -> String {
    format!("{}{}", finding_word(change.finding), if change.bursts { IN_BURSTS } else { "" })
}

/// The word for a finding.
const fn finding_word(finding: Finding) -> &'static str {
    match finding {
        Finding::Worse => "worse",
        Finding::Better => "better",
        Finding::Same => "no clear change",
        Finding::Unknown => "too few samples",
    }
}

/// Measured value and bounds of a line.
#[must_use]
pub fn line_cells(line: &LineResult) -> (String, String) {
    let show = |value: f64| line.unit.show(value);
    let bounds = text::interval(line.bounds, show).unwrap_or_else(|| text::NOTHING.to_owned());
    (text::maybe(line.measured, |value| text::at_most(line.at_most, show(value))), bounds)
}

/// The unit of a metric that is named as SLA lines name it.
pub(crate) fn unit_of(metric: &str) -> Unit {
    match metric {
        "error rate" | "truncation rate" | "stall rate" => Unit::Share,
        "goodput" | "request rate" => Unit::RequestsPerSecond,
        "throughput" => Unit::TokensPerSecond,
        _ => Unit::Seconds,
    }
}

/// Before, after, ratio with interval, difference with interval.
#[must_use]
pub fn change_cells(change: &Change) -> [String; 4] {
    let unit = unit_of(&change.metric);
    let show = |value: f64| text::value(value, unit);
    let with = |value: String, interval: Option<String>| match interval {
        Some(interval) => format!("{value} ({interval})"),
        None => value,
    };
    let ratio = match (change.ratio, change.before, change.after) {
        (None, Some(before), Some(after)) if before == 0.0 && after > 0.0 => "from nothing".to_owned(),
        (ratio, ..) => {
            with(text::maybe(ratio, text::factor), text::interval(change.ratio_interval, text::factor))
        }
    };
    let differ = |value: f64| text::difference(value, unit);
    let difference = text::maybe(change.difference, differ);
    [
        text::maybe(change.before, show),
        text::maybe(change.after, show),
        ratio,
        with(difference, text::interval(change.difference_interval, differ)),
    ]
}

/// How far a metric moved, in a word or two: the factor, or the difference where there is none.
pub(crate) fn moved(change: &Change) -> Option<String> {
    let difference = |value: f64| text::difference(value, unit_of(&change.metric));
    change.ratio.map(text::factor).or_else(|| change.difference.filter(|d| *d != 0.0).map(difference))
}

/// Eligible, chosen, fired, asked share, given share, delays.
pub(crate) fn fault_cells(fault: &crate::summary::effect::FaultProof) -> [String; 6] {
    let count = |n: Option<u64>| n.map_or_else(|| text::NOTHING.to_owned(), text::count);
    let share = match text::interval(fault.share_interval, text::share) {
        Some(interval) => format!("{} ({interval})", text::maybe(fault.share, text::share)),
        None => text::maybe(fault.share, text::share),
    };
    let millis = |ms: f64| text::seconds(ms / 1e3);
    let delay = fault.delay.as_ref().map_or_else(
        || text::NOTHING.to_owned(),
        |d| {
            format!(
                "{} / {}, off by {} (p99)",
                millis(d.asked_mean_ms),
                millis(d.given_mean_ms),
                millis(d.error_p99_ms)
            )
        },
    );
    [
        count(fault.eligible),
        count(fault.chosen),
        text::count(fault.fired),
        text::maybe(fault.asked_share, text::share),
        share,
        delay,
    ]
}

/// When the damage showed, in a sentence.
pub(crate) fn detection_words(report: &Report) -> String {
    match &report.detection {
        None if report.meta.mode == Mode::Load => "A run of load alone: nothing to detect.".to_owned(),
        None => "Nothing to detect: no fault phase, or no faults.".to_owned(),
        Some(found) => match (&found.metric, found.seconds) {
            (Some(metric), Some(seconds)) => format!(
                "The damage showed in {metric}, within {} of when faults could first act.",
                text::seconds(seconds)
            ),
            _ if found.watched => format!("No damage showed: {}.", found.note),
            _ => format!("When the damage showed cannot be said: {}.", found.note),
        },
    }
}

/// When the damage was over, in a sentence.
pub(crate) fn recovery_words(report: &Report) -> String {
    match &report.recovery {
        None => "Nothing to recover from.".to_owned(),
        Some(recovery) => match (recovery.state, recovery.within_seconds) {
            (RecoveryState::Recovered, Some(within)) => format!(
                "Recovered within {} of the end of the faults{}: {}.",
                text::seconds(within),
                if recovery.at_once() { " (the width of a window, so perhaps at once)" } else { "" },
                recovery.note
            ),
            (RecoveryState::NotRecovered, _) => format!(
                "Not recovered in the {} that were watched: {}.",
                text::seconds(recovery.watched_seconds),
                recovery.note
            ),
            _ => format!("Whether it recovered cannot be said: {}.", recovery.note),
        },
    }
}

/// How the client fared, in a sentence or two.
pub(crate) fn client_words(report: &Report) -> String {
    let client = &report.client;
    let numbers = format!(
        "{} of a core; 99 % of sends at most {} late, of the event loop's turns {}, and the worst of these {}.",
        text::share(client.cpu),
        text::seconds(client.send_lag_p99),
        text::seconds(client.loop_lag_p99),
        text::seconds(client.loop_lag_max)
    );
    match (report.client_findings.is_empty(), report.client_lateness.is_empty()) {
        (true, true) => format!("Fit to measure: {numbers}"),
        (true, false) => format!(
            "Late: {}. Lines that this could have decided are inconclusive, all others stand. {numbers}",
            report.client_lateness.join("; ")
        ),
        (false, _) => format!("Not fit to measure: {}. {numbers}", report.client_findings.join("; ")),
    }
}

/// The numbers of all phases, row by row.
pub(crate) fn phase_rows(phases: &[PhaseSummary]) -> Vec<(String, Vec<String>)> {
    let row = |name: &str, cell: &dyn Fn(&PhaseSummary) -> String| {
        (name.to_owned(), phases.iter().map(cell).collect::<Vec<_>>())
    };
    let estimate = |value: crate::stats::Estimate, unit: Unit| {
        let show = |v: f64| text::value(v, unit);
        match text::interval(value.interval, show) {
            Some(interval) => format!("{} ({interval})", text::maybe(value.value, show)),
            None => text::maybe(value.value, show),
        }
    };
    let mut rows = vec![
        row("duration", &|p| text::seconds((p.end - p.start).max(0.0))),
        row("requests", &|p| text::count(p.requests)),
    ];
    for metric in ["ttft", "itl", "tpot", "e2e"] {
        for (statistic, pick) in [
            ("p50", (|l| l.p50) as fn(&crate::summary::phase::LatencySummary) -> crate::stats::Estimate),
            ("p95", |l| l.p95),
            ("p99", |l| l.p99),
            ("mean", |l| l.mean),
        ] {
            let latency = |p: &PhaseSummary| p.latencies.get(metric).map(pick).unwrap_or_default();
            rows.push(row(&format!("{metric} {statistic}"), &|p| estimate(latency(p), Unit::Seconds)));
        }
    }
    rows.extend([
        row("error rate", &|p| estimate(p.error_rate, Unit::Share)),
        row("truncation rate", &|p| estimate(p.truncation_rate, Unit::Share)),
        row("stall rate", &|p| estimate(p.stall_rate, Unit::Share)),
        row("goodput", &|p| estimate(p.goodput, Unit::RequestsPerSecond)),
        row("good requests", &|p| estimate(p.good_share, Unit::Share)),
        row("throughput", &|p| estimate(p.throughput, Unit::TokensPerSecond)),
        row("request rate", &|p| estimate(p.request_rate, Unit::RequestsPerSecond)),
        row("change from gap to gap", &|p| text::maybe(p.jitter.mean_change, text::seconds)),
        row("gap p99 - p50", &|p| text::maybe(p.jitter.spread, text::seconds)),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_left_as_it_is_and_prose_is_not_read_as_markup() {
        assert_eq!(cell("ttft p99 < 800ms"), "`ttft p99 < 800ms`");
        assert_eq!(cell("a|b"), "`a\\|b`");
        assert_eq!(code("a|b & `c`"), "`` a|b & `c` ``");
        assert_eq!(escape("1 < 2 & *x*|_y_"), "1 &lt; 2 &amp; \\*x\\*\\|\\_y\\_");
        assert_eq!(escape("fault `a_b` was `x < 1`"), "fault `a_b` was `x < 1`");
        assert_eq!(escape("one ` alone_"), "one \\` alone\\_");
    }
}
