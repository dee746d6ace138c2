//! `brownout demo`: the shipped stories against the stand-in server, one after the other.

use crate::cli::DemoArgs;
use crate::exit::say;
use crate::experiment::{Ending, Experiment};
use crate::view::View;
use crate::{outdir, signals, table};
use anyhow::{Context, Result};
use brownout_injector::Scenario;
use brownout_injector::load::load;
use brownout_injector::scenario::Phases;
use brownout_injector::units::TimeSpan;
use brownout_runner::report::{Mode, Report};
use brownout_sim::{Sim, SimConfig};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The stories, in the order in which they are told. They travel inside the binary.
const STORIES: [(&str, &str); 5] = [
    ("slow-decode.yaml", include_str!("../../scenarios/slow-decode.yaml")),
    ("stalled-streams.yaml", include_str!("../../scenarios/stalled-streams.yaml")),
    ("cut-answers.yaml", include_str!("../../scenarios/cut-answers.yaml")),
    ("rate-limited.yaml", include_str!("../../scenarios/rate-limited.yaml")),
    ("cold-cache.yaml", include_str!("../../scenarios/cold-cache.yaml")),
];

const fn seconds(n: u64) -> TimeSpan {
    TimeSpan(Duration::from_secs(n))
}

/// Phases long enough for narrow intervals; about four minutes in all.
const USUAL: Phases =
    Phases { warmup: seconds(2), baseline: seconds(15), fault: seconds(15), recovery: seconds(15) };

/// Phases just long enough for a p95; under a minute in all.
const QUICK: Phases = Phases {
    warmup: TimeSpan(Duration::from_millis(500)),
    baseline: seconds(4),
    fault: TimeSpan(Duration::from_millis(3_500)),
    recovery: TimeSpan(Duration::from_millis(2_500)),
};

/// Tells the stories and prints one table. A story whose SLA is broken is what a demo is for: it ends well unless a
/// story could not be told.
pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode> {
    let ending = Ending::default();
    let interrupt = ending.clone();
    signals::on_interrupt(move || interrupt.end("interrupted"))?;
    let phases = if args.quick { QUICK } else { USUAL };
    say(format!(
        "{} stories against the stand-in server; reports go to {}",
        STORIES.len(),
        args.out.display()
    ));
    let mut reports = Vec::new();
    for (file, text) in STORIES {
        if ending.reason().is_some() {
            break;
        }
        let mut scenario = load(file, text)?;
        scenario.spec.phases = phases.clone();
        let out = outdir::prepare(Some(&args.out.join(&scenario.metadata.name)), "")?;
        reports.push(tell(&scenario, &out, &ending).with_context(|| format!("the story of {file}"))?);
    }
    say(table::stories(&reports));
    say(format!("\nreports: {}", args.out.join("*/report.html").display()));
    Ok(match ending.reason() {
        Some(why) => {
            let told = reports.iter().filter(|report| report.cut_short.is_none()).count();
            let all = STORIES.len();
            say(format!("Ended after {told} of {all} stories: {why}. The demo ends with exit code 3."));
            ExitCode::from(3)
        }
        None => {
            say("A broken SLA is what each of these stories is for: the demo ends with exit code 0.");
            ExitCode::SUCCESS
        }
    })
}

/// Tells one story, against a server of its own so that none inherits a warm cache.
fn tell(scenario: &Scenario, out: &Path, ending: &Ending) -> Result<Report> {
    let runtime = signals::runtime()?;
    let sim = runtime.block_on(Sim::start(SimConfig::default()))?;
    let experiment =
        Experiment { scenario, base: ".".into(), target: sim.url(), seed: scenario.spec.seed, out };
    let report = experiment.run(&mut View::new(&scenario.metadata.name, Mode::Run), ending);
    runtime.block_on(sim.shutdown());
    report
}
