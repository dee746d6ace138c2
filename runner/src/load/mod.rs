//! Makes load and records what becomes of it.
//!
//! ```text
//! Arrivals (seed) ─► job n ─► attempt: Client ─► Answer (event by event) ─► outcome ─► RequestRecord ─► Recording
//! ```
//!
//! Sending has threads of its own, each one event loop; whoever called [`run`] only collects. Times count from the
//! scheduled send, and how late the sends were is part of the result.

mod answer;
mod attempt;
mod attribute;
mod body;
mod client;
mod clock;
mod error;
mod get;
mod io;
mod lengths;
mod models;
mod outcome;
mod patient;
mod progress;
mod prompts;
mod run;
mod schedule;
mod scrape;
mod target;
mod tls;
mod worker;

pub use answer::{Answer, Breach, MAX_BODY, MAX_EVENT};
pub use attribute::attribute;
pub use body::{Requests, expand};
pub use error::LoadError;
pub use lengths::{MAX_TOKENS, check as check_lengths, sample as sample_length};
pub use models::{check_tls, first_model};
pub use outcome::{Deadline, End, Facts, mismatch, outcome};
pub use patient::open_patiently;
pub use progress::{Progress, ROLLING_WINDOW};
pub use prompts::{Input, Prompt, Prompts, check_prompts};
pub use run::{LoadRun, Observer, Stop, run};
pub use schedule::{Arrivals, MAX_RATE};
pub use scrape::server_metrics;
pub use target::Target;
