//! `brownout schema`: the JSON Schema of scenario files, or their reference as Markdown.

use anyhow::Result;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

/// Prints the schema; with `reference` the page that people read.
///
/// # Errors
/// When stdout cannot be written.
pub(crate) fn run(reference: bool) -> Result<ExitCode> {
    let text = if reference {
        brownout_injector::reference()
    } else {
        serde_json::to_string_pretty(&brownout_injector::schema())? + "\n"
    };
    // A reader such as `head` that has seen enough is no failure.
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
