//! `brownout validate FILE...`: all that is wrong with each file, or that nothing is.

use crate::{exit, source};
use anyhow::Result;
use brownout_injector::Scenario;
use brownout_injector::fault::Acts;
use brownout_injector::units::TimeSpan;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Checks every file as a run would before its first request; what is wrong goes to stderr, one line for each good file
/// to stdout. A header's variable that is not set here may be set where it runs: a warning.
///
/// # Errors
/// When stdout cannot be written.
pub(crate) fn run(files: &[PathBuf]) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for file in files {
        match source::read_to_tell(file) {
            Ok((scenario, warnings)) => {
                if let Some(warnings) = warnings {
                    exit::show(&warnings);
                }
                let line = format!("{}: ok ({})", file.display(), summary(&scenario));
                match writeln!(std::io::stdout(), "{line}") {
                    Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
                    _ => {}
                }
            }
            Err(error) => {
                exit::complain(&error);
                code = exit::INVALID.into();
            }
        }
    }
    Ok(code)
}

/// `2 faults, phases total 4m10s`, and what is not there that a run needs.
fn summary(scenario: &Scenario) -> String {
    let phases = &scenario.spec.phases;
    let total =
        [phases.warmup, phases.baseline, phases.fault, phases.recovery].iter().map(|span| span.0).sum();
    let count = scenario.spec.faults.len();
    let faults = if count == 1 { "1 fault".to_owned() } else { format!("{count} faults") };
    let acts = |acts| scenario.spec.faults.iter().any(|entry| entry.fault.about().acts == acts);
    let (on_the_wire, in_processes) = (acts(Acts::OnTheWire), acts(Acts::InTheProcess));
    // No error: `brownout proxy` and `brownout exec` need no load. A run would refuse it.
    let whom = match (scenario.spec.load.is_some(), in_processes) {
        (_, true) if on_the_wire => ", on the wire and in processes: no command takes both",
        (false, true) => ", no load: for `brownout exec` alone",
        (true, true) => ", for `brownout exec` and `brownout load`",
        (false, false) => ", no load: for `brownout proxy` alone",
        (true, false) => "",
    };
    format!("{faults}, phases total {}{whom}", TimeSpan(total))
}
