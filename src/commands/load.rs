//! `brownout load`: the load and its measurement alone.

use crate::cli::RunArgs;
use anyhow::Result;
use brownout_runner::report::Mode;
use std::process::ExitCode;

/// Sends the scenario's load straight to the server, with no proxy and no faults.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    super::run::with_experiment(args, Mode::Load, |experiment, watch, ending| experiment.load(watch, ending))
}
