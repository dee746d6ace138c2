//! Which lines a late client could have decided.
//!
//! Response times count from the scheduled send, so lateness makes latencies worse and never better: a bound that is
//! kept is kept. It can break a line that the server kept, and, where it spoils the baseline, make a relative line hold
//! that does not. So the lines are judged twice more, as if the client had not been late outside the baseline, and as if
//! it had not been late in the baseline. A line whose outcome changes hangs on the lateness, and is inconclusive.

use super::{LineOutcome, LineResult};
use crate::record::{Phase, RequestRecord};
use brownout_injector::sla::{Demand, Line, Metric};

/// How the client was late, where that is more than bearable.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Requests were sent late; by how much, each says itself.
    pub sends: bool,
    /// Seconds by which tokens may have been read late.
    pub reads: f64,
}

/// The part of a run in which the client is taken not to have been late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the baseline.
    Judged,
    /// The baseline.
    Baseline,
    /// Everything: a run of load alone.
    Whole,
}

impl Lateness {
    /// Whether the client was late at all.
    #[must_use]
    pub(crate) fn any(self) -> bool {
        self.sends || self.reads > 0.0
    }

    /// The requests as a client would have seen them that was not late in `part`.
    #[must_use]
    pub(crate) fn without(self, part: Part, requests: &[RequestRecord]) -> Vec<RequestRecord> {
        let is_in = |request: &RequestRecord| match part {
            Part::Judged => request.phase != Phase::Baseline,
            Part::Baseline => request.phase == Phase::Baseline,
            Part::Whole => true,
        };
        let earlier = |time: Option<f64>| time.map(|time| (time - self.reads).max(0.0));
        let mut requests = requests.to_vec();
        for request in requests.iter_mut().filter(|request| is_in(request)) {
            if self.sends {
                request.sent = request.sent.min(request.scheduled);
            }
            if self.reads > 0.0 {
                request.ttft = earlier(request.ttft);
                request.ttfo = earlier(request.ttfo);
                // Twice: time per token counts from the first token, which has moved already. For E2E that errs on the
                // side of doubt.
                request.last_token = earlier(earlier(request.last_token));
                // A gap that vanishes stays one: 0 would say that both events came in one read.
                for gap in request.gaps.iter_mut().filter(|gap| **gap > 0.0) {
                    *gap = (*gap - self.reads as f32).max(f32::MIN_POSITIVE);
                }
            }
        }
        requests
    }

    /// Whether `line` speaks of what lateness touches. Late sends leave everything alone that counts from the real
    /// send or from token to token; no lateness makes a request fail.
    fn touches(self, line: &Line) -> bool {
        match line.demand {
            Demand::RecoversWithin(_) => true,
            Demand::Threshold { metric, .. } => match metric {
                Metric::Ttft | Metric::Ttfo | Metric::E2e | Metric::Goodput => true,
                Metric::Itl | Metric::Tpot | Metric::StallRate => self.reads > 0.0,
                _ => false,
            },
        }
    }

    /// Makes those of `results` inconclusive that came out otherwise `without` the lateness.
    pub(crate) fn doubt(self, lines: &[Line], results: &mut [LineResult], without: &[LineResult]) {
        for ((line, result), other) in lines.iter().zip(results).zip(without) {
            let decided = matches!(result.outcome, LineOutcome::Pass | LineOutcome::Broken);
            if decided && self.touches(line) && other.outcome != result.outcome {
                result.outcome = LineOutcome::Inconclusive;
                result.reason.push_str("; the client was late, and that alone may have decided it");
            }
        }
    }
}
