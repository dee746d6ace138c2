//! Reads scenario files.

use crate::exit;
use anyhow::{Context, Result};
use brownout_injector::Scenario;
use brownout_injector::load::{Diagnostics, Outside, Remark, load_bytes, load_with};
use brownout_runner::load::{check_prompts, open_patiently};
use std::io::Read;
use std::path::Path;

/// More than the loader reads, so that it is the one who says that a file is too large.
const ENOUGH: u64 = 5 << 20;

/// Reads and checks the scenario in `file`, for whoever has no use for its load.
pub(crate) fn read(file: &Path) -> Result<Scenario> {
    Ok(load_bytes(&file.display().to_string(), &bytes(file)?)?)
}

/// As [`read`], with all that its load names outside the file: what is missing now would be missed before the first
/// request. What may be in vain is shown.
pub(crate) fn read_to_run(file: &Path) -> Result<Scenario> {
    let (scenario, warnings) = check(file, Remark::error)?;
    if let Some(warnings) = warnings {
        exit::show(&warnings);
    }
    Ok(scenario)
}

/// As [`read_to_run`], for a file that is to run elsewhere or later: a variable that is not set is only a warning.
pub(crate) fn read_to_tell(file: &Path) -> Result<(Scenario, Option<Diagnostics>)> {
    check(file, Remark::warning)
}

fn check(file: &Path, unset: fn(String, &'static str) -> Remark) -> Result<(Scenario, Option<Diagnostics>)> {
    let base = file.parent().unwrap_or(Path::new("."));
    let mut look = |outside: Outside<'_>| match outside {
        Outside::PromptFile(name) => prompts(&base.join(name)),
        Outside::Variable(name) => match std::env::var(name) {
            Ok(_) => None,
            Err(std::env::VarError::NotPresent) => {
                let message = format!("the environment variable `{name}` is not set");
                Some(unset(message, "set it before the run"))
            }
            Err(error) => {
                Some(Remark::error(format!("the environment variable `{name}`: {error}"), "a text"))
            }
        },
    };
    Ok(load_with(&file.display().to_string(), &bytes(file)?, &mut look)?)
}

/// What is wrong with a file of prompts. A pipe can be read only once, and so only by the run itself.
fn prompts(path: &Path) -> Option<Remark> {
    let is_once = std::fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir());
    let error = if is_once { None } else { check_prompts(path).err() };
    error.map(|error| Remark::error(error.to_string(), "a file of JSON lines, relative to this file"))
}

fn bytes(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_patiently(file)
        .and_then(|opened| opened.take(ENOUGH).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", file.display()))?;
    Ok(bytes)
}
