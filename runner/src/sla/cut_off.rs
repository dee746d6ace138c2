//! Which lines the end of a run could have decided by itself.
//!
//! Requests that a run's end cut off are neither failed nor good. What fails at once is over by then, and what goes well
//! is still on its way, so a run that is stopped early shows more failures and less goodput than there were. So the lines
//! are judged once more as if all that was cut off had gone well: what is broken only by that is not beyond doubt.

use super::{LineOutcome, LineResult};
use crate::record::{Outcome, RequestRecord};
use crate::report::text;
use brownout_injector::sla::{Demand, Line, Metric};

/// The requests as if those that the run's end cut off had gone well, and how many these are; nothing where there are
/// none.
pub(crate) fn as_if_well(requests: &[RequestRecord]) -> Option<(Vec<RequestRecord>, u64)> {
    let is_cut = |request: &RequestRecord| request.outcome == Outcome::RunEnded;
    let cut = requests.iter().filter(|request| is_cut(request)).count();
    (cut > 0).then(|| {
        let mut requests = requests.to_vec();
        requests
            .iter_mut()
            .filter(|request| is_cut(request))
            .for_each(|request| request.outcome = Outcome::Ok);
        (requests, cut as u64)
    })
}

/// Makes those of `results` inconclusive that are broken, and would not be if the `cut` requests had gone well.
pub(crate) fn doubt(lines: &[Line], results: &mut [LineResult], well: &[LineResult], cut: u64) {
    for ((line, result), well) in lines.iter().zip(results).zip(well) {
        let broken = |result: &LineResult| result.outcome == LineOutcome::Broken;
        if broken(result) && hangs_on_ends(line) && !broken(well) {
            result.outcome = LineOutcome::Inconclusive;
            let cut = text::count(cut);
            result.reason.push_str(&format!(
                "; the end of the run cut {cut} requests off, and that may have decided it"
            ));
        }
    }
}

/// Whether a line counts how requests ended.
fn hangs_on_ends(line: &Line) -> bool {
    match line.demand {
        Demand::RecoversWithin(_) => true,
        Demand::Threshold { metric, .. } => matches!(
            metric,
            Metric::ErrorRate
                | Metric::TruncationRate
                | Metric::Goodput
                | Metric::RequestRate
                | Metric::Throughput
        ),
    }
}
