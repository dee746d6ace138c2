//! The report as one picture: for a README, a slide, a chat.

use super::html::charts::{self, Panel};
use super::html::{CHARTS, COLOURS, PATTERNS};
use super::markdown::{change_cells, detection_words, moved, recovery_words};
use super::svg::{Canvas, escape};
use super::{Report, text};
use crate::summary::degradation::Finding;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 28.0;

/// What the picture adds to the look of charts.
const STYLE: &str = "svg .card{fill:var(--card);stroke:var(--rule)}\
svg .h1{font-size:22px;font-weight:700}svg .lead{font-size:13px;fill:var(--soft)}svg .says{font-size:14px}\
svg .word{font-size:14px;font-weight:700;fill:var(--card)}\
svg .pass{fill:var(--pass)}svg .broken{fill:var(--broken)}svg .inconclusive{fill:var(--inconclusive)}\
svg .aborted{fill:var(--aborted)}svg .invalid{fill:var(--invalid)}\
svg .name{font-size:12px;fill:var(--soft)}svg .big{font-size:21px;font-weight:650}\
svg .big.worse{fill:var(--flt)}svg .big.better{fill:var(--rec)}";

/// Renders the picture: verdict, key figures, the run over time, and percentiles.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut canvas = Canvas::default();
    let inner = WIDTH - 2.0 * MARGIN;
    canvas.text("h1 start", (MARGIN, 50.0), report.name());
    let word = report.verdict.kind.word();
    let pill = 26.0 + word.len() as f64 * 8.2;
    canvas.rounded(word, (WIDTH - MARGIN - pill, 30.0), (pill, 28.0), 14.0);
    canvas.text("word middle", (WIDTH - MARGIN - pill / 2.0, 49.0), word);
    let lead = report.scenario.spec.description.as_deref().unwrap_or_default();
    canvas.text("lead start", (MARGIN, 72.0), lead);
    let mut y = 104.0;
    canvas.text("says start", (MARGIN, y), &format!("{}.", report.verdict.headline));
    for reason in report.verdict.reasons.iter().take(2) {
        y += 20.0;
        canvas.text("lead start", (MARGIN, y), &shorten(reason, 135));
    }
    y += 34.0;
    y = figures(&mut canvas, report, y, inner);

    let (timeline, height) =
        charts::timeline(report, inner, 96.0, &[Panel::Ttft, Panel::Gaps, Panel::Good, Panel::Failures]);
    place(&mut canvas, (MARGIN, y), &timeline.into_body());
    y += height + 22.0;
    for sentence in [detection_words(report), recovery_words(report)] {
        canvas.text("lead start", (MARGIN, y), &shorten(&sentence, 135));
        y += 19.0;
    }
    y += 17.0;
    let third = (inner - 40.0) / 3.0;
    let mut x = MARGIN;
    for (metric, title) in
        [("ttft", "Time to first token"), ("itl", "Gap between tokens"), ("e2e", "Whole answer")]
    {
        if let Some(curves) = charts::curves(&report.curves, metric, third, 210.0) {
            canvas.text("panel start", (x, y), title);
            place(&mut canvas, (x, y + 6.0), &curves.into_body());
            x += third + 20.0;
        }
    }
    y += if x > MARGIN { 226.0 } else { 0.0 };
    let title = format!("{}: {}", report.name(), word);
    let desc = format!("{}. {}", report.verdict.headline, report.verdict.reasons.join(". "));
    let card = format!(
        r#"<style>{COLOURS}{CHARTS}{STYLE}</style>{PATTERNS}<rect class="card" x=".5" y=".5" width="{:.0}" height="{:.0}" rx="12"/>"#,
        WIDTH - 1.0,
        y - 1.0
    );
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0}" height="{y:.0}" viewBox="0 0 {WIDTH:.0} {y:.0}" role="img" aria-labelledby="t d"><title id="t">{}</title><desc id="d">{}</desc>{card}"#,
        escape(&title),
        escape(&desc)
    );
    svg.push_str(&canvas.into_body());
    svg.push_str("</svg>\n");
    svg
}

/// The key figures in a row; gives where they end.
fn figures(canvas: &mut Canvas, report: &Report, y: f64, width: f64) -> f64 {
    let mut shown: Vec<(String, String, String, &str)> = Vec::new();
    for metric in ["ttft p95", "itl p99", "error rate", "goodput"] {
        let Some(change) = report.changes.iter().find(|change| change.metric == metric) else { continue };
        let [before, after, ..] = change_cells(change);
        let class = match change.finding {
            Finding::Worse => "worse",
            Finding::Better if !change.bursts => "better",
            Finding::Better | Finding::Same | Finding::Unknown => "",
        };
        let ratio = moved(change).map_or(String::new(), |moved| format!(", {moved}"));
        shown.push((metric.to_owned(), after, format!("baseline {before}{ratio}"), class));
    }
    if let Some(recovery) = &report.recovery {
        let within = recovery.in_short().unwrap_or_else(|| text::NOTHING.to_owned());
        shown.push(("recovery".to_owned(), within, "after the faults ended".to_owned(), "better"));
    }
    if shown.is_empty() {
        return y;
    }
    let step = width / shown.len() as f64;
    for (i, (name, big, small, class)) in shown.iter().enumerate() {
        let x = MARGIN + i as f64 * step;
        canvas.text("name start", (x, y), name);
        canvas.text(&format!("big start {class}"), (x, y + 25.0), big);
        canvas.text("name start", (x, y + 43.0), small);
    }
    y + 66.0
}

fn place(canvas: &mut Canvas, (x, y): (f64, f64), body: &str) {
    let mut markup = String::new();
    // Writing to a string cannot fail.
    let _ = write!(markup, r#"<g transform="translate({x:.1} {y:.1})">{body}</g>"#);
    canvas.raw(&markup);
}

/// At most `most` characters, cut between words.
fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most).collect();
    short.truncate(short.rfind(' ').unwrap_or(short.len()));
    short + " …"
}
