//! What a scenario names outside itself: files and environment variables. Whether they are there is no matter of this
//! crate; where they are named is.

use super::diagnostic::{Problem, Severity};
use super::meaning::{part, place};
use super::tree::Node;

/// Something outside the file that its load names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside<'a> {
    /// A file of prompts, as `prompt.file` names it: relative to the scenario.
    PromptFile(&'a str),
    /// An environment variable, as `${NAME}` in a header names it.
    Variable(&'a str),
}

/// What is said of something outside the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Whether the scenario can be used all the same.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What would be right, in short.
    pub label: String,
}

impl Remark {
    /// The scenario cannot be used.
    pub fn error(message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), label: label.into() }
    }

    /// It can, and may not do what is wanted.
    pub fn warning(message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message, label) }
    }
}

/// The `${NAME}` in a text: where each begins, in characters, and its name; nothing for the name of one that is never
/// closed. The runner puts the environment in their place by the same rule.
pub(super) fn variables(text: &str) -> Vec<(usize, Option<&str>)> {
    let (mut all, mut from) = (Vec::new(), 0);
    while let Some(at) = text[from..].find("${").map(|at| from + at) {
        let name = text[at + 2..].split_once('}').map(|(name, _)| name);
        all.push((text[..at].chars().count(), name));
        from = at + 2 + name.map_or(text.len() - at - 2, |name| name.len() + 1);
    }
    all
}

/// Adds what `look` says of all that the load names.
pub(super) fn check(
    instances: &[(&str, &Node)],
    look: &mut dyn FnMut(Outside<'_>) -> Option<Remark>,
    problems: &mut Vec<Problem>,
) {
    let mut ask = |outside: Outside<'_>, at: std::ops::Range<usize>| {
        if let Some(remark) = look(outside) {
            let problem = Problem::new(at, remark.message, remark.label);
            problems.push(Problem { severity: remark.severity, ..problem });
        }
    };
    for (name, node) in instances {
        match *name {
            "PromptSource" => {
                if let Some(file) = node.get("file").and_then(|file| file.text()) {
                    ask(Outside::PromptFile(file), place(node, "file"));
                }
            }
            "Load" => {
                for entry in node.get("headers").map(|headers| headers.entries()).unwrap_or_default() {
                    let text = entry.value.text().unwrap_or_default();
                    for (column, name) in variables(text) {
                        if let Some(name) = name {
                            ask(
                                Outside::Variable(name),
                                part(&entry.value, column, name.chars().count() + 3),
                            );
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn variables_are_found_where_they_stand() {
        assert_eq!(
            variables("Bearer ${KEY}, \u{e9}${B}${C"),
            [(7, Some("KEY")), (16, Some("B")), (20, None)]
        );
        assert_eq!(variables("$KEY {} $ {"), []);
    }
}
