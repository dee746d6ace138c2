//! `brownout sim`: only the stand-in server.

use crate::cli::SimArgs;
use crate::exit::say;
use crate::signals;
use anyhow::Result;
use brownout_sim::{Sim, SimConfig};
use std::process::ExitCode;

/// Serves until a signal comes, then drains.
pub(crate) fn run(args: &SimArgs) -> Result<ExitCode> {
    let config = SimConfig { listen: args.listen, seed: args.seed, ..SimConfig::default() };
    signals::runtime()?.block_on(async {
        let mut signals = signals::Signals::new()?;
        let sim = Sim::start(config).await?;
        say(format!("listening on {}", sim.url()));
        signals.terminate().await;
        sim.shutdown().await;
        Ok(ExitCode::SUCCESS)
    })
}
