//! Two runs side by side: the same phases, the same metrics, and whether they really differ.

use crate::record::RequestRecord;
use crate::report::files::{read_report, read_requests};
use crate::report::markdown::{change_cells, code, escape, finding_words};
use crate::report::{Prepared, Report, ReportError, text};
use crate::summary::degradation::{Change, changes};
use crate::verdict::VerdictKind;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Two runs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The run that is compared with.
    pub before: RunName,
    /// The run that is compared.
    pub after: RunName,
    /// What makes the two hard to compare, in words.
    pub notes: Vec<String>,
    /// The phases that both have.
    pub phases: Vec<PhaseComparison>,
}

/// How a run is called in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunName {
    /// Its directory.
    pub directory: String,
    /// Its scenario.
    pub scenario: String,
    /// Its verdict.
    pub verdict: String,
}

/// One phase of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseComparison {
    /// The phase.
    pub phase: String,
    /// Its metrics, before and after.
    pub changes: Vec<Change>,
}

/// Compares the run in `after` with the one in `before`, from their reports and their requests.
///
/// # Errors
/// When a file of either cannot be read, or either report is of another version than this program's.
pub fn compare(before: &Path, after: &Path) -> Result<Comparison, ReportError> {
    let (old, new) = (read_report(before)?, read_report(after)?);
    let (old_requests, new_requests) = (read_requests(before, &old)?, read_requests(after, &new)?);
    Ok(Comparison {
        before: name(before, &old),
        after: name(after, &new),
        notes: notes(&old, &new),
        phases: phases((&old, &old_requests), (&new, &new_requests)),
    })
}

fn name(directory: &Path, report: &Report) -> RunName {
    RunName {
        directory: directory.display().to_string(),
        scenario: report.name().to_owned(),
        verdict: report.verdict.kind.word().to_owned(),
    }
}

fn phases(
    (old, old_requests): (&Report, &[RequestRecord]),
    (new, new_requests): (&Report, &[RequestRecord]),
) -> Vec<PhaseComparison> {
    let prepare = |report: &Report, requests, seed| {
        Prepared::new(&report.scenario, &report.phase_spans, requests, report.meta.mode, seed)
    };
    let (before_mode, after_mode) = (old.meta.mode, new.meta.mode);
    // Each by a seed of its own data: runs of one seed would else be resampled in step and seem more alike than they
    // are, and a run has to be resampled alike on whichever side it stands, or the two ways round would disagree.
    let old = prepare(old, old_requests, fingerprint(old, old_requests));
    let new = prepare(new, new_requests, fingerprint(new, new_requests));
    old.phases
        .iter()
        .filter(|phase| !phase.requests.is_empty())
        .filter_map(|before| {
            let same = |phase: &&crate::summary::data::PhaseData<'_>| phase.phase == before.phase;
            let after = new.phases.iter().find(same).filter(|phase| !phase.requests.is_empty())?;
            let [was, is] = [before_mode, after_mode].map(|mode| mode.phase_name(before.phase));
            let phase = if was == is { was.to_owned() } else { format!("{was} / {is}") };
            Some(PhaseComparison { phase, changes: changes(before, after) })
        })
        .collect()
}

/// A number that two runs hardly share (FNV-1a, over when each request began and ended).
fn fingerprint(report: &Report, requests: &[RequestRecord]) -> u64 {
    let times = requests.iter().flat_map(|request| [request.sent.to_bits(), request.ended.to_bits()]);
    let bytes = std::iter::once(report.seed).chain(times).flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Lengths of a phase that are further apart than this share are worth a note.
const LENGTHS_DIFFER: f64 = 0.05;

fn lengths(old: &Report, new: &Report) -> Vec<String> {
    let old_phases = old.shown_phases().into_iter();
    old_phases
        .filter_map(|(name, start, end)| {
            let (_, other_start, other_end) =
                new.shown_phases().into_iter().find(|(other, ..)| *other == name)?;
            let (was, is) = (end - start, other_end - other_start);
            ((was - is).abs() > LENGTHS_DIFFER * was.max(is)).then(|| {
                format!("the {name} phase was {} long and {}", text::seconds(was), text::seconds(is))
            })
        })
        .collect()
}

fn notes(old: &Report, new: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let mut differ = |what: &str, old: &str, new: &str| {
        if old != new {
            notes.push(format!("the {what} differs: {old} and {new}"));
        }
    };
    differ("scenario", old.name(), new.name());
    differ("target", &old.meta.target, &new.meta.target);
    differ("seed", &old.seed.to_string(), &new.seed.to_string());
    differ("good request", &old.good_request, &new.good_request);
    if old.scenario.spec.load != new.scenario.spec.load {
        notes.push("the load differs".to_owned());
    }
    if old.name() == new.name() && old.scenario.spec.faults != new.scenario.spec.faults {
        notes.push("the faults differ".to_owned());
    }
    if old.scenario.spec.sla != new.scenario.spec.sla {
        notes.push("the SLA lines differ".to_owned());
    }
    notes.extend(lengths(old, new));
    for (report, which) in [(old, "first"), (new, "second")] {
        if report.verdict.kind == VerdictKind::Invalid {
            let why = report.verdict.reasons.first().map_or(String::new(), |why| format!(": {why}"));
            notes.push(format!("the {which} run is invalid{why}"));
        }
        if !report.client_findings.is_empty() {
            notes.push(format!("the {which} run's client was not fit to measure"));
        }
        for late in &report.client_lateness {
            notes.push(format!("in the {which} run, {late}"));
        }
        if let Some(why) = &report.cut_short {
            notes.push(format!("the {which} run was cut short: {why}"));
        }
    }
    notes
}

impl Comparison {
    /// For the terminal: one block a phase, columns in line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        for (label, run) in [("before", &self.before), ("after", &self.after)] {
            writeln!(text, "{label:7} {} ({}, {})", run.directory, run.scenario, run.verdict)?;
        }
        for note in &self.notes {
            writeln!(text, "note    {note}")?;
        }
        for phase in &self.phases {
            let rows: Vec<[String; COLUMNS]> =
                std::iter::once(HEADER.map(str::to_owned)).chain(phase.changes.iter().map(row)).collect();
            let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            let widths: [usize; COLUMNS] = std::array::from_fn(width);
            writeln!(text, "\n{}", phase.phase)?;
            for row in &rows {
                let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
                writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
            }
        }
        Ok(())
    }

    /// For a pull request: one table a phase.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut md = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_markdown(&mut md);
        md
    }

    fn write_markdown(&self, md: &mut String) -> std::fmt::Result {
        let name =
            |run: &RunName| format!("{} ({}, {})", code(&run.directory), escape(&run.scenario), run.verdict);
        writeln!(md, "# {} against {}\n", name(&self.after), name(&self.before))?;
        for note in &self.notes {
            writeln!(md, "- {}", escape(note))?;
        }
        for phase in &self.phases {
            writeln!(md, "\n## {}\n\n| {} |\n|{}", phase.phase, HEADER.join(" | "), "---|".repeat(COLUMNS))?;
            for change in &phase.changes {
                writeln!(md, "| {} |", row(change).join(" | "))?;
            }
        }
        Ok(())
    }
}

const HEADER: [&str; COLUMNS] = ["metric", "before", "after", "ratio (95 %)", "difference (95 %)", "finding"];
const COLUMNS: usize = 6;

fn row(change: &Change) -> [String; COLUMNS] {
    let [before, after, ratio, difference] = change_cells(change);
    [change.metric.clone(), before, after, ratio, difference, finding_words(change)]
}
