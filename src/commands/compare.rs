//! `brownout compare`: two runs side by side.

use crate::exit::say;
use anyhow::Result;
use brownout_runner::compare::compare;
use std::path::Path;
use std::process::ExitCode;

/// Prints each phase of both runs with the intervals of their difference.
pub(crate) fn run(before: &Path, after: &Path, markdown: bool) -> Result<ExitCode> {
    let comparison = compare(before, after)?;
    say(if markdown { comparison.to_markdown() } else { comparison.to_text() }.trim_end());
    Ok(ExitCode::SUCCESS)
}
