//! What can be set, with defaults that suit a laptop.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::noise::{join, normal};
use crate::scheduler::{SchedulerConfig, Step};

/// How long a step of the engine takes.
///
/// duration = base + prefill tokens x `per_prefill_token` + decoding sequences x `per_decode_sequence`
///          + context tokens x `per_context_token`, times a Gaussian factor.
///
/// It is llm-d-inference-sim's model (`docs/latency-simulation.md` there: prefill = overhead + uncached tokens x time
/// per token, decode = inter-token latency, a factor that grows with load, spread at most 30 % and clamped at 70 %)
/// brought down to single steps: where that model multiplies by a load factor, here load is in the step itself, and
/// queueing, chunking and preemption come from the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCost {
    /// Each step. Default 10 ms: reading all weights once; that project's table of measured inter-token latencies
    /// (`docs/latency-defaults.md`) gives 10 to 15 ms for 7-8B models on an H100 at batch size 1.
    pub base: Duration,
    /// Each prompt token computed. Default 100 us: the same table's low end for 1-3B models on an H100.
    pub per_prefill_token: Duration,
    /// Each sequence that decodes. Default 150 us, so that a full batch of 64 doubles the gap between tokens: the
    /// table's load factor for latency-optimised deployments, 1.5 to 2, reached at `max_num_seqs`.
    pub per_decode_sequence: Duration,
    /// Each token of context that attention reads. Default 40 ns: 128 KB of keys and values per token (8B model with
    /// grouped-query attention, same table) at about 3 TB/s of memory bandwidth.
    pub per_context_token: Duration,
    /// Standard deviation of the Gaussian factor, 0 to 0.3; default 0.03. The factor stays within 0.3 and 1.7.
    pub jitter: f64,
}

impl Default for StepCost {
    fn default() -> Self {
        StepCost {
            base: Duration::from_millis(10),
            per_prefill_token: Duration::from_micros(100),
            per_decode_sequence: Duration::from_micros(150),
            per_context_token: Duration::from_nanos(40),
            jitter: 0.03,
        }
    }
}

impl StepCost {
    /// How long `step`, the `number`th since the start, takes: a pure function.
    pub fn of(&self, step: &Step, seed: u64, number: u64) -> Duration {
        let mean = self.base.as_secs_f64()
            + self.per_prefill_token.as_secs_f64() * step.prefill_tokens() as f64
            + self.per_decode_sequence.as_secs_f64() * step.decodes() as f64
            + self.per_context_token.as_secs_f64() * step.context_tokens() as f64;
        let factor = 1.0 + self.jitter.clamp(0.0, 0.3) * normal(join(seed, number));
        Duration::from_secs_f64(mean * factor.clamp(0.3, 1.7))
    }
}

/// Where the times come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Timing {
    /// The scheduler and [`StepCost`]: times follow load.
    Modelled(StepCost),
    /// Constant times whatever the load, with no scheduler, slots or KV cache: a known truth for benchmarks. Tokens
    /// leave on a grid of half a millisecond from the server's start (so gaps that are multiples of it are exact),
    /// which lets hundreds of streams share a wake-up.
    Fixed {
        /// Request received to first token.
        ttft: Duration,
        /// Gap between tokens.
        itl: Duration,
    },
}

/// Configuration of a [`Sim`](crate::Sim).
#[derive(Clone, Debug, PartialEq)]
pub struct SimConfig {
    /// Where to listen; port 0 takes any free one. Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// The one model served; requests for another get 404, requests that name none are served. Default
    /// `brownout-sim`.
    pub model_name: String,
    /// Seeds weights, step times and the sampling of requests that bring no seed. Default 7.
    pub seed: u64,
    /// Where `model.safetensors` is: used if it is there, else made. `None` (default): a fresh temporary directory
    /// that goes with the server.
    pub weights_dir: Option<PathBuf>,
    /// Sizes of the engine.
    pub scheduler: SchedulerConfig,
    /// Where the times come from. Default [`Timing::Modelled`].
    pub timing: Timing,
    /// Requests in flight, running and waiting, beyond which new ones get 503. Default 4096.
    pub max_in_flight: usize,
    /// Longest request body in bytes; longer ones get 413. Default 16 MiB.
    pub max_body_bytes: usize,
    /// Ended requests remembered for [`Sim::truth`](crate::Sim::truth), the oldest forgotten first. Default 65,536.
    pub truth_capacity: usize,
    /// How long [`Sim::shutdown`](crate::Sim::shutdown) waits for requests in flight. Default 5 s.
    pub drain: Duration,
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            model_name: "brownout-sim".to_owned(),
            seed: 7,
            weights_dir: None,
            scheduler: SchedulerConfig::default(),
            timing: Timing::Modelled(StepCost::default()),
            max_in_flight: 4096,
            max_body_bytes: 16 << 20,
            truth_capacity: 65_536,
            drain: Duration::from_secs(5),
        }
    }
}

impl SimConfig {
    /// The defaults with constant times (see [`Timing::Fixed`]).
    pub fn fixed(ttft: Duration, itl: Duration) -> SimConfig {
        SimConfig { timing: Timing::Fixed { ttft, itl }, ..SimConfig::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound_and_steps_cost_what_they_do() {
        let config = SimConfig::default();
        config.scheduler.check().expect("sound");
        let cost = StepCost { jitter: 0.0, ..StepCost::default() };
        assert_eq!(cost.of(&Step::default(), 1, 1), Duration::from_millis(10));
        let jittered = StepCost { jitter: 9.0, ..StepCost::default() };
        for number in 0..1000 {
            let took = jittered.of(&Step::default(), 1, number);
            assert!(took >= Duration::from_millis(3) && took <= Duration::from_millis(17), "{took:?}");
        }
    }
}
