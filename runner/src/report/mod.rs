//! The report of a run: one value that holds every number, and the forms in which people and machines read it.

mod curves;
pub mod files;
pub mod html;
pub mod junit;
mod many;
pub mod markdown;
pub mod picture;
mod svg;
pub mod text;

pub use curves::Curve;
pub use files::{ReportError, clear, read_report, render_again, write_all};

use crate::record::{ClientHealth, Outcome, Phase, Recording, RequestRecord};
use crate::sla::cut_off;
use crate::sla::lateness::Part;
use crate::sla::{Evidence, LineOutcome, LineResult, judge};
use crate::stats::quantile::of_sorted;
use crate::summary::data::PhaseData;
use crate::summary::degradation::{Change, Shift, changes, shifts};
use crate::summary::effect::{Aligned, FaultProof, FaultWindow, RuleCount};
use crate::summary::good::GoodRule;
use crate::summary::phase::{PhaseSummary, outcomes};
use crate::summary::recovery::{Detection, Recovery, detect, recover};
use crate::summary::timeline::Timeline;
use crate::verdict::{Grounds, Verdict, client_findings, reach, unmade};
use brownout_injector::Scenario;
use brownout_injector::journal::{Entry, What};
use brownout_injector::sla::Line;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of `report.json`. Raised with every change that a reader of the old one would misread.
pub const REPORT_VERSION: u32 = 1;

/// What a run was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Faults between baseline and recovery.
    #[default]
    Run,
    /// The load alone: everything after the warm-up is judged as one phase.
    Load,
}

impl Mode {
    /// The word for a phase. A run of load alone has one that is measured, whatever the scenario calls its parts.
    #[must_use]
    pub const fn phase_name(self, phase: Phase) -> &'static str {
        match (self, phase) {
            (Self::Run, _) | (_, Phase::Warmup) => phase.name(),
            (Self::Load, _) => "load",
        }
    }
}

/// What a report says about where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// What kind of run it was.
    pub mode: Mode,
    /// The server that was measured.
    pub target: String,
    /// Wall-clock time at which the run began, in RFC 3339.
    pub started: String,
    /// The version of Brownout.
    pub brownout_version: String,
    /// The server's own metrics before and after the run, where it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerMetrics>,
}

/// The server's own metrics, by name (labels included).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerMetrics {
    /// Before the run.
    pub before: BTreeMap<String, f64>,
    /// After it.
    pub after: BTreeMap<String, f64>,
}

/// How many records a report was made of: files that have lost some would silently give other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// Requests.
    pub requests: u64,
    /// Entries of the journal.
    pub journal: u64,
}

/// A run in numbers. Times are seconds since the run began, durations are seconds, shares go from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub report_version: u32,
    /// What the run says.
    pub verdict: Verdict,
    /// Where the numbers come from.
    pub meta: Meta,
    /// The seed of every decision.
    pub seed: u64,
    /// How many records it was made of; not in reports of before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<Records>,
    /// How long the run lasted.
    pub duration: f64,
    /// Why it was cut short, if it was.
    pub cut_short: Option<String>,
    /// How each SLA line came out.
    pub sla: Vec<LineResult>,
    /// Each metric with faults, against the baseline.
    pub changes: Vec<Change>,
    /// How latencies moved as a whole: a description.
    pub shifts: Vec<Shift>,
    /// When the damage showed.
    pub detection: Option<Detection>,
    /// When it was over.
    pub recovery: Option<Recovery>,
    /// Each phase in numbers.
    pub phases: Vec<PhaseSummary>,
    /// What counts as a good request, in words.
    pub good_request: String,
    /// What each fault was asked to do, and did.
    pub faults: Vec<FaultProof>,
    /// When each fault could fire.
    pub fault_windows: Vec<FaultWindow>,
    /// How the client fared.
    pub client: ClientHealth,
    /// What makes the client unfit to measure anything, in words.
    pub client_findings: Vec<String>,
    /// How the client was late, in words: that spoils only what lateness could have decided.
    #[serde(default)]
    pub client_lateness: Vec<String>,
    /// Latency over percentile, for pictures.
    pub curves: Vec<Curve>,
    /// The run in bins of time, for pictures.
    pub timeline: Timeline,
    /// When each phase of the schedule began and ended, as requests name them; a run of load alone keeps these names
    /// and measures all but the warm-up as one phase, `load`.
    pub phase_spans: Vec<(Phase, f64, f64)>,
    /// How often each rule met a request and chose to fire.
    pub rule_counts: Vec<RuleCount>,
    /// The scenario.
    pub scenario: Scenario,
}

impl Report {
    /// Makes the report of a run: the same input gives the same report, to the last bit.
    #[must_use]
    pub fn build(
        scenario: &Scenario,
        seed: u64,
        recording: &Recording,
        journal: &[Entry],
        rule_counts: &[RuleCount],
        meta: &Meta,
    ) -> Self {
        let (phase_spans, client) = (tidy_phases(&recording.phases), tidy_client(&recording.client));
        let prepared = Prepared::new(scenario, &phase_spans, &recording.requests, meta.mode, seed);
        let aligned = Aligned::new(journal, &prepared.spans);
        let healed = aligned.healed();
        let (mut sla, recovery) = prepared.judge(scenario, meta.mode, healed);
        let mut client_findings = client_findings(&client, median_ttft(&recording.requests));
        client_findings.unfit.extend(unmade(&recording.requests));
        let lateness = client_findings.lateness;
        let parts: &[Part] = match meta.mode {
            Mode::Run => &[Part::Judged, Part::Baseline],
            Mode::Load => &[Part::Whole],
        };
        for part in parts.iter().filter(|_| lateness.any()) {
            let requests = lateness.without(*part, &recording.requests);
            let prepared = Prepared::new(scenario, &phase_spans, &requests, meta.mode, seed);
            let (without, _) = prepared.judge(scenario, meta.mode, healed);
            lateness.doubt(&prepared.lines, &mut sla, &without);
        }
        if let Some((requests, cut)) = cut_off::as_if_well(&recording.requests) {
            let well = Prepared::new(scenario, &phase_spans, &requests, meta.mode, seed);
            let (well, _) = well.judge(scenario, meta.mode, healed);
            cut_off::doubt(&prepared.lines, &mut sla, &well, cut);
        }
        let recovery_rule = prepared.recovery_rule();
        let Prepared { unread, spans, good, phases, .. } = prepared;
        let injected = aligned.injected(&recording.requests);
        let phase = |wanted: Phase| phases.iter().find(|phase| phase.phase == wanted);
        let (baseline, fault) = (phase(Phase::Baseline), phase(Phase::Fault));
        let run = meta.mode == Mode::Run;
        let pair = baseline.zip(fault).filter(|_| run);

        let with_faults = pair.filter(|_| !scenario.spec.faults.is_empty());
        let faults = if run { aligned.proofs(scenario, rule_counts) } else { Vec::new() };
        let duration = spans.iter().map(|(.., end)| *end).fold(0.0, f64::max);
        let fault_windows = if run { aligned.windows(scenario, duration) } else { Vec::new() };
        let detection = with_faults.map(|(baseline, fault)| {
            // Not from the first firing: the journal tells of that only as the request ends.
            let first = fault_windows.iter().map(|window| window.from).min_by(f64::total_cmp);
            let from = first.unwrap_or(fault.start).max(fault.start);
            detect(baseline, fault, from, &recovery_rule)
        });
        let verdict = reach(&Grounds {
            lines: &sla,
            faults: run.then_some(&faults),
            armed: journal.iter().any(|entry| matches!(entry.what, What::Armed { .. })),
            client: &client_findings,
            cut_short: recording.cut_short.as_deref(),
            invalid: unread.or_else(|| invalid(recording.requests.len(), &phases, &sla, run)),
        });
        Self {
            report_version: REPORT_VERSION,
            verdict,
            meta: meta.clone(),
            seed,
            records: Some(Records {
                requests: recording.requests.len() as u64,
                journal: journal.len() as u64,
            }),
            duration,
            cut_short: recording.cut_short.clone(),
            sla,
            changes: pair.map(|(baseline, fault)| changes(baseline, fault)).unwrap_or_default(),
            shifts: pair.map(|(baseline, fault)| shifts(baseline, fault)).unwrap_or_default(),
            detection,
            recovery,
            phases: phases
                .iter()
                .filter(|phase| phase.duration() > 0.0 || !phase.requests.is_empty())
                .map(|phase| PhaseSummary::new(phase, meta.mode.phase_name(phase.phase), &injected))
                .collect(),
            good_request: good.in_words(),
            faults,
            fault_windows,
            client,
            client_findings: client_findings.unfit,
            client_lateness: client_findings.late,
            curves: phases
                .iter()
                .flat_map(|phase| curves::of_phase(phase, meta.mode.phase_name(phase.phase)))
                .collect(),
            timeline: Timeline::new(&recording.requests, duration, &good, &injected),
            phase_spans,
            rule_counts: rule_counts.to_vec(),
            scenario: scenario.clone(),
        }
    }

    /// The scenario's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.scenario.metadata.name
    }

    /// The phases as they are shown, by name and in order: in a run of load alone, what was measured is one.
    #[must_use]
    pub fn shown_phases(&self) -> Vec<(&'static str, f64, f64)> {
        let mut shown: Vec<(&str, f64, f64)> = Vec::new();
        for (phase, start, end) in &self.phase_spans {
            let name = self.meta.mode.phase_name(*phase);
            match shown.last_mut().filter(|(last, ..)| *last == name) {
                Some(last) => last.2 = last.2.max(*end),
                None => shown.push((name, *start, *end)),
            }
        }
        shown
    }

    /// The summary of a phase, by its name.
    #[must_use]
    pub fn phase(&self, name: &str) -> Option<&PhaseSummary> {
        self.phases.iter().find(|phase| phase.phase == name)
    }
}

/// The requests of a run arranged by phase, and judged by its own SLA lines.
pub(crate) struct Prepared<'r> {
    lines: Vec<Line>,
    /// Why a line could not be read.
    unread: Option<String>,
    spans: Vec<(Phase, f64, f64)>,
    good: GoodRule,
    /// Baseline, fault and recovery; in a run of load alone only one.
    pub(crate) phases: Vec<PhaseData<'r>>,
}

impl<'r> Prepared<'r> {
    /// Arranges `requests`.
    pub(crate) fn new(
        scenario: &Scenario,
        phase_spans: &[(Phase, f64, f64)],
        requests: &'r [RequestRecord],
        mode: Mode,
        seed: u64,
    ) -> Self {
        let (lines, unread) = read_lines(&scenario.spec.sla);
        let spans = spans(phase_spans, requests, mode);
        let mut phases = gather(requests, &spans, mode, seed);
        let baseline = phases.iter().find(|phase| phase.phase == Phase::Baseline);
        // The load alone is its own baseline, and by that a relative line would bound nothing but its tail.
        let good = GoodRule::of_lines(&lines, baseline.filter(|_| mode == Mode::Run));
        let usual_gap = baseline.and_then(|baseline| baseline.usual_gap);
        phases.iter_mut().for_each(|phase| phase.judge(&good, usual_gap));
        Self { lines, unread, spans, good, phases }
    }

    fn phase(&self, wanted: Phase) -> Option<&PhaseData<'r>> {
        self.phases.iter().find(|phase| phase.phase == wanted)
    }

    /// By which recovery is seen. Where no line bounds a latency, it still has to be seen by something.
    fn recovery_rule(&self) -> GoodRule {
        match self.phase(Phase::Baseline) {
            Some(baseline) if self.good.is_empty() => GoodRule::like(baseline),
            _ => self.good.clone(),
        }
    }

    /// How each line came out, and how recovery went. `healed` is when the faults ended, where that is known.
    fn judge(
        &self,
        scenario: &Scenario,
        mode: Mode,
        healed: Option<f64>,
    ) -> (Vec<LineResult>, Option<Recovery>) {
        let (baseline, fault) = (self.phase(Phase::Baseline), self.phase(Phase::Fault));
        let run = mode == Mode::Run;
        let with_faults = baseline.zip(fault).filter(|_| run && !scenario.spec.faults.is_empty());
        let recovery = with_faults.map(|(baseline, fault)| {
            let after = self.phase(Phase::Recovery);
            recover(baseline, after, healed.unwrap_or(fault.end), &self.recovery_rule())
        });
        let evidence = Evidence {
            judged: if run { fault } else { baseline },
            baseline: baseline.filter(|_| run),
            recovery: recovery.as_ref(),
        };
        (judge(&self.lines, &evidence), recovery)
    }
}

/// Phases as the report keeps them, so that a report made again from its own files is the same.
fn tidy_phases(phases: &[(Phase, f64, f64)]) -> Vec<(Phase, f64, f64)> {
    phases
        .iter()
        .map(|(phase, start, end)| (*phase, files::nine_digits(*start), files::nine_digits(*end)))
        .collect()
}

/// The client's health as the report keeps it.
fn tidy_client(client: &ClientHealth) -> ClientHealth {
    ClientHealth {
        cpu: files::nine_digits(client.cpu),
        send_lag_p99: files::nine_digits(client.send_lag_p99),
        loop_lag_p99: files::nine_digits(client.loop_lag_p99),
        loop_lag_max: files::nine_digits(client.loop_lag_max),
    }
}

/// The SLA lines; and where one cannot be read, why.
fn read_lines(texts: &[String]) -> (Vec<Line>, Option<String>) {
    let mut lines = Vec::new();
    let mut unread = None;
    for text in texts {
        match brownout_injector::sla::parse(text) {
            Ok(line) => lines.push(line),
            Err(error) => unread = unread.or(Some(format!("the SLA line `{text}` cannot be read: {error}"))),
        }
    }
    (lines, unread)
}

/// The phases that matter, in order. Where the recording names none, they are taken from the requests; in a run of
/// load alone they are all one.
fn spans(known: &[(Phase, f64, f64)], requests: &[RequestRecord], mode: Mode) -> Vec<(Phase, f64, f64)> {
    let mut spans = known.to_vec();
    for request in requests {
        let (from, to) = (request.scheduled, request.ended.max(request.scheduled));
        if known.iter().any(|(phase, ..)| *phase == request.phase) {
            continue;
        }
        match spans.iter_mut().find(|(phase, ..)| *phase == request.phase) {
            Some((_, start, end)) => (*start, *end) = (start.min(from), end.max(to)),
            None => spans.push((request.phase, from, to)),
        }
    }
    spans.sort_by_key(|(phase, ..)| *phase);
    if mode == Mode::Load {
        let measured = || spans.iter().filter(|(phase, ..)| *phase != Phase::Warmup);
        let start = measured().map(|(_, start, _)| *start).min_by(f64::total_cmp);
        let end = measured().map(|(.., end)| *end).max_by(f64::total_cmp);
        let whole = start.zip(end).map(|(start, end)| (Phase::Baseline, start, end));
        spans = spans.into_iter().filter(|(phase, ..)| *phase == Phase::Warmup).chain(whole).collect();
    }
    spans
}

fn gather<'r>(
    all: &'r [RequestRecord],
    spans: &[(Phase, f64, f64)],
    mode: Mode,
    seed: u64,
) -> Vec<PhaseData<'r>> {
    let mut phases = Vec::new();
    let mut wanted = vec![Phase::Baseline];
    if mode == Mode::Run {
        wanted.extend([Phase::Fault, Phase::Recovery]);
    }
    for phase in wanted {
        let span = spans.iter().find(|(known, ..)| *known == phase).map(|(_, start, end)| (*start, *end));
        let belongs = |request: &&RequestRecord| match mode {
            Mode::Run => request.phase == phase,
            Mode::Load => request.phase != Phase::Warmup,
        };
        let requests: Vec<&RequestRecord> = all.iter().filter(belongs).collect();
        phases.push(PhaseData::new(phase, span.unwrap_or((0.0, 0.0)), requests, all, seed));
    }
    phases
}

fn median_ttft(requests: &[RequestRecord]) -> Option<f64> {
    let measured = requests.iter().filter(|request| request.phase != Phase::Warmup);
    let mut ttfts: Vec<f64> =
        measured.filter_map(|request| request.ttft).filter(|ttft| ttft.is_finite()).collect();
    ttfts.sort_unstable_by(f64::total_cmp);
    of_sorted(&ttfts, 0.5)
}

/// Why the run could not be carried out, if so. `sent`: all requests, those of the warm-up too.
fn invalid(sent: usize, phases: &[PhaseData<'_>], sla: &[LineResult], run: bool) -> Option<String> {
    if phases.iter().all(|phase| phase.requests.is_empty()) {
        // So it goes where a closed loop's number of requests is small: the warm-up uses it up.
        return Some(match sent {
            0 => "no request was sent".to_owned(),
            sent => format!(
                "no request was sent after the warm-up, which took all {} of them: ask for more, or for a shorter one",
                text::count(sent as u64)
            ),
        });
    }
    let dead = |phase: &PhaseData<'_>| {
        let alive = phase.requests.iter().any(|request| request.outcome == Outcome::Ok);
        !alive && phase.counted > 0
    };
    let how = |phase: &PhaseData<'_>| {
        let ends = outcomes(&phase.requests, &std::collections::HashSet::new());
        let said =
            |said: &Option<String>| said.as_ref().map_or_else(String::new, |said| format!(" (\"{said}\")"));
        let ends = ends.iter().take(3);
        let ends = ends.map(|end| format!("{} {}{}", text::count(end.organic), end.outcome, said(&end.said)));
        ends.collect::<Vec<_>>().join(", ")
    };
    let baseline = phases.iter().find(|phase| phase.phase == Phase::Baseline)?;
    if run && dead(baseline) {
        let how = how(baseline);
        return Some(format!("not one request of the baseline succeeded, before any fault was armed: {how}"));
    }
    let broken = sla.iter().any(|line| line.outcome == LineOutcome::Broken);
    if !run && dead(baseline) && !broken {
        return Some(format!("not one request succeeded: {}", how(baseline)));
    }
    None
}
