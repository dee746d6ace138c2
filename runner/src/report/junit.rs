//! The report for pipelines: JUnit XML, one test case a line of the SLA, one a fault, one for the run itself.
//!
//! A broken line is a failure, a line without enough evidence an error: neither lets a pipeline pass.

use super::{Report, text};
use crate::sla::LineOutcome;
use crate::verdict::VerdictKind;
use std::fmt::Write;

struct Case {
    class: &'static str,
    name: String,
    result: Outcome,
    output: String,
}

enum Outcome {
    Pass,
    Failure(String),
    Error(String),
    Skipped(String),
}

/// Renders the report.
#[must_use]
pub fn render(report: &Report) -> String {
    let cases = cases(report);
    let count = |is: fn(&Outcome) -> bool| cases.iter().filter(|case| is(&case.result)).count();
    let failures = count(|result| matches!(result, Outcome::Failure(_)));
    let errors = count(|result| matches!(result, Outcome::Error(_)));
    let skipped = count(|result| matches!(result, Outcome::Skipped(_)));
    let (name, tests, time) = (escape(report.name()), cases.len(), report.duration);
    let totals = format!(
        r#"tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}" time="{time:.3}""#
    );
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"brownout\" {totals}>\n  \
         <testsuite name=\"{name}\" {totals} timestamp=\"{}\">\n",
        escape(&report.meta.started)
    );
    for case in &cases {
        // Writing to a string cannot fail.
        let _ = case.write(&mut xml);
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

fn cases(report: &Report) -> Vec<Case> {
    let verdict = &report.verdict;
    let reasons = verdict.reasons.join("\n");
    // The lines carry what they say themselves; the run fails only for what no line stands for.
    let run = match verdict.kind {
        VerdictKind::Pass | VerdictKind::Broken => Outcome::Pass,
        VerdictKind::Aborted => Outcome::Failure(verdict.headline.clone()),
        VerdictKind::Invalid | VerdictKind::Inconclusive => Outcome::Error(verdict.headline.clone()),
    };
    let mut cases = vec![Case {
        class: "run",
        name: format!("verdict: {}", verdict.kind.word()),
        result: run,
        output: reasons,
    }];
    cases.extend(report.sla.iter().map(|line| Case {
        class: "sla",
        name: line.line.clone(),
        result: match line.outcome {
            LineOutcome::Pass => Outcome::Pass,
            LineOutcome::Broken => Outcome::Failure(line.reason.clone()),
            LineOutcome::Inconclusive => Outcome::Error(line.reason.clone()),
            LineOutcome::NotJudged => Outcome::Skipped(line.reason.clone()),
        },
        output: line.reason.clone(),
    }));
    cases.extend(report.faults.iter().map(|fault| Case {
        class: "fault",
        name: format!("{} ({}) took effect", fault.fault, fault.kind),
        result: if fault.fired == 0 { Outcome::Error(fault.odd.join("; ")) } else { Outcome::Pass },
        output: format!("fired on {}", text::plural(fault.fired, "request")),
    }));
    cases
}

impl Case {
    fn write(&self, xml: &mut String) -> std::fmt::Result {
        writeln!(xml, r#"    <testcase classname="{}" name="{}">"#, self.class, escape(&self.name))?;
        match &self.result {
            Outcome::Pass => {}
            Outcome::Failure(why) => writeln!(xml, r#"      <failure message="{}"/>"#, escape(why))?,
            Outcome::Error(why) => writeln!(xml, r#"      <error message="{}"/>"#, escape(why))?,
            Outcome::Skipped(why) => writeln!(xml, r#"      <skipped message="{}"/>"#, escape(why))?,
        }
        if !self.output.is_empty() {
            writeln!(xml, "      <system-out>{}</system-out>", escape(&self.output))?;
        }
        writeln!(xml, "    </testcase>")
    }
}

/// Escapes text for attributes and content, and leaves out what XML 1.0 cannot hold.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push(' '),
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_breaks_out_of_xml() {
        assert_eq!(super::escape("a<b & \"c\"\u{1}\n>"), "a&lt;b &amp; &quot;c&quot;&#10;&gt;");
    }
}
