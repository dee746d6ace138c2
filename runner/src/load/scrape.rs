//! The server's own metrics, read before and after a run: its side of the story.

use super::Target;
use super::get::get;
use http::HeaderMap;
use std::collections::BTreeMap;
use std::time::Duration;

/// Prefixes of the metrics that inference servers have of themselves: vLLM, SGLang, TGI, Triton, TensorRT-LLM,
/// llama.cpp. Metrics of the process and the language runtime around them are no news.
const PREFIXES: [&str; 6] = ["vllm:", "sglang:", "tgi_", "nv_", "trtllm_", "llamacpp:"];

/// Largest page of metrics that is read, in bytes.
const LARGEST: usize = 8 << 20;

const PATIENCE: Duration = Duration::from_secs(2);

/// Reads `/metrics` of the server at `url`; nothing where it has none. Waits for at most 2 s.
#[must_use]
pub fn server_metrics(url: &str) -> BTreeMap<String, f64> {
    let Ok(target) = Target::parse(url) else { return BTreeMap::new() };
    let page = get(&target, "/metrics", &HeaderMap::new(), LARGEST, PATIENCE).unwrap_or_default();
    parse(&String::from_utf8_lossy(&page))
}

/// The samples of a page in Prometheus' text format, by name with labels. Buckets of histograms are left out.
fn parse(page: &str) -> BTreeMap<String, f64> {
    page.lines()
        .filter(|line| PREFIXES.iter().any(|prefix| line.starts_with(prefix)))
        .filter_map(|line| {
            // Labels may hold spaces; what follows them does not.
            let labels_end = line.rfind('}').map_or(0, |at| at + 1);
            let name_end = labels_end + line[labels_end..].find(' ')?;
            let (name, rest) = line.split_at(name_end);
            let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
            let bucket = name.split('{').next().is_some_and(|name| name.ends_with("_bucket"));
            (!bucket && value.is_finite()).then(|| (name.to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn samples_are_read_and_the_rest_is_passed_over() {
        let page = "# HELP vllm:num_preemptions_total x\n\
                    vllm:num_preemptions_total{model_name=\"a b\"} 3.0\n\
                    vllm:e2e_request_latency_seconds_bucket{le=\"0.1\"} 7\n\
                    vllm:e2e_request_latency_seconds_sum 1.5e1 1700000000000\n\
                    llamacpp:requests_processing 2\n\
                    process_cpu_seconds_total 9\n\
                    vllm:broken\n\
                    vllm:gauge NaN\n";
        let samples: Vec<(String, f64)> = parse(page).into_iter().collect();
        assert_eq!(
            samples,
            [
                ("llamacpp:requests_processing".to_owned(), 2.0),
                ("vllm:e2e_request_latency_seconds_sum".to_owned(), 15.0),
                ("vllm:num_preemptions_total{model_name=\"a b\"}".to_owned(), 3.0),
            ]
        );
    }
}
