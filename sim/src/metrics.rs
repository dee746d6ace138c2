//! `/metrics` with vLLM's names, labels and buckets (`vllm/v1/metrics/loggers.py`).

use std::fmt::Write as _;
use std::time::Duration;

use crate::answer::Finish;
use crate::scheduler::SchedulerTotals;
use crate::truth::RequestTruth;

const TTFT_BUCKETS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
const ITL_BUCKETS: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const REQUEST_BUCKETS: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];

#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    // One more than the bounds: the last counts what is above all of them.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn observe(&mut self, value: Duration) {
        let value = value.as_secs_f64();
        let at = self.bounds.iter().position(|&bound| value <= bound).unwrap_or(self.bounds.len());
        self.counts[at] += 1;
        self.sum += value;
    }

    fn render(&self, out: &mut String, name: &str, help: &str, labels: &str) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut total = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            total += count;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound:?}\"}} {total}");
        }
        total += self.counts[self.bounds.len()];
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {total}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {total}", self.sum);
    }
}

/// All counters and gauges. The engine writes them once a step; `/metrics` reads them.
#[derive(Debug)]
pub(crate) struct Metrics {
    labels: String,
    cache_config: String,
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) kv_usage: f64,
    pub(crate) totals: SchedulerTotals,
    prompt_tokens: u64,
    pub(crate) generation_tokens: u64,
    success: [u64; 4],
    ttft: Histogram,
    itl: Histogram,
    e2e: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    inference: Histogram,
}

const REASONS: [Finish; 4] = [Finish::Stop, Finish::Length, Finish::ToolCalls, Finish::Abort];

impl Metrics {
    pub(crate) fn new(model_name: &str, kv_blocks: usize, prefix_caching: bool) -> Metrics {
        let name = model_name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let prefix_caching = if prefix_caching { "True" } else { "False" };
        Metrics {
            labels: format!("engine=\"0\",model_name=\"{name}\""),
            cache_config: format!(
                "block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"{prefix_caching}\",engine=\"0\",\
                 num_gpu_blocks=\"{kv_blocks}\"",
                crate::blocks::BLOCK_TOKENS
            ),
            running: 0,
            waiting: 0,
            kv_usage: 0.0,
            totals: SchedulerTotals::default(),
            prompt_tokens: 0,
            generation_tokens: 0,
            success: [0; 4],
            ttft: Histogram::new(TTFT_BUCKETS),
            itl: Histogram::new(ITL_BUCKETS),
            e2e: Histogram::new(REQUEST_BUCKETS),
            queue: Histogram::new(REQUEST_BUCKETS),
            prefill: Histogram::new(REQUEST_BUCKETS),
            decode: Histogram::new(REQUEST_BUCKETS),
            inference: Histogram::new(REQUEST_BUCKETS),
        }
    }

    pub(crate) fn first_token(&mut self, truth: &RequestTruth) {
        self.prompt_tokens += truth.prompt_tokens;
        if let Some(ttft) = truth.ttft() {
            self.ttft.observe(ttft);
        }
    }

    pub(crate) fn gap(&mut self, gap: Duration) {
        self.itl.observe(gap);
    }

    pub(crate) fn finished(&mut self, truth: &RequestTruth) {
        if let Some(at) = REASONS.iter().position(|&reason| reason == truth.finish) {
            self.success[at] += 1;
        }
        let (Some(scheduled), Some(first), Some(last)) =
            (truth.scheduled, truth.first_token, truth.last_token)
        else {
            return;
        };
        self.e2e.observe(last.saturating_duration_since(truth.received));
        self.queue.observe(scheduled.saturating_duration_since(truth.received));
        self.prefill.observe(first.saturating_duration_since(scheduled));
        self.decode.observe(last.saturating_duration_since(first));
        self.inference.observe(last.saturating_duration_since(scheduled));
    }

    pub(crate) fn render(&self) -> String {
        let mut out = String::with_capacity(16 * 1024);
        let labels = &self.labels;
        let mut single = |name: &str, kind: &str, help: &str, value: f64| {
            let family = name.strip_suffix("_total").unwrap_or(name);
            let family = if kind == "counter" { name } else { family };
            let _ =
                writeln!(out, "# HELP {family} {help}\n# TYPE {family} {kind}\n{name}{{{labels}}} {value:?}");
        };
        single("vllm:num_requests_running", "gauge", "Requests in the running batch.", self.running as f64);
        single("vllm:num_requests_waiting", "gauge", "Requests waiting for a slot.", self.waiting as f64);
        single("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage; 1 means 100 percent.", self.kv_usage);
        let totals = &self.totals;
        for (name, help, value) in [
            (
                "vllm:prefix_cache_queries_total",
                "Tokens looked up in the prefix cache.",
                totals.prefix_queries,
            ),
            ("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", totals.prefix_hits),
            ("vllm:num_preemptions_total", "Preemptions.", totals.preemptions),
            ("vllm:prompt_tokens_total", "Prefill tokens processed.", self.prompt_tokens),
            ("vllm:generation_tokens_total", "Generation tokens processed.", self.generation_tokens),
        ] {
            single(name, "counter", help, value as f64);
        }
        let _ = writeln!(
            out,
            "# HELP vllm:request_success_total Requests that ended, by reason.\n\
             # TYPE vllm:request_success_total counter"
        );
        for (reason, count) in REASONS.iter().zip(self.success) {
            let reason = reason.as_str();
            let _ = writeln!(
                out,
                "vllm:request_success_total{{{labels},finished_reason=\"{reason}\"}} {count:?}.0"
            );
        }
        for (histogram, name, help) in [
            (&self.ttft, "vllm:time_to_first_token_seconds", "Time to first token."),
            (&self.itl, "vllm:inter_token_latency_seconds", "Gap between tokens."),
            (&self.e2e, "vllm:e2e_request_latency_seconds", "Request received to last token."),
            (&self.queue, "vllm:request_queue_time_seconds", "Time waiting for a slot."),
            (&self.prefill, "vllm:request_prefill_time_seconds", "Slot to first token."),
            (&self.decode, "vllm:request_decode_time_seconds", "First token to last token."),
            (&self.inference, "vllm:request_inference_time_seconds", "Slot to last token."),
        ] {
            histogram.render(&mut out, name, help, labels);
        }
        let _ = writeln!(
            out,
            "# HELP vllm:cache_config_info Information of the cache configuration.\n\
             # TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{}}} 1.0",
            self.cache_config
        );
        out
    }
}
