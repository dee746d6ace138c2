//! Tokens that came in bursts, and the lines that hang on them.

use super::{Evidence, LineOutcome, LineResult};
use crate::report::text;
use crate::summary::data::PhaseData;
use crate::summary::hangs_on_bursts;
use brownout_injector::sla::{Bound, Demand, Line};

/// Says so of a line that hangs on them.
pub(super) fn remark(line: &Line, result: &mut LineResult, evidence: &Evidence<'_, '_>) {
    let Demand::Threshold { metric, bound, .. } = line.demand else { return };
    let baseline = evidence.baseline.filter(|_| matches!(bound, Bound::TimesBaseline(_)));
    let share = [evidence.judged, baseline].into_iter().flatten().filter_map(PhaseData::bursts);
    let Some(share) = share.max_by(f64::total_cmp).filter(|_| hangs_on_bursts(metric)) else { return };
    result.bursts = result.outcome != LineOutcome::NotJudged;
    if result.bursts {
        let share = text::share(share);
        result.reason.push_str(&format!(
            "; {share} of the token events came in bursts, at no time of their own, which makes TPOT fall"
        ));
    }
}
