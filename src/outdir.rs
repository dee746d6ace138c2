//! Where a run's files go: never over those of a run before, unless the user named the folder.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The folder that holds runs whose place was not named.
const HOME: &str = "brownout-out";

/// Makes the folder for a run of the scenario `name`: `wanted` where given, else a fresh one.
pub(crate) fn prepare(wanted: Option<&Path>, name: &str) -> Result<PathBuf> {
    let dir = match wanted {
        Some(dir) => dir.to_owned(),
        None => fresh(Path::new(HOME), name)?,
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    Ok(dir)
}

/// `home/name`, or `home/name-2`, `-3`, ... where that is taken.
fn fresh(home: &Path, name: &str) -> Result<PathBuf> {
    let candidates =
        (1..10_000).map(|n| home.join(if n == 1 { name.to_owned() } else { format!("{name}-{n}") }));
    for dir in candidates {
        if !dir.exists() {
            return Ok(dir);
        }
    }
    bail!("{} holds 9,999 runs of {name}: name a folder with --out", home.display())
}
