//! `brownout run`: a scenario against a real server, to a verdict.

use crate::cli::RunArgs;
use crate::experiment::{Ending, Experiment};
use crate::view::View;
use crate::{outdir, signals, source, table};
use anyhow::{Context, Result};
use brownout_runner::report::Report;
use std::path::Path;
use std::process::ExitCode;

/// Runs all phases; the exit code is the verdict.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    with_experiment(args, |experiment, watch, ending| experiment.run(watch, ending))
}

/// Reads what the arguments name, does `what`, and says how it came out.
#[allow(clippy::print_stdout, reason = "the verdict is what this command prints")]
pub(crate) fn with_experiment(
    args: &RunArgs,
    what: impl FnOnce(&Experiment<'_>, &mut dyn crate::experiment::Watch, &Ending) -> Result<Report>,
) -> Result<ExitCode> {
    let scenario = source::read(&args.file)?;
    let target = args.target.clone().or_else(|| scenario.spec.target.url.clone()).with_context(|| {
        format!("{} names no server: add `target: {{url: ...}}` or give --target URL", args.file.display())
    })?;
    let out = outdir::prepare(args.out.as_deref(), &scenario.metadata.name)?;
    let ending = Ending::default();
    let interrupt = ending.clone();
    signals::on_interrupt(move || interrupt.end("interrupted"))?;
    let experiment = Experiment {
        scenario: &scenario,
        base: args.file.parent().unwrap_or(Path::new(".")).to_owned(),
        target,
        seed: args.seed.unwrap_or(scenario.spec.seed),
        out: &out,
    };
    let mut view = View::new(&scenario.metadata.name);
    let report = what(&experiment, &mut view, &ending)?;
    drop(view);
    println!("{}", table::summary(&report));
    println!("reports: {}", out.join("report.html").display());
    Ok(report.verdict.exit_code.into())
}
