//! Reads scenario files.

use crate::exit;
use anyhow::{Context, Result, bail};
use brownout_injector::Scenario;
use brownout_injector::fault::Acts;
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

/// Refuses the scenario in `file` where a fault of it acts in processes, out of a proxy's reach.
pub(crate) fn only_on_the_wire(scenario: &Scenario, file: &Path) -> Result<()> {
    let Some(faults) = acting(scenario, Acts::InTheProcess) else { return Ok(()) };
    let file = file.display();
    bail!(
        "{file}: {faults} in the process, and a proxy reaches the wire alone: start the server with `brownout exec \
         --scenario {file} -- COMMAND`, and measure it with `brownout load {file}`"
    )
}

/// Refuses the scenario in `file` where a fault of it acts on the wire, out of a shim's reach.
#[cfg_attr(not(test), expect(dead_code, reason = "for the command that starts servers with the shim"))]
pub(crate) fn only_in_processes(scenario: &Scenario, file: &Path) -> Result<()> {
    let Some(faults) = acting(scenario, Acts::OnTheWire) else { return Ok(()) };
    let file = file.display();
    bail!(
        "{file}: {faults} on the wire, and `brownout exec` reaches processes alone: give such faults a scenario of \
         their own, for `brownout run` or `brownout proxy`"
    )
}

/// "the fault `a` (stall) acts", or as many as there are.
fn acting(scenario: &Scenario, acts: Acts) -> Option<String> {
    let there = scenario.spec.faults.iter().filter(|entry| entry.fault.about().acts == acts);
    let names: Vec<String> =
        there.map(|entry| format!("`{}` ({})", entry.name, entry.fault.about().kind)).collect();
    match names.as_slice() {
        [] => None,
        [one] => Some(format!("the fault {one} acts")),
        [most @ .., last] => Some(format!("the faults {} and {last} act", most.join(", "))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_names_the_faults_that_it_cannot_reach() {
        let wire = "stall: {atToken: 1, for: 1s}";
        let process = "checkpointError: {error: eio}, when: {file: '*.gguf'}";
        let of = |faults: &[&str]| {
            let names = ["a", "b", "c"].iter();
            let faults: Vec<String> =
                names.zip(faults).map(|(name, fault)| format!("{{name: {name}, {fault}}}")).collect();
            let text = format!(
                "apiVersion: brownout.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: t}}\nspec:\n  phases: \
                 {{fault: 1s}}\n  faults: [{}]\n",
                faults.join(", ")
            );
            load_bytes("t.yaml", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"))
        };
        type Check = fn(&Scenario, &Path) -> Result<()>;
        let says = |check: Check, faults: &[&str]| {
            check(&of(faults), Path::new("t.yaml")).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for (check, here, elsewhere, kind) in [
            (only_on_the_wire as Check, wire, process, "checkpointError"),
            (only_in_processes, process, wire, "stall"),
        ] {
            assert_eq!(says(check, &[]), "");
            assert_eq!(says(check, &[here, here]), "");
            let one = says(check, &[here, elsewhere]);
            assert!(one.contains(&format!("t.yaml: the fault `b` ({kind}) acts ")), "{one}");
            let all = says(check, &[elsewhere; 3]);
            let named = format!("the faults `a` ({kind}), `b` ({kind}) and `c` ({kind}) act ");
            assert!(all.contains(&named), "{all}");
        }
    }
}
