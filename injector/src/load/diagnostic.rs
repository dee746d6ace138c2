//! What is wrong with a file, where, and what would be right.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// Problems that are shown of one file; the rest is only counted.
const SHOWN: usize = 100;
/// Bytes of one source line that are shown around a problem.
const LINE_WINDOW: usize = 160;

/// Characters of a message that are shown.
const LONGEST_MESSAGE: usize = 600;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// It can, and may not do what is wanted.
    Warning,
}

/// A problem at a place in the text, before line and column are known.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) severity: Severity,
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) label: String,
    pub(super) help: Option<String>,
    pub(super) also: Option<(Range<usize>, String)>,
}

impl Problem {
    pub(super) fn new(at: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Self {
        let (message, label) = (message.into(), label.into());
        Self { severity: Severity::Error, at, message, label, help: None, also: None }
    }

    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub(super) fn maybe_help(self, help: Option<String>) -> Self {
        Self { help, ..self }
    }

    pub(super) fn also(self, at: Range<usize>, label: impl Into<String>) -> Self {
        Self { also: Some((at, label.into())), ..self }
    }
}

/// A message with what it cites from the file made fit for a terminal: no control characters, no end of a thousand.
fn clean(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for (i, c) in message.chars().enumerate() {
        if i == LONGEST_MESSAGE {
            out.push_str("...");
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// A text from a file, made fit for a message: in quotes, short, with no control characters.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == 60 {
            out.push_str("...");
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.push('`');
    out
}

/// The candidate that `word` was likely meant to be.
pub(crate) fn closest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.chars().count() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score > 0.82)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the file can be used all the same.
    pub severity: Severity,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right, in short; it stands at the caret.
    pub label: String,
    /// More help, where there is some: "did you mean `x`?".
    pub help: Option<String>,
    at: Range<usize>,
    also: Option<(Range<usize>, String)>,
}

/// All that is wrong with one file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    name: String,
    text: String,
    all: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(super) fn new(name: &str, text: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| (problem.at.start, problem.at.end));
        let newlines: Vec<usize> =
            text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i).collect();
        let all = problems
            .into_iter()
            .map(|problem| {
                let start = problem.at.start.min(text.len());
                let line = newlines.partition_point(|newline| *newline < start);
                let line_start = if line == 0 { 0 } else { newlines[line - 1] + 1 };
                Diagnostic {
                    severity: problem.severity,
                    line: line + 1,
                    column: text[line_start..start].chars().filter(|c| *c != '\u{feff}').count() + 1,
                    message: clean(&problem.message),
                    label: clean(&problem.label),
                    help: problem.help.as_deref().map(clean),
                    at: start..problem.at.end.clamp(start, text.len()),
                    also: problem.also.map(|(at, label)| (at, clean(&label))),
                }
            })
            .collect();
        Self { name: name.to_owned(), text: text.to_owned(), all }
    }

    /// The name of the file, as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Each problem, from the top of the file to its end.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.all.iter()
    }

    /// How many there are; at least 1.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of it for a person: message, place, the line itself with a caret, a blank line between two of them, and a
    /// line end at the end of all. `color`: with terminal colours.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let shown = self.all.iter().take(SHOWN);
        let mut parts: Vec<String> = shown.map(|diagnostic| self.render_one(diagnostic, &renderer)).collect();
        if self.all.len() > SHOWN {
            parts.push(format!("... and {} more in {}", self.all.len() - SHOWN, self.name));
        }
        parts.join("\n\n") + "\n"
    }

    fn render_one(&self, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
        let (line, at, line_number) = self.line_around(&diagnostic.at);
        let mut snippet = Snippet::source(line)
            .line_start(line_number)
            .path(self.name.as_str())
            .annotation(AnnotationKind::Primary.span(at).label(diagnostic.label.as_str()));
        let also = diagnostic.also.as_ref().map(|(at, label)| (self.line_around(at), label));
        let mut second = None;
        if let Some(((other_line, other_at, other_number), label)) = also {
            let annotation = AnnotationKind::Context.span(other_at).label(label.as_str());
            if other_number == line_number && other_line == line {
                snippet = snippet.annotation(annotation);
            } else {
                second = Some(
                    Snippet::source(other_line)
                        .line_start(other_number)
                        .path(self.name.as_str())
                        .annotation(annotation),
                );
            }
        }
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = level.primary_title(diagnostic.message.as_str()).element(snippet);
        if let Some(second) = second {
            group = group.element(second);
        }
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }

    /// The line on which `at` begins (a window of it, where it is very long), `at` within it, and its number.
    fn line_around(&self, at: &Range<usize>) -> (&str, Range<usize>, usize) {
        let text = self.text.as_str();
        let number = text[..at.start].bytes().filter(|byte| *byte == b'\n').count() + 1;
        let start = text[..at.start].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at.start..].find(['\n', '\r']).map_or(text.len(), |newline| at.start + newline);
        let start = start.max(floor(text, at.start.saturating_sub(LINE_WINDOW)));
        let start = if text[start..].starts_with('\u{feff}') { start + '\u{feff}'.len_utf8() } else { start };
        let from = at.start.max(start);
        let end = end.min(floor(text, from + LINE_WINDOW)).max(from);
        (&text[start..end], from - start..at.end.clamp(from, end) - start, number)
    }
}

/// The last character border at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Diagnostics {}

impl<'d> IntoIterator for &'d Diagnostics {
    type Item = &'d Diagnostic;
    type IntoIter = std::slice::Iter<'d, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
