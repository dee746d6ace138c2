//! `brownout report`: the reports of a run, rendered again.

use crate::table;
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;

/// Makes every number again from the run's records, and writes all forms of the report.
#[allow(clippy::print_stdout, reason = "the verdict is what this command prints")]
pub(crate) fn run(dir: &Path) -> Result<ExitCode> {
    let report = brownout_runner::report::render_again(dir)?;
    println!("{}", table::summary(&report));
    println!("reports: {}", dir.join("report.html").display());
    Ok(ExitCode::SUCCESS)
}
