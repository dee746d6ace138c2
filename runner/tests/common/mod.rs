//! A made-up run, the same on every machine: what a healthy server, a slow one and a refusing one would have done.
#![allow(dead_code, reason = "each test binary uses its own part")]

use brownout_injector::draw::Normal as _;
use brownout_injector::journal::{Entry, Fired, What};
use brownout_injector::{Draw, Scenario, load};
use brownout_runner::record::{ClientHealth, Outcome, Phase, Recording, RequestRecord};
use brownout_runner::report::{Meta, Mode, Report};
use brownout_runner::summary::effect::RuleCount;

/// The scenario of the sample report.
pub(crate) const STORY: &str = "
apiVersion: brownout.dev/v1alpha1
kind: Scenario
metadata: {name: slow-decode}
spec:
  description: Half of the streams decode at a crawl, and for a while one request in eight is refused
  owner: serving-oncall
  certifies: clients give up in time, and TTFT recovers within 10 s
  seed: 7
  target: {url: http://127.0.0.1:8000}
  phases: {warmup: 5s, baseline: 40s, fault: 40s, recovery: 25s}
  faults:
    - name: slow-decode
      slowTokens: {delay: {lognormal: {median: 60ms, p99: 400ms}}}
      when: {probability: 0.5}
    - name: overload
      httpError: {status: 503}
      when: {probability: 0.125, after: 15s, for: 12s}
  load:
    arrival: {poisson: {rate: 12}}
    prompt: {tokens: {uniform: {min: 64, max: 512}}}
    output: {tokens: {constant: 48}}
  sla:
    - ttft p95 < 800ms
    - itl p99 < 3x baseline
    - error rate < 5%
    - goodput > 5/s
    - recovers within 10s
  abort:
    - error rate > 50% for 10s
";

/// All that a report is made of.
pub(crate) struct Run {
    pub(crate) scenario: Scenario,
    pub(crate) recording: Recording,
    pub(crate) journal: Vec<Entry>,
    pub(crate) counts: Vec<RuleCount>,
    pub(crate) meta: Meta,
}

impl Run {
    pub(crate) fn report(&self) -> Report {
        Report::build(
            &self.scenario,
            self.scenario.spec.seed,
            &self.recording,
            &self.journal,
            &self.counts,
            &self.meta,
        )
    }
}

/// A scenario from text.
pub(crate) fn scenario(text: &str) -> Scenario {
    load::load("story.yaml", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// What a run on a target would say of itself.
pub(crate) fn meta(mode: Mode) -> Meta {
    Meta {
        mode,
        target: "http://127.0.0.1:8000".to_owned(),
        started: "2026-06-01T09:00:00Z".to_owned(),
        brownout_version: "0.1.0".to_owned(),
        server: None,
    }
}

fn micros(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// A request that ended with `outcome` and got no token.
pub(crate) fn failed_request(number: u64, phase: Phase, at: f64, outcome: Outcome) -> RequestRecord {
    RequestRecord {
        number,
        phase,
        scheduled: at,
        sent: at,
        ended: micros(at + 0.004),
        outcome,
        error: None,
        status: None,
        faults: Vec::new(),
        headers: None,
        ttft: None,
        ttfo: None,
        last_token: None,
        gaps: Vec::new(),
        chunks: 0,
        coalesced: 0,
        output_tokens: 0,
        tokens_from_usage: false,
        prompt_tokens: None,
        cached_tokens: None,
        max_tokens: 48,
        finish: None,
        prompt_hash: number,
        answer_hash: 0,
    }
}

/// A complete request: first token after `ttft`, then `gaps`.
pub(crate) fn complete_request(
    number: u64,
    phase: Phase,
    at: f64,
    ttft: f64,
    gaps: Vec<f32>,
) -> RequestRecord {
    let (ttft, tokens) = (micros(ttft), gaps.len() as u32 + 1);
    let last = micros(ttft + gaps.iter().map(|gap| f64::from(*gap)).sum::<f64>());
    RequestRecord {
        ended: micros(at + last + 0.000_5),
        status: Some(200),
        headers: Some(micros(ttft * 0.9)),
        ttft: Some(ttft),
        ttfo: Some(ttft),
        last_token: Some(last),
        chunks: tokens,
        output_tokens: tokens,
        tokens_from_usage: true,
        prompt_tokens: Some(256),
        finish: Some("length".to_owned()),
        answer_hash: number ^ 0x5bd1,
        gaps,
        ..failed_request(number, phase, at, Outcome::Ok)
    }
}

/// The run of [`STORY`], with every delay of the fault multiplied by `harm`. With `harm` 0 nothing happens to anyone,
/// although faults fire.
pub(crate) fn story(harm: f64) -> Run {
    let scenario = scenario(STORY);
    let ends =
        [(Phase::Warmup, 5.0), (Phase::Baseline, 45.0), (Phase::Fault, 85.0), (Phase::Recovery, 110.0)];
    let (armed, healed) = (45.0, 85.0);
    let (mut requests, mut journal) = (Vec::new(), vec![begin()]);
    let mut counts = [("slow-decode", 0, 0), ("overload", 0, 0)];
    let (mut at, mut number, mut slowness) = (0.0, 0_u64, 0.0_f64);
    loop {
        let draw = Draw::new(11, "story", number);
        at = micros(at - (1.0 - draw.unit(0)).ln() / 12.0);
        let Some((phase, _)) = ends.iter().find(|(_, end)| at < *end) else { break };
        let mut request;
        let in_fault = *phase == Phase::Fault;
        let slow = in_fault && draw.fork("slow").unit(0) < 0.5;
        let late = in_fault && (15.0..27.0).contains(&(at - armed));
        let refused = late && draw.fork("refuse").unit(0) < 0.125;
        // Slow streams hold their places in the batch, so that first tokens wait: more and more, and for a while after.
        let goal = if in_fault { 1.0 } else { 0.0 };
        slowness += (goal - slowness) * 0.03;
        if in_fault {
            counts[0].1 += 1;
            counts[0].2 += u64::from(slow);
        }
        if late {
            counts[1].1 += 1;
            counts[1].2 += u64::from(refused);
        }
        if refused && harm > 0.0 {
            request = failed_request(number, *phase, at, Outcome::Http5xx);
            request.status = Some(503);
            request.faults = vec!["overload".to_owned()];
            journal.push(fired(at, "overload", "httpError", number, 1, 0.0));
        } else {
            let ttft = 0.09 * (0.25 * draw.normal(20)).exp() * (1.0 + 4.0 * harm * slowness);
            let mut asked = 0.0;
            let gaps = (0..47_u64).map(|i| {
                let own = 0.02 * (0.12 * draw.normal(40 + i)).exp() * (1.0 + 0.15 * harm * slowness);
                let added =
                    if slow { harm * 0.06 * (0.815 * draw.fork("delay").normal(i)).exp() } else { 0.0 };
                asked += added;
                micros(own + added) as f32
            });
            let gaps: Vec<f32> = gaps.collect();
            request = complete_request(number, *phase, at, ttft, gaps);
            if slow {
                request.faults = vec!["slow-decode".to_owned()];
                journal.push(fired(at + ttft, "slow-decode", "slowTokens", number, 48, asked * 1e3));
            }
            if draw.fork("chance").unit(0) < 0.004 {
                request = failed_request(number, *phase, at, Outcome::ResetMidstream);
            }
        }
        requests.push(request);
        number += 1;
    }
    let phase = |at: f64, name: &str| Entry { at, what: What::Phase { name: name.to_owned() } };
    journal.extend([
        phase(0.0, "warmup"),
        phase(5.0, "baseline"),
        phase(45.0, "fault"),
        phase(85.0, "recovery"),
    ]);
    for (fault, kind) in [("slow-decode", "slowTokens"), ("overload", "httpError")] {
        let what = What::Armed { fault: fault.to_owned(), kind: kind.to_owned(), ends_in: 40.0 };
        journal.push(Entry { at: armed, what });
    }
    journal.push(Entry { at: healed, what: What::Healed { reason: "ended".to_owned() } });
    journal.sort_by(|a, b| a.at.total_cmp(&b.at));
    let recording = Recording {
        requests,
        phases: vec![
            (Phase::Warmup, 0.0, 5.0),
            (Phase::Baseline, 5.0, 45.0),
            (Phase::Fault, 45.0, 85.0),
            (Phase::Recovery, 85.0, 110.0),
        ],
        client: ClientHealth { cpu: 0.06, send_lag_p99: 0.0011, loop_lag_p99: 0.0013, loop_lag_max: 0.007 },
        cut_short: None,
    };
    let counts = counts
        .map(|(fault, eligible, chosen)| RuleCount { fault: fault.to_owned(), eligible, chosen })
        .to_vec();
    Run { scenario, recording, journal, counts, meta: meta(Mode::Run) }
}

fn begin() -> Entry {
    let time = "2026-06-01T09:00:00Z".to_owned();
    Entry { at: 0.0, what: What::Begin { scenario: "slow-decode".to_owned(), seed: 7, time } }
}

fn fired(at: f64, fault: &str, kind: &str, n: u64, touched: u64, asked_ms: f64) -> Entry {
    let asked_ms = micros(asked_ms);
    let given_ms =
        if asked_ms > 0.0 { micros(asked_ms + 0.4 * Draw::new(1, "given", n).unit(0)) } else { 0.0 };
    let (fault, kind, path) = (fault.to_owned(), kind.to_owned(), "/v1/chat/completions".to_owned());
    let (request, process, note) = (Some(n), None, String::new());
    let fired = Fired { fault, kind, n, request, process, path, touched, asked_ms, given_ms, note };
    Entry { at: micros(at), what: What::Fired(fired) }
}
