//! The report as one page that carries all it needs: no scripts, no fonts, nothing to load.

pub(super) mod charts;
mod sections;

use super::Report;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Colours and the look of charts, shared with pictures that stand alone.
pub(super) const COLOURS: &str = include_str!("colours.css");
/// The look of charts.
pub(super) const CHARTS: &str = include_str!("charts.css");
const PAGE: &str = include_str!("page.css");

/// The stripes of what a fault did: told apart without colour too.
pub(super) const PATTERNS: &str = r#"<defs><pattern id="stripes" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="stripe-back" width="5" height="5"/><rect class="stripe" width="2" height="5"/></pattern></defs>"#;

/// Renders the report.
#[must_use]
pub fn render(report: &Report) -> String {
    page(report).into_string()
}

fn page(report: &Report) -> Markup {
    let title = format!("{}: {}", report.name(), report.verdict.kind.word());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "Brownout " (report.meta.brownout_version) };
                title { (title) }
                style { (PreEscaped(COLOURS)) (PreEscaped(CHARTS)) (PreEscaped(PAGE)) }
            }
            body {
                svg class="defs" width="0" height="0" aria-hidden="true" { (PreEscaped(PATTERNS)) }
                main {
                    (sections::header(report))
                    (sections::verdict(report))
                    (sections::key_figures(report))
                    (sections::sla(report))
                    (sections::timeline(report))
                    (sections::degradation(report))
                    (sections::curves(report))
                    (sections::faults(report))
                    (sections::outcomes(report))
                    (sections::phases(report))
                    (sections::client(report))
                    (sections::server(report))
                    (sections::definitions(report))
                }
                footer { "Made by Brownout " (report.meta.brownout_version) ", report version " (report.report_version) "." }
            }
        }
    }
}
