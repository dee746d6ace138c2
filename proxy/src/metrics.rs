//! The traffic as Prometheus reads it (text exposition format 0.0.4).

use crate::control::Control;
use crate::failure::Failure;
use crate::meter::{Histogram, Origin, Outcome};
use std::fmt::Write;
use std::time::Duration;

/// Upper bounds of the exposed buckets in microseconds.
const BOUNDS: [u64; 17] = [
    1_000, 2_500, 5_000, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// All metrics.
pub(crate) fn render(control: &Control) -> String {
    let (traffic, status) = (control.snapshot(), control.status());
    let mut page = Page(String::with_capacity(8 << 10));

    page.head(
        "brownout_requests_total",
        "counter",
        "Finished requests by who made their outcome and how they ended.",
    );
    for origin in Origin::ALL {
        for outcome in Outcome::ALL {
            let labels = format!("{{origin=\"{}\",outcome=\"{}\"}}", origin.name(), outcome.name());
            page.line("brownout_requests_total", &labels, traffic.finished(origin, outcome));
        }
    }
    page.head(
        "brownout_upstream_failures_total",
        "counter",
        "Requests that got no answer from the server, by why.",
    );
    for (name, count) in Failure::NAMES.iter().zip(traffic.failures) {
        page.line("brownout_upstream_failures_total", &format!("{{reason=\"{name}\"}}"), count);
    }
    for (name, kind, help, value) in [
        ("connections_accepted_total", "counter", "Client connections accepted.", traffic.accepted),
        (
            "connections_turned_away_total",
            "counter",
            "Client connections over the limit.",
            traffic.turned_away,
        ),
        ("connections", "gauge", "Client connections open.", traffic.connections),
        ("connections_not_covered_total", "counter", "Connections passed unread (TLS).", traffic.not_covered),
        ("tunnels_total", "counter", "Requests that became tunnels (Upgrade).", traffic.tunnels),
        ("requests_arrived_total", "counter", "Requests that arrived.", traffic.requests),
        ("requests_in_flight", "gauge", "Requests in flight.", traffic.in_flight),
        (
            "request_bodies_unread_total",
            "counter",
            "Request bodies too large to be read.",
            traffic.unread_bodies,
        ),
        ("streams_total", "counter", "Event streams that began.", traffic.streams),
        ("streams_in_flight", "gauge", "Event streams in flight.", traffic.streams_in_flight),
        (
            "streams_unfinished_total",
            "counter",
            "Streams that ended with no finish reason.",
            traffic.unfinished,
        ),
        ("events_total", "counter", "Events of streams.", traffic.events),
        ("token_events_total", "counter", "Events that carry tokens.", traffic.token_events),
        ("token_events_coalesced_total", "counter", "Token events read together.", traffic.coalesced),
        ("inband_errors_total", "counter", "Errors inside streams.", traffic.inband_errors),
        ("prompt_tokens_total", "counter", "Prompt tokens by the server's usage.", traffic.prompt_tokens),
        ("output_tokens_total", "counter", "Output tokens by the server's usage.", traffic.output_tokens),
        ("upstream_connections_total", "counter", "Connections to the server.", traffic.upstream_connections),
        (
            "upstream_retries_total",
            "counter",
            "Requests sent again on a new connection.",
            traffic.upstream_retries,
        ),
        ("journal_lost_total", "counter", "Journal lines that found no room.", control.journal_lost()),
        ("armed", "gauge", "Whether faults are armed.", u64::from(status.armed)),
    ] {
        let name = format!("brownout_{name}");
        page.head(&name, kind, help);
        page.line(&name, "", value);
    }
    for (name, help) in [
        ("brownout_fault_eligible_total", "Requests that a fault could have fired on."),
        ("brownout_fault_chosen_total", "Requests that a fault was chosen for."),
        ("brownout_fault_fired_total", "Requests that a fault did something to."),
    ] {
        page.head(name, "counter", help);
        for rule in &status.rules {
            let value = match name {
                "brownout_fault_eligible_total" => rule.eligible,
                "brownout_fault_chosen_total" => rule.chosen,
                _ => rule.fired,
            };
            // Names are lower-case letters, digits and dashes by the schema; quotes and newlines cannot occur.
            page.line(name, &format!("{{fault=\"{}\",kind=\"{}\"}}", rule.fault, rule.kind), value);
        }
    }
    page.histogram("brownout_ttft_seconds", "From arrival to the first token.", &traffic.ttft);
    page.histogram("brownout_itl_seconds", "Between token events.", &traffic.itl);
    page.0
}

struct Page(String);

impl Page {
    // Writing to a string cannot fail.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        for bound in BOUNDS {
            let below = histogram.below(Duration::from_micros(bound));
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{}\"}} {below}", bound as f64 / 1e6);
        }
        let count = histogram.count();
        let _ = writeln!(self.0, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(self.0, "{name}_sum {}", histogram.sum_micros() as f64 / 1e6);
        let _ = writeln!(self.0, "{name}_count {count}");
    }
}
