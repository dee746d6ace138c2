//! One experiment from its first request to its reports: what `run`, `load` and `demo` have in common.
//!
//! ```text
//! load runner ──phase──► Conductor ──arm, renew, heal──► proxy control
//!             ──ended──►           ──► abort guards      journal ◄── proxy
//! ```

use crate::journal::JournalFile;
use anyhow::{Context, Result};
use brownout_injector::journal::What;
use brownout_injector::scenario::Load;
use brownout_injector::{Plan, Scenario, sla};
use brownout_proxy::{Config, Control, Journal, Proxy};
use brownout_runner::load::{LoadRun, Observer, Progress, Stop, Target, attribute, server_metrics};
use brownout_runner::record::{Outcome, Phase, RequestRecord};
use brownout_runner::report::{Meta, Mode, Report, ServerMetrics, clear, write_all};
use brownout_runner::sla::AbortGuard;
use brownout_runner::summary::effect::RuleCount;
use brownout_runner::summary::failed;
use brownout_runner::verdict::cut_short_by_guard;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long the faults outlive whoever renews their lease: the time after which a system is healthy again whatever
/// happened to us.
const LEASE: Duration = Duration::from_secs(10);

/// How long the proxy may take to let the last requests go.
const GRACE: Duration = Duration::from_secs(1);

/// So many requests must have failed, and none succeeded, before the faults are called off.
const FEWEST_FAILED: u64 = 5;

/// What to do.
pub(crate) struct Experiment<'a> {
    /// The scenario.
    pub(crate) scenario: &'a Scenario,
    /// What files in the scenario are relative to.
    pub(crate) base: PathBuf,
    /// Base URL of the server.
    pub(crate) target: String,
    /// Seed of decisions and load.
    pub(crate) seed: u64,
    /// Where the reports go.
    pub(crate) out: &'a Path,
}

/// Who watches.
pub(crate) trait Watch {
    /// About ten times a second.
    fn progress(&mut self, progress: &Progress);
}

/// Ends the experiment from elsewhere: heals first, then stops the load. May come at any time, also too early.
#[derive(Clone, Default)]
pub(crate) struct Ending {
    stop: Stop,
    control: Arc<Mutex<Option<Control>>>,
}

impl Ending {
    /// Ends it now, for this reason.
    pub(crate) fn end(&self, why: &str) {
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock that arming takes too: nothing is armed after it.
        self.stop.stop(why);
        if let Some(control) = &*control {
            control.heal(why);
        }
    }

    /// Why it was ended.
    pub(crate) fn reason(&self) -> Option<String> {
        self.stop.reason()
    }

    fn set_control(&self, control: Option<Control>) {
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = control;
    }

    /// Arms what `plan` makes, unless it is all over already.
    fn arm(&self, plan: impl FnOnce() -> Plan) {
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(control), None) = (&*control, self.reason()) {
            control.arm(plan(), Some(LEASE));
        }
    }
}

impl Experiment<'_> {
    /// Breaks the server through a proxy while the load measures it; writes all reports and gives the report.
    pub(crate) fn run(&self, watch: &mut dyn Watch, ending: &Ending) -> Result<Report> {
        let load = self.load_spec()?;
        let before = server_metrics(&self.target);
        let (started, begun) = (now(), Instant::now());
        let journal = self.journal(begun)?;
        let mut config = Config::new(
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            Target::parse(&self.target)?.base().parse()?,
        );
        config.journal = journal.journal();
        let proxy = Proxy::start(config)?;
        let control = proxy.control();
        ending.set_control(Some(control.clone()));
        let url = format!("http://{}", proxy.addr());
        let outcome = self.measure(load, url, begun, watch, ending, Some(&control), &journal);
        control.heal("ended");
        ending.set_control(None);
        proxy.shutdown(GRACE);
        let counts: Vec<RuleCount> = control
            .status()
            .rules
            .into_iter()
            .map(|rule| RuleCount { fault: rule.fault, eligible: rule.eligible, chosen: rule.chosen })
            .collect();
        drop(control);
        self.report(outcome, journal, &counts, self.meta(Mode::Run, started, before))
    }

    /// The load and its measurement alone.
    pub(crate) fn load(&self, watch: &mut dyn Watch, ending: &Ending) -> Result<Report> {
        let load = self.load_spec()?;
        let before = server_metrics(&self.target);
        let (started, begun) = (now(), Instant::now());
        let journal = self.journal(begun)?;
        let outcome = self.measure(load, self.target.clone(), begun, watch, ending, None, &journal);
        self.report(outcome, journal, &[], self.meta(Mode::Load, started, before))
    }

    fn load_spec(&self) -> Result<Load> {
        let name = &self.scenario.metadata.name;
        let load = self.scenario.spec.load.clone();
        load.with_context(|| format!("scenario {name} has no load: say under `spec.load` what to send"))
    }

    /// Begins the journal, and with it the files of this run: those of an older one go.
    fn journal(&self, begun: Instant) -> Result<JournalFile> {
        clear(self.out)?;
        JournalFile::create(
            &self.out.join("journal.jsonl"),
            begun,
            &self.scenario.metadata.name,
            self.seed,
            true,
        )
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one run, brought together here alone")]
    fn measure(
        &self,
        load: Load,
        url: String,
        begun: Instant,
        watch: &mut dyn Watch,
        ending: &Ending,
        control: Option<&Control>,
        journal: &JournalFile,
    ) -> Result<brownout_runner::record::Recording> {
        let mut run = LoadRun::new(load, url, self.seed, phases(self.scenario));
        run.base.clone_from(&self.base);
        run.begun = Some(begun);
        let abort =
            self.scenario.spec.abort.iter().map(|line| sla::parse(line)).collect::<Result<Vec<_>, _>>()?;
        let mut conductor = Conductor {
            scenario: self.scenario,
            seed: self.seed,
            control,
            journal: journal.journal(),
            guard: AbortGuard::new(&abort),
            healthy: false,
            failed: 0,
            ending,
            begun,
            watch,
        };
        Ok(brownout_runner::load::run(&run, &mut conductor, &ending.stop)?)
    }

    /// Where the numbers come from; asks the server for its own once more.
    fn meta(&self, mode: Mode, started: String, before: BTreeMap<String, f64>) -> Meta {
        let after = server_metrics(&self.target);
        Meta {
            mode,
            target: self.target.clone(),
            started,
            brownout_version: env!("CARGO_PKG_VERSION").to_owned(),
            server: (!after.is_empty()).then_some(ServerMetrics { before, after }),
        }
    }

    fn report(
        &self,
        outcome: Result<brownout_runner::record::Recording>,
        journal: JournalFile,
        counts: &[RuleCount],
        meta: Meta,
    ) -> Result<Report> {
        // A full disk is no reason to throw a measurement away: the journal is written whole with the reports, and
        // that says why where it fails again.
        let (entries, _) = journal.finish()?;
        let mut recording = outcome?;
        attribute(&mut recording.requests, &entries);
        let report = Report::build(self.scenario, self.seed, &recording, &entries, counts, &meta);
        write_all(self.out, &report, &recording, &entries).with_context(|| {
            let verdict = &report.verdict;
            format!("{}: {}; but not all of its files can be written", verdict.kind.word(), verdict.headline)
        })?;
        Ok(report)
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

fn phases(scenario: &Scenario) -> Vec<(Phase, Duration)> {
    let phases = &scenario.spec.phases;
    vec![
        (Phase::Warmup, phases.warmup.0),
        (Phase::Baseline, phases.baseline.0),
        (Phase::Fault, phases.fault.0),
        (Phase::Recovery, phases.recovery.0),
    ]
}

/// Arms and heals at the borders of phases, and keeps the lease for as long as the load makes progress.
struct Conductor<'a> {
    scenario: &'a Scenario,
    seed: u64,
    control: Option<&'a Control>,
    journal: Journal,
    guard: AbortGuard,
    /// Whether a request ever ended well, or tokens flow.
    healthy: bool,
    /// Requests that failed so far.
    failed: u64,
    ending: &'a Ending,
    begun: Instant,
    watch: &'a mut dyn Watch,
}

impl Conductor<'_> {
    fn heal(&self) {
        if let Some(control) = self.control {
            control.heal("ended");
        }
    }
}

impl Observer for Conductor<'_> {
    fn phase(&mut self, phase: Phase) {
        self.heal();
        self.journal.write(What::Phase { name: phase.name().to_owned() });
        if phase == Phase::Fault && self.control.is_some() {
            if !self.healthy && self.failed >= FEWEST_FAILED {
                self.ending.end("there was nothing to break, as no request had succeeded");
            }
            self.ending.arm(|| Plan::compile(self.scenario, Some(self.seed)));
        }
    }

    fn request(&mut self, record: &RequestRecord) {
        self.guard.observe(record);
        self.healthy |= record.outcome == Outcome::Ok;
        self.failed += u64::from(failed(record.outcome));
    }

    fn progress(&mut self, progress: &Progress) {
        if let Some(control) = self.control {
            control.renew();
        }
        self.healthy |= progress.tokens_per_second > 0.0;
        if let Some(why) = self.guard.check(self.begun.elapsed().as_secs_f64()) {
            self.ending.end(&cut_short_by_guard(&why));
        }
        self.watch.progress(progress);
    }

    fn sending_ended(&mut self) {
        self.heal();
    }
}
