//! The data plane: tower layers over hyper that carry out what a plan decides.
//!
//! ```text
//! client ──► worker (thread, runtime, listener) ──► stack: measure, recover, facts, decide, before, shape ──► server
//!                                                            ▲                                  │
//!                                              Control: arm, renew, heal, status          Journal: what fired
//! ```
//!
//! Nothing armed, a request costs its way through hyper and a look at one pointer; streams are measured all the same.
//!
//! [`Proxy`] is the whole of it, in front of a server across the network. [`FaultsLayer`] is the same stack as one tower
//! layer, inside a server of this process; see there for an example.

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
mod direct;
mod exchange;
mod facts;
mod failure;
mod faults;
mod headers;
mod hold;
mod journal;
mod link;
mod local;
mod measure;
mod meter;
mod metrics;
mod next;
mod pool;
mod proxy;
mod recover;
mod shape;
mod shaped;
mod site;
mod small_writes;
mod spelling;
mod stack;
mod tls;
mod tunnel;
mod upstream;
mod worker;

pub use body::BodyError;
pub use config::{BadUpstream, Config, Limits, StartError, Upstream};
pub use control::{Control, RuleStatus, Status};
pub use failure::{ERROR_HEADER, Failure, TlsFailure};
pub use faults::{Faults, FaultsFuture, FaultsLayer, RequestBody, ResponseBody};
pub use journal::{Journal, JournalSink};
pub use meter::{Histogram, Origin, Outcome, Traffic};
pub use proxy::Proxy;
