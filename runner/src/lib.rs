//! Load generation, measurement, statistics, SLA verdicts and reports.

pub mod record;
pub mod stats;
