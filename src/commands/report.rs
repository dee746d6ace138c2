//! `brownout report`: the reports of a run, rendered again.

use crate::exit::say;
use crate::table;
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;

/// Makes every number again from the run's records, and writes all forms of the report.
pub(crate) fn run(dir: &Path) -> Result<ExitCode> {
    let report = brownout_runner::report::render_again(dir)?;
    say(table::summary(&report));
    say(format!("reports: {}", dir.join("report.html").display()));
    Ok(ExitCode::SUCCESS)
}
