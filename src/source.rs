//! Reads scenario files.

use anyhow::{Context, Result};
use brownout_injector::Scenario;
use brownout_injector::load::load_bytes;
use std::io::Read;
use std::path::Path;

/// More than the loader reads, so that it is the one who says that a file is too large.
const ENOUGH: u64 = 5 << 20;

/// Reads and checks the scenario in `file`.
pub(crate) fn read(file: &Path) -> Result<Scenario> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(ENOUGH).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", file.display()))?;
    Ok(load_bytes(&file.display().to_string(), &bytes)?)
}
