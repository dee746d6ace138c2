//! When a fault fires: its trigger.

use crate::facts::Facts;
use crate::plan::PROBE_PATHS;
use crate::units::TimeSpan;
pub use brownout_control::glob;
use brownout_control::{Trigger, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A trigger. All that is given must hold. A request that passes the matchers while the window is open is *eligible*.
/// Where the client numbers its requests (Brownout's load does), `probability` and `every` go by that number, so that
/// the same requests are hit however connections interleave; else by the order of arrival. What is said of requests
/// holds for faults in the process of calls: `checkpointError` and `checkpointSlow` count opens, reads and maps,
/// `checkpointCorrupt` files that are opened or mapped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct When {
    /// The share of eligible requests it fires on, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub probability: Option<f64>,
    /// It fires on every nth request: of n eligible ones in order the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub every: Option<u64>,
    /// It fires at most this often: on the first that arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_hits: Option<u64>,
    /// It leaves the first n eligible requests alone, by order of arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_calls: Option<u64>,
    /// The window opens this long after the faults are armed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<TimeSpan>,
    /// The window stays open this long; to the end of the fault phase where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#for: Option<TimeSpan>,
    /// The probability climbs from 0 to its value over this time, from when the window opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp: Option<TimeSpan>,
    /// The window opens again each such period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<TimeSpan>,
    /// Path of the request; `*` stands for any characters. Health checks and metrics are exempt unless named here, as
    /// `/health*` does; `*` and `/v1/*` name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// HTTP method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Model that the request asks for; `*` stands for any characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Request headers; `*` stands for any characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Only requests that ask for a stream, or only those that do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Only this container (faults in the process).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Only processes whose executable has this name; `*` stands for any characters (faults in the process).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub process: Option<String>,
    /// Only this rank (faults in the process).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Only files with such a path, as it was given or with all links followed; `*` stands for any characters, also for
    /// `/`. Faults of model files need one (faults in the process).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub file: Option<String>,
}

impl When {
    /// What it demands beyond the matchers, in a plan that lasts until `ends`.
    #[must_use]
    pub fn trigger(&self, ends: Duration) -> Trigger {
        let from = self.after.map_or(Duration::ZERO, |span| span.0);
        let until = self.r#for.map_or(ends, |span| from + span.0).min(ends).max(from);
        let ramp = self.ramp.map_or(Duration::ZERO, |span| span.0);
        Trigger {
            probability: self.probability.unwrap_or(1.0),
            every: self.every.unwrap_or(1),
            after_calls: self.after_calls.unwrap_or(0),
            max_hits: self.max_hits.unwrap_or(u64::MAX),
            window: Window { from, until, ramp, repeat: self.repeat.map(|span| span.0), ends },
        }
    }

    /// Whether the matchers let this request through. `own_paths` are paths that the fault itself names.
    #[must_use]
    pub fn matches(&self, facts: &Facts<'_>, own_paths: &[String]) -> bool {
        let path = facts.path;
        let own = own_paths.is_empty() || own_paths.iter().any(|pattern| glob(pattern, path));
        let asked = self.path.as_ref().is_none_or(|pattern| glob(pattern, path));
        let named = !own_paths.is_empty() || self.path.as_deref().is_some_and(names_probes);
        own && asked
            && (named || !is_probe(path))
            && self.method.as_ref().is_none_or(|method| method.eq_ignore_ascii_case(facts.method))
            && self.model.as_ref().is_none_or(|pattern| facts.model.is_some_and(|model| glob(pattern, model)))
            && self.stream.is_none_or(|stream| stream == facts.stream)
            && self
                .headers
                .iter()
                .all(|(name, pattern)| (facts.header)(name).is_some_and(|value| glob(pattern, value)))
    }
}

/// Whether a path is that of a health check or of metrics.
fn is_probe(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    PROBE_PATHS.contains(&path)
}

/// Whether a pattern means probes when it matches one: `/health*` does, `*` and `/v1/*` do not. A fault on "all paths"
/// that failed the health checks too would have the pods restarted, which is another experiment.
fn names_probes(pattern: &str) -> bool {
    ["health", "live", "ready", "metrics", "ping", "info"].iter().any(|word| pattern.contains(word))
}

#[cfg(test)]
mod tests {
    use super::When;
    use crate::Facts;
    use crate::wire::Api;
    use std::time::Duration;

    fn matches(when: &When, own: &[&str], path: &str) -> bool {
        let own: Vec<String> = own.iter().map(|path| (*path).to_owned()).collect();
        let facts = Facts {
            at: Duration::ZERO,
            number: None,
            method: "POST",
            path,
            api: Api::of_path(path),
            model: None,
            stream: false,
            prompt_tokens: 0,
            max_tokens: None,
            header: &|_| None,
        };
        when.matches(&facts, &own)
    }

    #[test]
    fn probes_are_hit_only_where_they_are_named() {
        let on = |path: &str| When { path: Some(path.to_owned()), ..When::default() };
        for (pattern, path, is) in [
            ("*", "/health", false),
            ("/v1/*", "/v1/health/ready", false),
            ("*", "/metrics/", false),
            ("/health*", "/healthz", true),
            ("/v2/health/*", "/v2/health/live", true),
            ("*", "/v1/models", true),
        ] {
            assert_eq!(matches(&on(pattern), &[], path), is, "{pattern} on {path}");
        }
        assert!(!matches(&When::default(), &[], "/health"));
    }

    #[test]
    fn paths_of_the_fault_itself_bound_it_also_where_a_path_is_given() {
        let all = When { path: Some("/*".to_owned()), ..When::default() };
        assert!(!matches(&all, &["/health"], "/v1/models"));
        assert!(matches(&all, &["/health"], "/health"));
        assert!(matches(&When::default(), &["/health"], "/health"));
        assert!(!matches(&When::default(), &["/health"], "/v1/models"));
    }
}
