//! `brownout report`: the reports of a run, rendered again.

use crate::exit::say;
use crate::{outdir, table};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::ExitCode;

/// Makes every number again from the run's records, and writes all forms of the report.
pub(crate) fn run(dir: &Path) -> Result<ExitCode> {
    // Where there is no such folder, reading it says so.
    let alone = dir.exists().then(|| outdir::lock(dir)).transpose()?;
    ensure!(!matches!(alone, Some(None)), "a run is writing to {}: wait until it has ended", dir.display());
    let report = brownout_runner::report::render_again(dir)?;
    say(table::summary(&report));
    say(format!("reports: {}", dir.join("report.html").display()));
    Ok(ExitCode::SUCCESS)
}
