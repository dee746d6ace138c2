//! Load generation, measurement, statistics, SLA verdicts and reports.
