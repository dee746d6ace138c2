//! `brownout proxy`: only the proxy, with the scenario's faults live at once.

use crate::cli::ProxyArgs;
use crate::exit::say;
use crate::journal::{Console, JournalFile};
use crate::signals::{Came, Signals, runtime};
use crate::{exit, source};
use anyhow::{Context, Result};
use brownout_injector::Plan;
use brownout_proxy::{Config, Control, Journal, Proxy};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long requests in flight may take to finish after SIGTERM.
const DRAIN: Duration = Duration::from_secs(30);

/// Serves until SIGTERM or SIGINT, then drains. SIGHUP reads the scenario again.
pub(crate) fn run(args: &ProxyArgs) -> Result<ExitCode> {
    let plan = args.scenario.as_deref().map(|file| plan_of(file, args.seed)).transpose()?;
    let mut config = Config::new(args.listen, args.upstream.parse()?);
    config.admin = args.admin;
    config.workers = match args.workers {
        Some(n) => n.max(1),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let begun = Instant::now();
    let journal = match &args.journal {
        Some(path) => {
            let (name, seed) = plan.as_ref().map_or(("none", 0), |plan| (plan.scenario.as_str(), plan.seed));
            Some(JournalFile::create(path, begun, name, seed, false)?)
        }
        None => None,
    };
    let file = journal.as_ref().map(JournalFile::lines);
    config.journal = Journal::new(begun, Box::new(Console::new(file)));
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let proxy = Proxy::start(config)?;
    let control = proxy.control();
    if let Some(plan) = plan {
        control.arm(plan, None);
    }
    say(format!("listening on http://{}", proxy.addr()));
    if let Some(admin) = proxy.admin_addr() {
        say(format!("admin on http://{admin}"));
    }
    while runtime.block_on(signals.next()) == Came::Hangup {
        rearm(&control, args.scenario.as_deref(), args.seed);
    }
    drop(control);
    proxy.shutdown(DRAIN);
    if let Some(journal) = journal {
        journal.finish()?.1.context("cannot write the journal")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan_of(file: &Path, seed: Option<u64>) -> Result<Plan> {
    let scenario = source::read(file)?;
    source::only_on_the_wire(&scenario, file)?;
    Ok(Plan::compile(&scenario, seed))
}

/// Arms what the file says now. A bad file is refused, and the plan before stays.
fn rearm(control: &Control, file: Option<&Path>, seed: Option<u64>) {
    let plan = file
        .context("there is no file to read again: the proxy was started without --scenario")
        .and_then(|file| plan_of(file, seed).context("the file is refused, the plan before stays"));
    match plan {
        Ok(plan) => control.arm(plan, None),
        Err(error) => exit::complain(&error),
    }
}
