//! The verdict: what the run says, and how sure that is.
//!
//! Nothing passes without proof. A fault that never fired, a client that measured itself, or a baseline that was
//! already broken make a run inconclusive, whatever the lines say. A client that was merely late makes those lines
//! inconclusive that its lateness could have decided (`sla::lateness`).

use crate::record::{ClientHealth, Outcome, RequestRecord};
use crate::report::text;
use crate::sla::lateness::Lateness;
use crate::sla::{LineOutcome, LineResult};
use crate::summary::effect::FaultProof;
use serde::{Deserialize, Serialize};

/// What a run says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VerdictKind {
    /// Every line holds.
    Pass,
    /// A line is broken.
    Broken,
    /// The run could not be carried out.
    Invalid,
    /// There is not enough evidence.
    Inconclusive,
    /// A guard ended the run.
    Aborted,
}

impl VerdictKind {
    /// The exit code: part of the interface.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Broken => 1,
            Self::Invalid => 2,
            Self::Inconclusive => 3,
            Self::Aborted => 4,
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Broken => "broken",
            Self::Invalid => "invalid",
            Self::Inconclusive => "inconclusive",
            Self::Aborted => "aborted",
        }
    }
}

/// The verdict with its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What the run says.
    pub kind: VerdictKind,
    /// The exit code that goes with it.
    pub exit_code: u8,
    /// In one sentence.
    pub headline: String,
    /// Why, most important first.
    pub reasons: Vec<String>,
}

/// Why a run was cut short, when a guard did it: `cut_short` of a recording begins with this.
pub const GUARD_PREFIX: &str = "abort guard: ";

/// The text for `Recording::cut_short` when an [`AbortGuard`](crate::sla::AbortGuard) has fired for `reason`.
#[must_use]
pub fn cut_short_by_guard(reason: &str) -> String {
    format!("{GUARD_PREFIX}{reason}")
}

/// A client that uses more of a core than this measures itself.
pub const MOST_CPU: f64 = 0.9;
/// Lateness below this many seconds does not spoil a run: a shared machine's scheduler is late by some milliseconds now
/// and then, and response times count from the scheduled send anyway. A saturated client is late by hundreds.
pub const LAG_THAT_NEVER_MATTERS: f64 = 0.020;
/// Lateness (99th percentile, of sends and of the event loop) up to this share of the median TTFT is bearable.
pub const LAG_SHARE_OF_TTFT: f64 = 0.1;
/// A single stall of the event loop longer than this many seconds spoils a run (a laptop that slept, say).
pub const LONGEST_STALL: f64 = 1.0;

/// The share of requests that the client may fail to make; beyond it those are missing that would have been the worst.
pub const MOST_UNMADE: f64 = 0.01;

/// What is wrong with the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientFindings {
    /// In words, what makes it unfit to measure anything.
    pub unfit: Vec<String>,
    /// In words, how it was late. That spoils only what lateness could have decided.
    pub late: Vec<String>,
    /// The same in numbers.
    pub lateness: Lateness,
}

/// Says where the client did not make so many of the requests that were due that the rest proves nothing.
#[must_use]
pub fn unmade(requests: &[RequestRecord]) -> Option<String> {
    let unmade = || requests.iter().filter(|request| request.outcome == Outcome::ClientCancelled);
    let (count, all) = (unmade().count(), requests.len());
    let why = unmade().find_map(|request| request.error.as_deref()).unwrap_or("it was cancelled");
    (count as f64 > MOST_UNMADE * all as f64).then(|| {
        format!(
            "the client could not make {} of {} requests, more than {}: {why}",
            text::count(count as u64),
            text::count(all as u64),
            text::share(MOST_UNMADE)
        )
    })
}

/// Judges the client. `ttft` is the median service time to the first token, in seconds.
#[must_use]
pub fn client_findings(client: &ClientHealth, ttft: Option<f64>) -> ClientFindings {
    let limit = LAG_THAT_NEVER_MATTERS.max(LAG_SHARE_OF_TTFT * ttft.unwrap_or(0.0));
    let mut findings = ClientFindings::default();
    if client.cpu > MOST_CPU {
        findings.unfit.push(format!(
            "the load generator used {} of its core, more than {}",
            text::share(client.cpu),
            text::share(MOST_CPU)
        ));
    }
    if client.loop_lag_max > LONGEST_STALL {
        findings
            .unfit
            .push(format!("the client's event loop stood still for {}", text::seconds(client.loop_lag_max)));
    }
    let rule = || {
        let slow = match ttft {
            Some(ttft) => format!(", or a tenth of the median TTFT of {}", text::seconds(ttft)),
            None => String::new(),
        };
        format!("bearable are {}{slow}", text::seconds(LAG_THAT_NEVER_MATTERS))
    };
    if client.send_lag_p99 > limit {
        findings.lateness.sends = true;
        let lag = text::seconds(client.send_lag_p99);
        findings.late.push(format!("1 % of requests were sent more than {lag} late ({})", rule()));
    }
    if client.loop_lag_p99 > limit {
        findings.lateness.reads = client.loop_lag_p99;
        let lag = text::seconds(client.loop_lag_p99);
        findings
            .late
            .push(format!("the client's event loop ran more than {lag} late 1 % of the time ({})", rule()));
    }
    findings
}

/// Faults that proved nothing and are named one by one.
const MOST_IDLE: usize = 20;

/// All that a verdict hangs on.
pub struct Grounds<'g> {
    /// How each line came out.
    pub lines: &'g [LineResult],
    /// What each fault did; nothing in a run of load alone, which is to prove nothing about faults.
    pub faults: Option<&'g [FaultProof]>,
    /// Whether a fault was ever armed.
    pub armed: bool,
    /// What is wrong with the client.
    pub client: &'g ClientFindings,
    /// Why the run was cut short, if it was.
    pub cut_short: Option<&'g str>,
    /// Why the run could not be carried out, if so.
    pub invalid: Option<String>,
}

/// Weighs the grounds. In this order: a guard that fired, a run that could not be carried out, doubts about the whole
/// measurement, broken lines, doubts about single lines, and only then a pass.
#[must_use]
pub fn reach(grounds: &Grounds<'_>) -> Verdict {
    let verdict = |kind: VerdictKind, headline: &str, reasons: Vec<String>| Verdict {
        kind,
        exit_code: kind.exit_code(),
        headline: headline.to_owned(),
        reasons,
    };
    let of = |outcome: LineOutcome| {
        let lines = grounds.lines.iter().filter(move |line| line.outcome == outcome);
        lines.map(|line| format!("{}: {}", line.line, line.reason)).collect::<Vec<_>>()
    };
    let cut = grounds.cut_short.map(|why| format!("the run was cut short: {why}"));
    if let Some(reason) = grounds.cut_short.and_then(|why| why.strip_prefix(GUARD_PREFIX)) {
        let mut reasons = vec![reason.to_owned()];
        // Whoever breaks it with nothing armed has not failed under a fault: something else is wrong.
        if grounds.faults.is_some() && !grounds.armed {
            reasons.extend(grounds.invalid.clone());
            return verdict(
                VerdictKind::Invalid,
                "A guard ended the run before any fault was armed",
                reasons,
            );
        }
        reasons.extend(of(LineOutcome::Broken));
        return verdict(VerdictKind::Aborted, "A guard ended the run and healed the faults", reasons);
    }
    if let Some(reason) = &grounds.invalid {
        let mut reasons = vec![reason.clone()];
        reasons.extend(cut);
        return verdict(VerdictKind::Invalid, "The run could not be carried out", reasons);
    }
    let never_armed =
        cut.is_some() && !grounds.armed && grounds.faults.is_some_and(|faults| !faults.is_empty());
    // Of faults whose time did not come, one sentence says it all.
    let idle = || grounds.faults.into_iter().flatten().filter(|fault| fault.fired == 0 && !never_armed);
    let mut doubts: Vec<String> = idle()
        .take(MOST_IDLE)
        .map(|fault| format!("fault `{}` proves nothing: {}", fault.fault, fault.odd.join("; ")))
        .collect();
    if never_armed {
        doubts.push("it ended before any fault was armed".to_owned());
    }
    match idle().count().saturating_sub(MOST_IDLE) {
        0 => {}
        more => {
            doubts.push(format!("{} more faults never fired and prove nothing", text::count(more as u64)))
        }
    }
    if grounds.faults.is_some_and(<[FaultProof]>::is_empty) {
        doubts.push(
            "the scenario has no faults, so nothing was put to the test; `brownout load` measures without"
                .to_owned(),
        );
    }
    doubts.extend(grounds.client.unfit.iter().cloned());
    let notes = || grounds.client.late.iter().map(|late| format!("note: {late}"));
    if !doubts.is_empty() {
        // First: it is why the rest is as it is.
        doubts.splice(..0, cut);
        doubts.extend(of(LineOutcome::Broken));
        doubts.extend(notes());
        return verdict(VerdictKind::Inconclusive, "The measurement proves nothing", doubts);
    }
    let broken = of(LineOutcome::Broken);
    let open = of(LineOutcome::Inconclusive);
    if !broken.is_empty() {
        let headline = match broken.len() {
            1 => "One SLA line is broken".to_owned(),
            n => format!("{n} SLA lines are broken"),
        };
        let mut reasons = broken;
        reasons.extend(open);
        reasons.extend(cut);
        reasons.extend(notes());
        return verdict(VerdictKind::Broken, &headline, reasons);
    }
    if !open.is_empty() || cut.is_some() {
        let mut reasons: Vec<String> = cut.into_iter().collect();
        reasons.extend(open);
        reasons.extend(notes());
        return verdict(VerdictKind::Inconclusive, "There is not enough evidence for a pass", reasons);
    }
    let passed = of(LineOutcome::Pass);
    let skipped = of(LineOutcome::NotJudged);
    let headline = match (passed.len(), skipped.len()) {
        (0, _) => "No SLA line was judged, so nothing was demanded".to_owned(),
        (_, 0) => "Every SLA line holds".to_owned(),
        (held, left) => {
            format!("{} held, {left} not judged", text::plural(held as u64, "SLA line"))
        }
    };
    let mut reasons = passed;
    reasons.extend(skipped.into_iter().map(|line| format!("not judged: {line}")));
    reasons.extend(notes());
    verdict(VerdictKind::Pass, &headline, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grounds(cut_short: Option<&str>, invalid: Option<&str>, unfit: &[String]) -> VerdictKind {
        let client = ClientFindings { unfit: unfit.to_vec(), ..ClientFindings::default() };
        let invalid = invalid.map(str::to_owned);
        let grounds = Grounds { lines: &[], faults: None, armed: false, client: &client, cut_short, invalid };
        reach(&grounds).kind
    }

    #[test]
    fn the_gravest_ground_wins() {
        let hot = ["hot".to_owned()];
        let guard = cut_short_by_guard("error rate > 50 %");
        assert_eq!(grounds(Some(&guard), Some("down"), &hot), VerdictKind::Aborted);
        assert_eq!(grounds(Some("interrupted"), Some("down"), &hot), VerdictKind::Invalid);
        assert_eq!(grounds(None, None, &hot), VerdictKind::Inconclusive);
        assert_eq!(grounds(Some("interrupted"), None, &[]), VerdictKind::Inconclusive);
        assert_eq!(grounds(None, None, &[]), VerdictKind::Pass);
    }

    #[test]
    fn exit_codes_are_those_of_the_contract() {
        let kinds = [
            VerdictKind::Pass,
            VerdictKind::Broken,
            VerdictKind::Invalid,
            VerdictKind::Inconclusive,
            VerdictKind::Aborted,
        ];
        assert_eq!(kinds.map(VerdictKind::exit_code), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_fit_client_raises_no_doubt_and_an_unfit_one_each_of_its_own() {
        let fit = ClientHealth { cpu: 0.5, send_lag_p99: 0.004, loop_lag_p99: 0.002, loop_lag_max: 0.1 };
        assert_eq!(client_findings(&fit, Some(0.02)), ClientFindings::default());
        // A tenth of a slow TTFT is bearable, the same lateness before a quick one is not.
        let late = ClientHealth { send_lag_p99: 0.03, ..fit.clone() };
        assert_eq!(client_findings(&late, Some(0.4)), ClientFindings::default());
        let found = client_findings(&late, Some(0.05));
        assert!(found.unfit.is_empty() && found.lateness == Lateness { sends: true, reads: 0.0 });
        assert_eq!(
            found.late,
            [
                "1 % of requests were sent more than 30 ms late (bearable are 20 ms, or a tenth of the median TTFT of 50 ms)"
            ]
        );
        assert_eq!(client_findings(&late, None).late.len(), 1);
        let worst = ClientHealth { cpu: 1.0, send_lag_p99: 1.0, loop_lag_p99: 1.0, loop_lag_max: 2.0 };
        let found = client_findings(&worst, None);
        assert_eq!((found.unfit.len(), found.late.len()), (2, 2));
    }
}
