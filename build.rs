//! Builds the shim by itself and hands it to the binary, which carries it.
//!
//! A build of its own: in one with the rest of the workspace, features that others want of shared dependencies would be
//! built into the shim as well, and the profile would be the user's, with panics that unwind through other people's
//! calls.
#![allow(clippy::print_stdout, reason = "this is how one speaks to cargo")]

use std::env::{self, VarError};
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All that the shim is made of.
const SOURCES: [&str; 5] = ["build.rs", "preload", "control", "Cargo.toml", "Cargo.lock"];

/// The profile in `Cargo.toml`.
const PROFILE: &str = "shim";

fn main() -> Result<(), Box<dyn Error>> {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let shim = if is_supported()? { build()? } else { nothing()? };
    println!("cargo::rustc-env=BROWNOUT_SHIM={}", shim.display());
    Ok(())
}

/// Whether the shim knows how to live in processes of the system that is built for.
fn is_supported() -> Result<bool, VarError> {
    let is = |key: &str, known: &[&str]| env::var(key).map(|value| known.contains(&value.as_str()));
    Ok(is("CARGO_CFG_TARGET_OS", &["linux"])?
        && is("CARGO_CFG_TARGET_ENV", &["gnu"])?
        && is("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64"])?)
}

/// No shim: an empty file.
fn nothing() -> Result<PathBuf, Box<dyn Error>> {
    let path = PathBuf::from(need("OUT_DIR")?).join("no-shim");
    fs::write(&path, [])?;
    Ok(path)
}

fn build() -> Result<PathBuf, Box<dyn Error>> {
    // In a folder of its own: the cargo that runs us holds the lock of the other one.
    let folder = PathBuf::from(need("OUT_DIR")?).join("shim");
    let target = env::var("TARGET")?;
    let mut cargo = Command::new(need("CARGO")?);
    cargo
        .args(["build", "--locked", "--package", "brownout-preload", "--profile", PROFILE])
        .args(["--target", &target, "--manifest-path"])
        .arg(Path::new(&need("CARGO_MANIFEST_DIR")?).join("preload/Cargo.toml"))
        .arg("--target-dir")
        .arg(&folder);
    leave_out_what_is_meant_for_others(&mut cargo, &folder);
    let built = cargo.output()?;
    if !built.status.success() {
        return Err(format!("the shim cannot be built:\n{}", String::from_utf8_lossy(&built.stderr)).into());
    }
    Ok(folder.join(target).join(PROFILE).join("libbrownout_preload.so"))
}

/// Flags, wrappers and settings that are meant for the build around this one (coverage, sanitizers, clippy, another
/// folder) would break the shim or wait for ever for a lock; an empty value also takes the place of what a file sets.
fn leave_out_what_is_meant_for_others(cargo: &mut Command, folder: &Path) {
    for key in ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env(key, "");
    }
    cargo.env("CARGO_BUILD_BUILD_DIR", folder);
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        let disturbs = ["RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR", "CLIPPY_ARGS"]
            .contains(&&*name)
            || name.starts_with("CARGO_PROFILE_")
            || (name.starts_with("CARGO_TARGET_") && name.ends_with("_RUSTFLAGS"));
        if disturbs {
            cargo.env_remove(&key);
        }
    }
}

fn need(key: &str) -> Result<OsString, String> {
    env::var_os(key).ok_or_else(|| format!("cargo has not set {key}"))
}
