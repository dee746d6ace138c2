//! A page shows so many faults one by one; those beyond are added up by kind. `report.json` has all.

use super::Report;
use crate::report::text;
use crate::summary::effect::{FaultProof, FaultWindow};
use std::borrow::Cow;

/// Faults that are shown one by one.
pub(crate) const MOST_FAULTS: usize = 50;

/// Faults that have a lane of their own over the time line.
pub(crate) const MOST_LANES: usize = 20;

/// One row a fault, and behind [`MOST_FAULTS`] one row a kind.
pub(crate) fn rows(report: &Report) -> Vec<Cow<'_, FaultProof>> {
    let (shown, rest) = report.faults.split_at(report.faults.len().min(MOST_FAULTS));
    let mut rows: Vec<Cow<'_, FaultProof>> = shown.iter().map(Cow::Borrowed).collect();
    for kind in kinds(rest) {
        let all: Vec<&FaultProof> = rest.iter().filter(|fault| fault.kind == kind).collect();
        let name = format!("{} more", text::count(all.len() as u64));
        rows.extend(FaultProof::merged(name, &all).map(Cow::Owned));
    }
    rows
}

/// The faults of which something odd is known, as many as are shown, and how many more there are.
pub(crate) fn odd(report: &Report) -> (Vec<&FaultProof>, usize) {
    let all = || report.faults.iter().filter(|fault| !fault.odd.is_empty());
    (all().take(MOST_FAULTS).collect(), all().count().saturating_sub(MOST_FAULTS))
}

/// What has to be said of the table of faults: where not all are shown one by one, and why one may have acted on fewer
/// requests than it chose.
pub(crate) fn notes(report: &Report) -> Vec<String> {
    let cut = |fault: &FaultProof| fault.fired > 0 && fault.chosen.is_some_and(|chosen| chosen > fault.fired);
    let idle = report.faults.iter().any(cut).then(|| {
        "Where a fault did something to fewer requests than it chose, the others gave it nothing to act on: they kept \
         its limit, or their answers or its window ended before."
            .to_owned()
    });
    let more = (report.faults.len() > MOST_FAULTS).then(|| {
        format!(
            "The first {MOST_FAULTS} of {} faults are shown one by one, the others added up by kind; report.json has \
             each.",
            text::count(report.faults.len() as u64)
        )
    });
    idle.into_iter().chain(more).collect()
}

/// One fault of each kind, in the order of the file.
pub(crate) fn one_of_each_kind(report: &Report) -> Vec<&FaultProof> {
    let find = |kind| report.faults.iter().find(|fault| fault.kind == kind);
    kinds(&report.faults).into_iter().filter_map(find).collect()
}

fn kinds(faults: &[FaultProof]) -> Vec<&str> {
    let mut kinds: Vec<&str> = Vec::new();
    for fault in faults {
        if !kinds.contains(&fault.kind.as_str()) {
            kinds.push(&fault.kind);
        }
    }
    kinds
}

/// The stretches of time that the windows cover together, in order; those less than `apart` seconds from each other
/// are one.
pub(crate) fn covered<'w>(windows: impl Iterator<Item = &'w FaultWindow>, apart: f64) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = windows.map(|window| (window.from, window.until)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<(f64, f64)> = Vec::new();
    for (from, until) in all {
        match out.last_mut() {
            Some(last) if from <= last.1 + apart => last.1 = last.1.max(until),
            _ => out.push((from, until)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_meet_are_one_stretch() {
        let window = |from, until| FaultWindow { fault: "a".to_owned(), from, until };
        let windows = [window(5.0, 9.0), window(0.0, 2.0), window(6.0, 7.0), window(9.1, 10.0)];
        assert_eq!(covered(windows.iter(), 0.0), [(0.0, 2.0), (5.0, 9.0), (9.1, 10.0)]);
        assert_eq!(covered(windows.iter(), 0.2), [(0.0, 2.0), (5.0, 10.0)]);
    }
}
