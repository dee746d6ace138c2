//! Lines such as `recovers within 30s`.

use super::{LineOutcome, LineResult, LineUnit};
use crate::report::text;
use crate::summary::recovery::{Recovery, RecoveryState};
use brownout_injector::sla::Line;
use std::time::Duration;

pub(super) fn judge(line: &Line, limit: Duration, recovery: Option<&Recovery>) -> LineResult {
    let limit = limit.as_secs_f64();
    let (outcome, reason) = match recovery {
        None => {
            (LineOutcome::NotJudged, "there is nothing to recover from in a run without faults".to_owned())
        }
        Some(recovery) => {
            let watched = text::seconds(recovery.watched_seconds);
            match (recovery.state, recovery.within_seconds) {
                (RecoveryState::Recovered, Some(within)) if within <= limit => {
                    (LineOutcome::Pass, format!("recovered within {}", text::seconds(within)))
                }
                (RecoveryState::Recovered, Some(within)) => {
                    (LineOutcome::Broken, format!("recovered only within {}", text::seconds(within)))
                }
                (RecoveryState::NotRecovered, _) if recovery.watched_seconds >= limit => {
                    (LineOutcome::Broken, format!("not recovered, watched for {watched}"))
                }
                (RecoveryState::NotRecovered, _) => (
                    LineOutcome::Inconclusive,
                    format!("not recovered, but watched for {watched} only: make the recovery phase longer"),
                ),
                _ => (LineOutcome::Inconclusive, recovery.note.clone()),
            }
        }
    };
    LineResult {
        line: line.text.clone(),
        outcome,
        unit: LineUnit::Seconds,
        measured: recovery.and_then(|recovery| recovery.within_seconds),
        at_most: recovery.is_some_and(Recovery::at_once),
        bounds: None,
        bound: Some(limit),
        baseline: None,
        value: None,
        n: 0,
        reason,
        bursts: false,
    }
}
