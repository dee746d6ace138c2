//! Load generation, measurement, statistics, SLA verdicts and reports.

pub mod load;
pub mod record;
pub mod stats;
