//! `brownout run`: a scenario against a real server, to a verdict.

use crate::cli::RunArgs;
use crate::exit::{note, say};
use crate::experiment::{Ending, Experiment};
use crate::view::View;
use crate::{outdir, signals, source, table};
use anyhow::{Context, Result};
use brownout_runner::load::{check_tls, first_model};
use brownout_runner::report::{Mode, Report};
use std::path::Path;
use std::process::ExitCode;

/// Runs all phases; the exit code is the verdict.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    with_experiment(args, Mode::Run, |experiment, watch, ending| experiment.run(watch, ending))
}

/// Reads what the arguments name, does `what`, and says how it came out.
pub(crate) fn with_experiment(
    args: &RunArgs,
    mode: Mode,
    what: impl FnOnce(&Experiment<'_>, &mut dyn crate::experiment::Watch, &Ending) -> Result<Report>,
) -> Result<ExitCode> {
    let mut scenario = source::read_to_run(&args.file)?;
    if mode == Mode::Run {
        source::only_on_the_wire(&scenario, &args.file)?;
    }
    let target = args.target.clone().or_else(|| scenario.spec.target.url.clone()).with_context(|| {
        format!("{} names no server: add `target: {{url: ...}}` or give --target URL", args.file.display())
    })?;
    let in_cluster = &scenario.spec.target;
    if in_cluster.selector.is_some() || in_cluster.mode.is_some() || !in_cluster.containers.is_empty() {
        note(format_args!(
            "note: `target.selector`, `containers` and `mode` choose pods in a cluster; here all goes to {target}"
        ));
    }
    // Asked of the server itself, and before anything is written: a wrong address is not worth a folder.
    check_tls(&target)?;
    if let Some(load) = &mut scenario.spec.load
        && load.model.is_none()
    {
        load.model = Some(first_model(&target, load)?);
    }
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
    let mut view = View::new(&scenario.metadata.name, mode);
    let report = what(&experiment, &mut view, &ending)?;
    drop(view);
    say(table::summary(&report));
    say(format!("reports: {}", out.join("report.html").display()));
    Ok(report.verdict.exit_code.into())
}
