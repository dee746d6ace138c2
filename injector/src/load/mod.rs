//! From the text of a file to a [`Scenario`], or to all that is wrong with it.

mod diagnostic;
mod matchers;
mod meaning;
mod meant;
mod outside;
mod schema;
mod shape;
mod tree;
mod url;
mod vain;
mod words;
mod wrong;

pub(crate) use diagnostic::closest;
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use outside::{Outside, Remark};
pub use schema::schema;

use crate::scenario::Scenario;
use diagnostic::Problem;

/// The largest file that is read.
const MAX_BYTES: usize = 4 << 20;

/// Reads a scenario. `name` is the file's name, for messages. JSON is read too, as it is YAML.
///
/// Time and memory are bounded whatever the text says: 4 MiB of text, 64 levels, 400,000 values with all aliases
/// written out.
///
/// # Errors
/// All that is wrong with it, each with its place: fields, types and ranges by the [`schema()`], then the meaning. A
/// text that is no YAML has one error, where reading stopped.
pub fn load(name: &str, text: &str) -> Result<Scenario, Diagnostics> {
    read(name, text, &mut |_| None).map(|(scenario, _)| scenario)
}

fn read(
    name: &str,
    text: &str,
    look: &mut dyn FnMut(Outside<'_>) -> Option<Remark>,
) -> Result<(Scenario, Option<Diagnostics>), Diagnostics> {
    let fail = |problems| Err(Diagnostics::new(name, text, problems));
    if text.len() > MAX_BYTES {
        // Whoever read it may have stopped before its end, so how large it is is not known here.
        let problem = Problem::new(0..0, "the file is too large", "at most 4 MiB are read");
        return Err(Diagnostics::new(name, "", vec![problem]));
    }
    let (root, mut problems) = tree::parse(text);
    let Some(root) = root else {
        if problems.is_empty() {
            problems.push(Problem::new(0..0, "the file is empty", "a scenario begins with `apiVersion:`"));
        }
        return fail(problems);
    };
    let schema = schema();
    let shape = shape::Shape::walk(&root, &schema);
    problems.extend(shape.problems);
    meaning::check(&root, &shape.instances, &mut problems);
    outside::check(&shape.instances, look, &mut problems);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return fail(problems);
    }
    // The types are stricter than the schema nowhere that is known; what they refuse all the same is said, not lost.
    match serde_json::from_value(root.json()) {
        Ok(scenario) => {
            vain::check(&root, &scenario, &mut problems);
            let warnings = (!problems.is_empty()).then(|| Diagnostics::new(name, text, problems));
            Ok((scenario, warnings))
        }
        Err(error) => fail(vec![Problem::new(
            root.span.clone(),
            format!("the scenario cannot be read: {error}"),
            "in this file",
        )]),
    }
}

/// Reads a scenario from bytes as they come from a file.
///
/// # Errors
/// As [`load`]; and bytes that are no UTF-8, with their place.
pub fn load_bytes(name: &str, bytes: &[u8]) -> Result<Scenario, Diagnostics> {
    load_with(name, bytes, &mut |_| None).map(|(scenario, _)| scenario)
}

/// As [`load_bytes`], and asks `look` about each thing outside the file that the load names. What it answers becomes
/// an error or a warning with its place in the file; warnings alone come with the scenario.
///
/// ```
/// use brownout_injector::load::{Outside, Remark, Severity, load_with};
///
/// let text = br#"
/// apiVersion: brownout.dev/v1alpha1
/// kind: Scenario
/// metadata: {name: a}
/// spec:
///   phases: {fault: 10s}
///   load: {arrival: {poisson: {rate: 5}}, prompt: {file: prompts.jsonl}}
/// "#;
/// let errors = load_with("a.yaml", text, &mut |outside| match outside {
///     Outside::PromptFile(file) => Some(Remark::error(format!("{file}: no such file"), "a file of JSON lines")),
///     Outside::Variable(_) => None,
/// });
/// let errors = errors.expect_err("the file is missing");
/// let error = errors.iter().next().expect("there is one");
/// assert_eq!((error.severity, error.line, error.column), (Severity::Error, 7, 56));
/// ```
///
/// # Errors
/// As [`load_bytes`], and the errors of `look`.
pub fn load_with(
    name: &str,
    bytes: &[u8],
    look: &mut dyn FnMut(Outside<'_>) -> Option<Remark>,
) -> Result<(Scenario, Option<Diagnostics>), Diagnostics> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read(name, text, look),
        Err(error) => {
            let valid = error.valid_up_to();
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(valid + 100)]);
            let byte = bytes.get(valid).copied().unwrap_or_default();
            let message = format!("the byte 0x{byte:02x} here is no UTF-8");
            let label = match bytes {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "this looks like UTF-16: save the file as UTF-8",
                _ => "save the file as UTF-8",
            };
            let problem = Problem::new(valid..valid + '\u{fffd}'.len_utf8(), message, label);
            Err(Diagnostics::new(name, &text, vec![problem]))
        }
    }
}
