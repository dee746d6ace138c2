//! A stand-in inference server with a real scheduler model, so that everything runs with no GPU.
//!
//! It speaks the APIs of the real ones (OpenAI chat, completions, responses, embeddings; Anthropic messages; Text
//! Generation Inference; Triton generate) over HTTP/1.1 and h2c, and it slows down, queues, preempts and recovers
//! for the reasons that real ones do.
//!
//! # The way of the data
//!
//! ```text
//!  client ── HTTP ──► http thread                                engine thread ("the GPU")
//!                     http/: parse, check, tokenize (vocab)
//!                        │ Submit(prompt, limits) ─────────────► scheduler: who computes what in this step,
//!                        │                                         over slots, token budget and KV blocks
//!                        │                                       config: how long the step takes ─► sleep until then
//!                        │                                       answer: one token per caught-up sequence,
//!                        │                                         by model, from the mapped weights
//!                        │ ◄──────── token, finish ───────────── truth, metrics: written down as it leaves
//!  client ◄── SSE ────── body + dialect: bytes around the text
//!            disconnect: body dropped ── Abort ────────────────► slot and KV blocks free at once
//! ```
//!
//! Two threads, neither of them the caller's, for the reason vLLM has two processes: serving many sockets must not
//! delay the engine's clock, and the engine must not delay sockets. It also lets load and server sit on separate
//! cores when a benchmark pins them. The engine sleeps on its command queue up to an absolute deadline, so lateness
//! does not add up; async timers would round to a millisecond. Measured on a busy two-core machine, 400 streams at
//! 50 tokens a second with fixed timing of 20 ms: median time to first token 20.1 ms, mean gap 20.000 ms, and a third
//! of a core for both threads together.
//!
//! # What is modelled
//!
//! - [`scheduler`]: continuous batching, chunked prefill, first come first served, preemption by recompute;
//!   [`blocks`]: paged KV cache with prefix reuse and least-recently-used eviction. Pure code without a clock.
//! - [`StepCost`]: a step costs a base, each prompt token, each decoding sequence, each token of context. So the time
//!   to first token grows with queue and prompt, the gap between tokens with the batch and with other people's
//!   prompts. With the defaults and nothing else to do, 200 tokens of prompt give a first token after about 30 ms and
//!   then one each 10 ms; at 64 streams the gap is about 20 ms, beyond that requests queue.
//! - [`weights`]: a real safetensors file, mapped, and read for every token: corrupt it and the text changes.
//!   Tokens depend on weights, prompt and seed alone, never on batching or time.
//!
//! What is not: arithmetic (the text is grammatical nonsense), accelerator memory, several GPUs, speculative
//! decoding, several answers a request.
//!
//! # Example
//!
//! ```no_run
//! # async fn example() -> Result<(), brownout_sim::SimError> {
//! use brownout_sim::{Sim, SimConfig};
//! let sim = Sim::start(SimConfig::default()).await?;
//! // ... point any OpenAI client at sim.url() ...
//! for request in sim.truth() {
//!     assert!(request.first_token >= request.scheduled);
//! }
//! sim.shutdown().await;
//! # Ok(())
//! # }
//! ```

pub mod answer;
pub mod blocks;
mod config;
pub mod core;
mod engine;
mod http;
mod metrics;
pub mod model;
mod noise;
pub mod scheduler;
mod server;
mod truth;
pub mod vocab;
pub mod weights;

pub use self::answer::Finish;
pub use self::config::{SimConfig, StepCost, Timing};
pub use self::scheduler::SchedulerConfig;
pub use self::server::{Sim, SimError};
pub use self::truth::RequestTruth;
