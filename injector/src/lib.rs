//! The domain of Brownout: what a scenario means, decided without any I/O and without a clock.
//!
//! ```text
//! YAML ──load──► Scenario ──Plan::compile(seed)──► Plan ──decide(Facts)──► Verdict ──► Effect, one step an event
//! ```
//!
//! Whoever acts (the proxy today, the shim later) hands in facts, gets a verdict, and carries it out. The same
//! scenario and seed give the same decisions on every machine, however its threads interleave.

pub mod draw;
pub mod effect;
pub mod facts;
pub mod fault;
pub mod journal;
pub mod load;
pub mod plan;
pub mod reference;
pub mod scenario;
pub mod sla;
pub mod units;
pub mod wire;

pub use draw::Draw;
pub use facts::Facts;
pub use fault::Fault;
pub use load::{Diagnostics, Remark, Severity, load, load_bytes, load_with, schema};
pub use plan::{Firing, Plan, Verdict};
pub use reference::reference;
pub use scenario::Scenario;
