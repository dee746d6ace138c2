//! The sections of the page, from the verdict down to the definitions.

use super::charts::{self, Forest, PANELS};
use crate::report::markdown::{
    bursts, change_cells, client_words, detection_words, fault_cells, finding_words, line_cells, moved,
    outcome_words, phase_rows, recovery_words, unit_of,
};
use crate::report::{Report, many, text};
use crate::sla::LineOutcome;
use crate::summary::degradation::{Change, Finding};
use crate::summary::phase::PhaseSummary;
use crate::summary::recovery::RecoveryState;
use crate::verdict::VerdictKind;
use maud::{Markup, PreEscaped, html};

pub(super) fn header(report: &Report) -> Markup {
    let spec = &report.scenario.spec;
    html! {
        header {
            p.eyebrow { "Brownout report" }
            h1 { (report.name()) }
            @if let Some(description) = &spec.description { p.lead { (description) } }
            dl.facts {
                div { dt { "Target" } dd { (report.meta.target) } }
                div { dt { "Started" } dd { (report.meta.started) } }
                div { dt { "Length" } dd { (text::seconds(report.duration)) } }
                div { dt { "Seed" } dd { (report.seed) } }
                @if let Some(owner) = &spec.owner { div { dt { "Owner" } dd { (owner) } } }
            }
        }
    }
}

const fn verdict_sign(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Pass => "✓",
        VerdictKind::Broken => "✕",
        VerdictKind::Invalid => "⊘",
        VerdictKind::Inconclusive => "?",
        VerdictKind::Aborted => "■",
    }
}

pub(super) fn verdict(report: &Report) -> Markup {
    let verdict = &report.verdict;
    html! {
        section class={ "verdict " (verdict.kind.word()) } aria-label="Verdict" {
            div.sign aria-hidden="true" { (verdict_sign(verdict.kind)) }
            div.says {
                p.word { (verdict.kind.word()) }
                h2 { (verdict.headline) "." }
                ul { @for reason in &verdict.reasons { li { (prose(reason)) } } }
                @if let Some(certifies) = report.scenario.spec.certifies.as_ref().filter(|_| verdict.kind == VerdictKind::Pass) {
                    p.certifies { "A pass says: " (certifies) "." }
                }
            }
            p.exit { "exit code " b { (verdict.exit_code) } }
        }
    }
}

/// The few numbers that people look for first.
pub(super) fn key_figures(report: &Report) -> Markup {
    let find = |metric: &str| report.changes.iter().find(|change| change.metric == metric);
    let first = |metrics: &[&str]| {
        let known = |change: &&Change| change.before.is_some() && change.after.is_some();
        metrics.iter().find_map(|metric| find(metric).filter(known)).or_else(|| find(metrics[0]))
    };
    let figures = [
        ("Time to first token", first(&["ttft p95", "ttft p50"])),
        ("Gap between tokens", first(&["itl p99", "itl p95", "itl p50"])),
        ("Failed requests", find("error rate")),
        ("Good requests", find("goodput")),
    ];
    html! {
        @if !report.changes.is_empty() {
            section.tiles aria-label="Key figures" {
                @for (name, change) in figures {
                    @if let Some(change) = change { (tile(name, change)) }
                }
                @if let Some(recovery) = &report.recovery {
                    div class={ "tile " (match recovery.state {
                        RecoveryState::Recovered => "better", RecoveryState::NotRecovered => "worse", RecoveryState::Unknown => "same" }) } {
                        p.name { "Recovery" }
                        p.big { (recovery.in_short().unwrap_or_else(|| text::NOTHING.to_owned())) }
                        p.small { (match recovery.state {
                            RecoveryState::Recovered => "after the faults ended",
                            RecoveryState::NotRecovered => "not recovered while watched",
                            RecoveryState::Unknown => "cannot be said" }) }
                    }
                }
            }
        }
    }
}

fn tile(name: &str, change: &Change) -> Markup {
    let show = |value: f64| text::value(value, unit_of(&change.metric));
    html! {
        div class={ "tile " (finding_class(change)) } {
            p.name { (name) " " span.stat { (change.metric.split(' ').next_back().filter(|s| s.starts_with('p')).unwrap_or("")) } }
            p.big { (text::maybe(change.after, show)) }
            p.small {
                "baseline " (text::maybe(change.before, show))
                @if let Some(moved) = moved(change) { ", " (moved) }
            }
        }
    }
}

const fn finding_class(change: &Change) -> &'static str {
    match change.finding {
        Finding::Worse => "worse",
        Finding::Better if change.bursts => "same",
        Finding::Better => "better",
        Finding::Same => "same",
        Finding::Unknown => "unknown",
    }
}

const fn outcome_class(outcome: LineOutcome) -> (&'static str, &'static str) {
    match outcome {
        LineOutcome::Pass => ("pass", "✓"),
        LineOutcome::Broken => ("broken", "✕"),
        LineOutcome::Inconclusive => ("inconclusive", "?"),
        LineOutcome::NotJudged => ("skipped", "–"),
    }
}

pub(super) fn sla(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Service-level agreement" }
            @if report.sla.is_empty() { p { "The scenario demands nothing." } } @else {
                div.scroll tabindex="0" role="region" aria-label="SLA lines" {
                    table {
                        thead { tr { th { "Line" } th { "Outcome" } th.num { "Measured" } th.num { "95 % bounds" } th { "Why" } } }
                        tbody {
                            @for line in &report.sla {
                                @let (class, sign) = outcome_class(line.outcome);
                                @let (measured, bounds) = line_cells(line);
                                tr {
                                    th scope="row" { code { (line.line) } }
                                    td { span class={ "pill " (class) } { span aria-hidden="true" { (sign) } " " (outcome_words(line)) } }
                                    td.num { (measured) }
                                    td.num { (bounds) }
                                    td.why { (prose(&line.reason)) }
                                }
                            }
                        }
                    }
                }
                p.note { "Bounds are one-sided: each alone holds with 95 % confidence. A line passes when even the unkind bound keeps it, and is broken when even the kind one does not." }
            }
        }
    }
}

pub(super) fn timeline(report: &Report) -> Markup {
    let draw = |id: &str, class: &str, width: f64, panel: f64| {
        let (canvas, height) = charts::timeline(report, width, panel, &PANELS);
        let desc = format!(
            "Five charts over {} with the phases and fault windows marked: time to first token, gap between tokens, tokens a second, share of good requests, failed requests. {} {}",
            text::seconds(report.duration),
            detection_words(report),
            recovery_words(report)
        );
        canvas.finish(id, class, (width, height), "The run over time", &desc)
    };
    html! {
        section {
            h2 { "Over time" }
            @if report.timeline.bins.is_empty() { p { "Nothing was recorded." } } @else {
                p { (detection_words(report)) " " (recovery_words(report)) }
                figure {
                    (PreEscaped(draw("tw", "chart wide", 1000.0, 92.0)))
                    (PreEscaped(draw("tn", "chart narrow", 360.0, 84.0)))
                    figcaption { "Bins of " (text::seconds(report.timeline.bin_seconds)) ". Shaded: a fault could fire. Latencies stand where their requests were scheduled, failures where they ended." }
                }
            }
        }
    }
}

pub(super) fn degradation(report: &Report) -> Markup {
    let forest = Forest::of(&report.changes);
    html! {
        @if !report.changes.is_empty() {
            section {
                h2 { "What the faults changed" }
                div.scroll tabindex="0" role="region" aria-label="Degradation against the baseline" {
                    table {
                        thead { tr { th { "Metric" } th.num { "Baseline" } th.num { "With faults" } th.num { "Ratio" } th { span.hush { "less" } " · " span.hush { "more" } } th.num { "Difference" } th { "Finding" } } }
                        tbody {
                            @for change in &report.changes {
                                @let [before, after, ratio, difference] = change_cells(change);
                                @let class = finding_class(change);
                                tr {
                                    th scope="row" { (change.metric) }
                                    td.num { (before) }
                                    td.num { (after) }
                                    td.num { (split(&ratio)) }
                                    td.forest { @if let Some(ratio) = change.ratio { (PreEscaped(forest.mark(ratio, change.ratio_interval, class))) } }
                                    td.num { (split(&difference)) }
                                    td { span class={ "finding " (class) } { (finding_words(change)) } }
                                }
                            }
                        }
                    }
                }
                p.note { "Intervals are 95 %, by resampling whole blocks of requests. Worse and better are said only of changes that stay beyond doubt when all rows are asked at once, and that matter: 5 % of the value, or half a percentage point of a share." }
                @if let Some(bursts) = bursts(report) { p.note { (bursts) } }
                @if report.shifts.iter().any(|shift| shift.hodges_lehmann.is_some()) {
                    p.note { "As a whole, "
                        @for (i, shift) in report.shifts.iter().filter(|s| s.hodges_lehmann.is_some()).enumerate() {
                            @if i > 0 { "; " }
                            (shift.metric) " moved by " (text::maybe(shift.hodges_lehmann, text::seconds)) " (Cliff's delta " (text::maybe(shift.cliffs_delta, text::number)) ")"
                        } "."
                    }
                }
            }
        }
    }
}

/// A value with its interval in a second, quieter line.
fn split(cell: &str) -> Markup {
    match cell.split_once(" (") {
        Some((value, interval)) => html! { (value) span.interval { (interval.trim_end_matches(')')) } },
        None => html! { (cell) },
    }
}

pub(super) fn curves(report: &Report) -> Markup {
    let metrics = [("ttft", "Time to first token"), ("itl", "Gap between tokens"), ("e2e", "Whole answer")];
    let drawn: Vec<(String, &str)> = metrics
        .into_iter()
        .filter_map(|(metric, title)| {
            let canvas = charts::curves(&report.curves, metric, 360.0, 250.0)?;
            let desc =
                format!("{title} over percentiles: one line a phase. The table of phases has the numbers.");
            Some((canvas.finish(&format!("c-{metric}"), "chart", (360.0, 250.0), title, &desc), title))
        })
        .collect();
    html! {
        @if !drawn.is_empty() {
            section {
                h2 { "Percentiles" }
                div.grid {
                    @for (svg, title) in &drawn {
                        figure { h3 { (title) } (PreEscaped(svg)) }
                    }
                }
                p.note { "Each line ends where the samples do: a percentile needs enough requests beyond it. Where values differ widely, the vertical axis is logarithmic." }
            }
        }
    }
}

pub(super) fn faults(report: &Report) -> Markup {
    html! {
        @if !report.faults.is_empty() {
            section {
                h2 { "What fired" }
                div.scroll tabindex="0" role="region" aria-label="What each fault did" {
                    table {
                        thead { tr { th { "Fault" } th { "Kind" } th.num { "Eligible" } th.num { "Chosen" } th.num { "Did something" } th.num { "Asked share" } th.num { "Given share" } th.num { "Delay, asked / given" } } }
                        tbody {
                            @for fault in &many::rows(report) {
                                @let [eligible, chosen, fired, asked, share, delay] = fault_cells(fault);
                                tr {
                                    th scope="row" { (fault.fault) }
                                    td { (fault.kind) }
                                    td.num { (eligible) }
                                    td.num { (chosen) }
                                    td.num { (fired) }
                                    td.num { (asked) }
                                    td.num { (split(&share)) }
                                    td.num { @match delay.split_once(", off") { Some((mean, off)) => { (mean) span.interval { "off" (off) } } None => { (delay) } } }
                                }
                            }
                        }
                    }
                }
                @for note in many::notes(report) { p.note { (note) } }
                @let (odd, more) = many::odd(report);
                @for fault in odd {
                    p.odd { code { (fault.fault) } ": " (fault.odd.join("; ")) "." }
                }
                @if more > 0 { p.odd { "So are " (text::count(more as u64)) " more faults; report.json has each." } }
                @for fault in many::one_of_each_kind(report).into_iter().filter(|f| !f.certifies.is_empty() || !f.does_not_certify.is_empty()) {
                    p.note { b { (fault.kind) } " (" (fault.layer.replace('-', " ")) "). "
                        @if !fault.certifies.is_empty() { "Certifies: " (sentence(&fault.certifies)) " " }
                        @if !fault.does_not_certify.is_empty() { "Limits: " (sentence(&fault.does_not_certify)) }
                    }
                }
            }
        }
    }
}

/// Prose in which names stand between backticks.
fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! { @for (i, part) in parts.iter().enumerate() { @if i % 2 == 1 { code { (part) } } @else { (part) } } }
}

fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

pub(super) fn outcomes(report: &Report) -> Markup {
    html! {
        section {
            h2 { "How requests ended" }
            @if report.phases.is_empty() { p { "No request was sent." } }
            @for phase in report.phases.iter().filter(|phase| phase.requests > 0) { (outcome_bar(phase)) }
        }
    }
}

fn outcome_bar(phase: &PhaseSummary) -> Markup {
    let total = phase.requests as f64;
    let segments = phase.outcomes.iter().flat_map(|outcome| {
        let (organic, injected) = match outcome.outcome.as_str() {
            "ok" => ("ok", "ok"),
            "client_cancelled" | "run_ended" => ("none", "none"),
            _ => ("organic", "injected"),
        };
        [(organic, outcome.organic), (injected, outcome.injected)]
    });
    let words = |injected: u64, organic: u64, name: &str| match (name, injected, organic) {
        ("ok", 0, n) => format!("{} ok", text::count(n)),
        ("ok", touched, n) => {
            format!("{} ok ({} with a fault)", text::count(n + touched), text::count(touched))
        }
        (name, 0, n) => format!("{} {name} by the system", text::count(n)),
        (name, n, 0) => format!("{} {name} by a fault", text::count(n)),
        (name, injected, organic) => {
            format!("{} {name} by a fault, {} by the system", text::count(injected), text::count(organic))
        }
    };
    html! {
        div.ends {
            h3 { (phase.phase) span.hush { " " (text::plural(phase.requests, "request")) } }
            div.bar aria-hidden="true" {
                @for (class, n) in segments.filter(|(_, n)| *n > 0) {
                    span class={ "part " (class) } style={ "width:" (format!("{:.3}%", n as f64 / total * 100.0)) } {}
                }
            }
            p.small {
                @for (i, outcome) in phase.outcomes.iter().enumerate() {
                    @if i > 0 { " · " }
                    (words(outcome.injected, outcome.organic, &outcome.outcome))
                }
            }
            @for outcome in &phase.outcomes {
                @if let Some(said) = &outcome.said {
                    p.small { (outcome.outcome) ", most often: " q { (said) } }
                }
            }
        }
    }
}

pub(super) fn phases(report: &Report) -> Markup {
    html! {
        @if !report.phases.is_empty() {
            section {
                h2 { "Phases in numbers" }
                div.scroll tabindex="0" role="region" aria-label="Numbers of each phase" {
                    table {
                        thead { tr { th { "Metric" } @for phase in &report.phases { th.num { (phase.phase) } } } }
                        tbody {
                            @for (name, cells) in phase_rows(&report.phases) {
                                tr { th scope="row" { (name) } @for cell in &cells { td.num { (split(cell)) } } }
                            }
                        }
                    }
                }
                p.note { "95 % intervals. A dash stands where there are too few samples: a 99th percentile needs 299 requests. A good request is: " (report.good_request) "." }
            }
        }
    }
}

pub(super) fn client(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Was the client fit to measure?" }
            @let odd = !(report.client_findings.is_empty() && report.client_lateness.is_empty());
            p class=[odd.then_some("odd")] { (client_words(report)) }
        }
    }
}

/// At most this many of the server's own metrics are shown; `report.json` has all.
const MOST_SERVER_METRICS: usize = 40;

pub(super) fn server(report: &Report) -> Markup {
    let Some(server) = report.meta.server.as_ref().filter(|server| !server.after.is_empty()) else {
        return html! {};
    };
    let moved: Vec<(&String, Option<f64>, f64)> = server
        .after
        .iter()
        .map(|(name, after)| (name, server.before.get(name).copied(), *after))
        .filter(|(_, before, after)| *before != Some(*after))
        .collect();
    html! {
        section {
            h2 { "The server's own metrics" }
            @if moved.is_empty() { p { "None of them moved." } } @else {
                div.scroll tabindex="0" role="region" aria-label="The server's own metrics" {
                    table {
                        thead { tr { th { "Metric" } th.num { "Before" } th.num { "After" } } }
                        tbody {
                            @for (name, before, after) in moved.iter().take(MOST_SERVER_METRICS) {
                                tr { th scope="row" { code { (name) } } td.num { (text::maybe(*before, text::number)) } td.num { (text::number(*after)) } }
                            }
                        }
                    }
                }
                @if moved.len() > MOST_SERVER_METRICS {
                    p.note { (moved.len() - MOST_SERVER_METRICS) " more are in report.json." }
                }
            }
        }
    }
}

pub(super) fn definitions(report: &Report) -> Markup {
    let seconds = report.recovery.as_ref().map(|recovery| text::seconds(recovery.window_seconds));
    let terms = [
        (
            "TTFT",
            "Time to first token, from the moment at which the request should have been sent (so a client that sends late hides nothing) to the first event with content, reasoning or a tool call.",
        ),
        ("TTFO", "Time to first output: as TTFT, but to the first token that is no reasoning."),
        (
            "ITL, gap",
            "Time between two tokens of one answer; complete answers only, since a cut one would make the rest look good.",
        ),
        ("TPOT", "Time per output token: (last - first token) / (tokens - 1)."),
        ("E2E", "From the scheduled send to the last token; complete answers only."),
        (
            "Good request",
            "Complete, and within every latency line of the SLA. Goodput counts them per second.",
        ),
        ("Stall", "A gap over three times the median gap: the baseline's, where there is one."),
        (
            "By a fault, by the system",
            "A failure counts as made by a fault when a fault had fired on that very request, by the journal or by the mark on the answer.",
        ),
        (
            "Interval",
            "Percentiles: order statistics. Means: batch means. Shares: Wilson. Gaps and all comparisons: circular block bootstrap, whole requests in time order, seeded.",
        ),
    ];
    html! {
        section {
            h2 { "How to read this" }
            dl.terms {
                @for (term, meaning) in terms { div { dt { (term) } dd { (meaning) } } }
                @if let Some(seconds) = seconds {
                    div { dt { "Recovery" } dd { "The first window of " (seconds) " after the faults ended whose share of good requests is compatible with the baseline's, and that two more such windows follow." } }
                }
            }
        }
    }
}
