//! Where a run's files go: never over those of a run before, unless the user named the folder, and never among those of
//! a run that still goes on.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// The folder that holds runs whose place was not named.
const HOME: &str = "brownout-out";

/// A folder that is this run's alone, until dropped.
#[derive(Debug)]
pub(crate) struct OutDir {
    path: PathBuf,
    _lock: File,
}

impl Deref for OutDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

/// Makes the folder for a run of the scenario `name`: `wanted` where given, else a fresh one.
pub(crate) fn prepare(wanted: Option<&Path>, name: &str) -> Result<OutDir> {
    let path = match wanted {
        Some(dir) => {
            ensure!(dir.is_dir() || !dir.exists(), "{} is no folder: name one with --out", dir.display());
            fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
            dir.to_owned()
        }
        None => fresh(Path::new(HOME), name)?,
    };
    match lock(&path)? {
        Some(lock) => Ok(OutDir { path, _lock: lock }),
        None => bail!("another run is writing to {}: name another folder with --out", path.display()),
    }
}

/// Keeps others from writing to the folder `path` until it is dropped; nothing where somebody does already.
pub(crate) fn lock(path: &Path) -> Result<Option<File>> {
    let lock = File::open(path).with_context(|| format!("cannot open the folder {}", path.display()))?;
    Ok(match lock.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        // A file system without locks is no reason not to run.
        Ok(()) | Err(TryLockError::Error(_)) => Some(lock),
    })
}

/// Makes `home/name`, or `home/name-2`, `-3`, ... where that is taken.
fn fresh(home: &Path, name: &str) -> Result<PathBuf> {
    let cannot = |dir: &Path| format!("cannot make the folder {}", dir.display());
    fs::create_dir_all(home).with_context(|| cannot(home))?;
    for n in 1..10_000 {
        let dir = home.join(if n == 1 { name.to_owned() } else { format!("{name}-{n}") });
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.with_context(|| cannot(&dir)).map(|()| dir),
        }
    }
    bail!("{} holds 9,999 runs of {name}: name a folder with --out", home.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_runs_at_a_time() {
        let dir = std::env::temp_dir().join(format!("brownout-outdir-{}", std::process::id()));
        let first = prepare(Some(&dir), "a").expect("it can be made");
        let error = prepare(Some(&dir), "a").expect_err("it is taken");
        assert!(error.to_string().contains("another run"), "{error}");
        assert!(lock(&dir).expect("it is there").is_none());
        drop(first);
        prepare(Some(&dir), "a").expect("it is free again");
        let names = [fresh(&dir, "b"), fresh(&dir, "b")].map(|made| made.expect("it can be made"));
        assert_eq!(names, [dir.join("b"), dir.join("b-2")]);
        fs::remove_dir_all(&dir).expect("it goes away");
    }
}
