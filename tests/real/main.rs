//! Tests on real input: `brownout run` on llama-server with Gemma 3, and the official OpenAI Python client through
//! `brownout proxy`. They need what `tests/real/prepare` prepares, and fail without it: a test that skips itself is a
//! test that nobody runs.
//!
//! ```text
//! eval "$(tests/real/prepare llama gemma openai)"
//! cargo test --release --test real -- --test-threads=1
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, missing_docs, reason = "tests")]

mod llama;
mod openai;
mod server;
mod support;
mod tap;
