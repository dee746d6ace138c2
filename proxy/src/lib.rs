//! The data plane: tower layers over hyper that carry out what a plan decides.
//!
//! ```text
//! client ──► worker (thread, runtime, listener) ──► stack: measure, recover, facts, decide, before, shape ──► server
//!                                                            ▲                                  │
//!                                              Control: arm, renew, heal, status          Journal: what fired
//! ```
//!
//! Nothing armed, a request costs its way through hyper and a look at one pointer; streams are measured all the same.

mod admin;
mod answer;
mod before;
mod body;
mod call;
mod case;
mod chunked;
mod client;
mod config;
mod control;
mod decide;
mod detour;
mod direct;
mod facts;
mod failure;
mod headers;
mod hold;
mod journal;
mod link;
mod measure;
mod meter;
mod metrics;
mod pool;
mod prompt;
mod proxy;
mod recover;
mod shape;
mod shaped;
mod stack;
mod tls;
mod tunnel;
mod upstream;
mod worker;

pub use config::{BadUpstream, Config, Limits, StartError, Upstream};
pub use control::{Control, RuleStatus, Status};
pub use failure::{ERROR_HEADER, Failure, TlsFailure};
pub use journal::{Journal, JournalSink};
pub use meter::{Histogram, Origin, Outcome, Traffic};
pub use proxy::Proxy;
