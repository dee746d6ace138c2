//! How the program speaks and ends. Exit codes are API: scripts and pipelines branch on them; those of verdicts are in
//! `brownout_runner`.

use brownout_injector::load::Diagnostics;
use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// Could not run, or invalid input.
pub(crate) const INVALID: u8 = 2;

/// Prints an error with its causes. What is wrong with a file is shown in the file.
pub(crate) fn complain(error: &anyhow::Error) {
    let diagnostics = error.downcast_ref::<Diagnostics>();
    if let Some(diagnostics) = diagnostics {
        show(diagnostics);
    }
    // Many errors end with their own cause: each is said once.
    let mut said = diagnostics.map(ToString::to_string).unwrap_or_default();
    for (depth, cause) in error.chain().map(ToString::to_string).enumerate() {
        if !said.contains(&cause) {
            note(format_args!("{} {cause}", if depth == 0 { "error:" } else { "  because:" }));
        }
        said.push_str(&cause);
    }
}

/// Shows what is wrong with a file, in the file; a blank line follows, as more may be said.
pub(crate) fn show(diagnostics: &Diagnostics) {
    note(diagnostics.render(std::io::stderr().is_terminal()));
}

/// Prints a line on standard output. Whoever has stopped reading (`| head`) wants no more, and that is no failure.
pub(crate) fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Prints a line on standard error. Whoever has stopped reading (`2>&1 | head`, a terminal that was closed) changes
/// nothing for a run that goes on, nor its exit code; the standard macros would panic.
pub(crate) fn note(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
