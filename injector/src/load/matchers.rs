//! Matchers belong to where a fault acts: a proxy knows nothing of files, and a process nothing of requests.

use super::diagnostic::Problem;
use super::meaning::{key, place};
use super::tree::{Data, Node};
use crate::fault::{About, Acts, Fault};

/// Matchers that only faults on the wire can answer.
const OF_THE_WIRE: [&str; 5] = ["path", "method", "model", "headers", "stream"];
/// Matchers that only faults in the process can answer.
const OF_THE_PROCESS: [&str; 4] = ["container", "process", "rank", "file"];

/// Adds what is wrong with the matchers of one entry of `faults`.
pub(super) fn check(fault: &Node, problems: &mut Vec<Problem>) {
    let mut kinds = Fault::ALL.iter();
    let Some(about) = kinds.find(|about| fault.get(about.kind).is_some()) else { return };
    let mut wrong = Vec::new();
    if let Some(when) = fault.get("when") {
        misplaced(about, when, &mut wrong);
    }
    if about.needs_file() && wrong.is_empty() {
        wrong.extend(file(about, fault, problems));
    }
    problems.extend(wrong);
}

fn misplaced(about: &About, when: &Node, wrong: &mut Vec<Problem>) {
    let (others, elsewhere) = match about.acts {
        Acts::OnTheWire => (&OF_THE_PROCESS[..], Acts::InTheProcess),
        Acts::InTheProcess => (&OF_THE_WIRE[..], Acts::OnTheWire),
    };
    for matcher in others.iter().filter(|matcher| when.get(matcher).is_some()) {
        let message = format!(
            "`when.{matcher}` is for faults {}; `{}` acts {}",
            elsewhere.name(),
            about.kind,
            about.acts.name()
        );
        let label = match *matcher {
            "path" if about.needs_file() && when.get("file").is_none() => {
                "that of a request; write `file` for that of a file"
            }
            _ => "remove it",
        };
        wrong.push(Problem::new(key(when, matcher), message, label));
    }
}

/// What is wrong with the `file` of a fault that needs one.
fn file(about: &About, fault: &Node, known: &[Problem]) -> Option<Problem> {
    let missing = |at, label: &str| {
        let message = format!("`{}` lacks `when.file`, which says which files are meant", about.kind);
        Problem::new(at, message, label)
    };
    let Some(when) = fault.get("when") else {
        return Some(missing(key(fault, about.kind), "add `when: {file: \"*.safetensors\"}`"));
    };
    match when.get("file").map(|file| file.text()) {
        Some(Some("")) => {
            let message = "an empty `when.file` matches no file";
            Some(Problem::new(place(when, "file"), message, "such as \"*.safetensors\""))
        }
        Some(_) => None,
        // Where `when` is wrong otherwise, a misspelt `file` may be what is wrong with it.
        None if !matches!(when.data, Data::Map(_)) => None,
        None if known.iter().any(|problem| when.span.contains(&problem.at.start)) => None,
        None => Some(missing(key(fault, "when"), "add `file: \"*.safetensors\"` to it")),
    }
}
