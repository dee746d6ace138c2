//! `brownout proxy`: only the proxy, with the scenario's faults live at once.

use crate::cli::ProxyArgs;
use crate::journal::JournalFile;
use crate::signals::{Came, Signals, runtime};
use crate::{exit, source};
use anyhow::{Context, Result};
use brownout_injector::Plan;
use brownout_proxy::{Config, Control, Proxy};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long requests in flight may take to finish after SIGTERM.
const DRAIN: Duration = Duration::from_secs(30);

/// Serves until SIGTERM or SIGINT, then drains. SIGHUP reads the scenario again.
#[allow(clippy::print_stdout, reason = "scripts read the addresses from the first lines")]
pub(crate) fn run(args: &ProxyArgs) -> Result<ExitCode> {
    let plan = args.scenario.as_deref().map(|file| plan_of(file, args.seed)).transpose()?;
    let mut config = Config::new(args.listen, args.upstream.parse()?);
    config.admin = args.admin;
    config.workers = match args.workers {
        Some(n) => n.max(1),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let journal = match &args.journal {
        Some(path) => {
            let (name, seed) = plan.as_ref().map_or(("none", 0), |plan| (plan.scenario.as_str(), plan.seed));
            let file = JournalFile::create(path, Instant::now(), name, seed)?;
            config.journal = file.journal();
            Some(file)
        }
        None => None,
    };
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let proxy = Proxy::start(config)?;
    let control = proxy.control();
    if let Some(plan) = plan {
        control.arm(plan, None);
    }
    println!("listening on http://{}", proxy.addr());
    if let Some(admin) = proxy.admin_addr() {
        println!("admin on http://{admin}");
    }
    while runtime.block_on(signals.next()) == Came::Hangup {
        if let Some(file) = &args.scenario {
            rearm(&control, file, args.seed);
        }
    }
    drop(control);
    proxy.shutdown(DRAIN);
    journal.map(JournalFile::finish).transpose()?;
    Ok(ExitCode::SUCCESS)
}

fn plan_of(file: &Path, seed: Option<u64>) -> Result<Plan> {
    Ok(Plan::compile(&source::read(file)?, seed))
}

/// Arms what the file says now. A bad file is refused, and the plan before stays.
#[allow(clippy::print_stderr, reason = "this is where operators look")]
fn rearm(control: &Control, file: &Path, seed: Option<u64>) {
    match plan_of(file, seed).context("the file is refused, the plan before stays") {
        Ok(plan) => {
            eprintln!("armed {} from {}", plan.scenario, file.display());
            control.arm(plan, None);
        }
        Err(error) => exit::complain(&error),
    }
}
