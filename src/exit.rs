//! Exit codes are API: scripts and pipelines branch on them. Verdicts have their own in `brownout_runner`.

use brownout_injector::load::Diagnostics;
use std::io::IsTerminal;

/// Could not run, or invalid input.
pub(crate) const INVALID: u8 = 2;

/// Prints an error with its causes. What is wrong with a file is shown in the file.
#[allow(clippy::print_stderr, reason = "this is where errors reach people")]
pub(crate) fn complain(error: &anyhow::Error) {
    let diagnostics = error.downcast_ref::<Diagnostics>();
    if let Some(diagnostics) = diagnostics {
        eprintln!("{}", diagnostics.render(std::io::stderr().is_terminal()));
    }
    let told = diagnostics.map(ToString::to_string);
    let mut causes = error.chain().map(ToString::to_string).filter(|cause| told.as_ref() != Some(cause));
    if let Some(first) = causes.next() {
        eprintln!("error: {first}");
    }
    for cause in causes {
        eprintln!("  because: {cause}");
    }
}
