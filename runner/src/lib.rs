//! Load generation, measurement, statistics, SLA verdicts and reports.

pub mod compare;
pub mod load;
pub mod record;
pub mod report;
pub mod sla;
pub mod stats;
pub mod summary;
pub mod verdict;
