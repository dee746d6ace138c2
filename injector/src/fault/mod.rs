//! The fault kinds. One file each: its parameters, what it means, and what it stands for in the real world.

mod check;
mod held;
mod shape;

use crate::Draw;
use crate::effect::{Before, Effect, Meaning};
use crate::facts::Facts;
use held::HeldOnce;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where in a serving system a fault acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// What clients send.
    Client,
    /// What stands between clients and engine: gateways, routers, the network.
    Router,
    /// The engine that generates tokens.
    InferenceEngine,
    /// Collectives between ranks.
    Collective,
    /// The GPU.
    Accelerator,
    /// Model files.
    Artifact,
    /// Pods and nodes.
    Orchestration,
}

impl Layer {
    /// Every layer, from the client down.
    pub const ALL: [Self; 7] = [
        Self::Client,
        Self::Router,
        Self::InferenceEngine,
        Self::Collective,
        Self::Accelerator,
        Self::Artifact,
        Self::Orchestration,
    ];

    /// Its name, as written in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Router => "router",
            Self::InferenceEngine => "inference engine",
            Self::Collective => "collective",
            Self::Accelerator => "accelerator",
            Self::Artifact => "artifact",
            Self::Orchestration => "orchestration",
        }
    }

    /// What it is.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Client => "what clients send",
            Self::Router => "what stands between clients and engine: gateways, routers, the network",
            Self::InferenceEngine => "the engine that generates tokens",
            Self::Collective => "collectives between ranks",
            Self::Accelerator => "the GPU",
            Self::Artifact => "model files",
            Self::Orchestration => "pods, nodes and their health checks",
        }
    }
}

/// By whose hand a fault acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acts {
    /// The proxy's, on requests and answers.
    OnTheWire,
    /// The shim's, on what a process calls.
    InTheProcess,
}

impl Acts {
    /// In words, as in "it acts on the wire".
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnTheWire => "on the wire",
            Self::InTheProcess => "in the process",
        }
    }

    /// Where that is, and which commands bring it there.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::OnTheWire => {
                "on the wire: in the proxy between clients and server, under `brownout run` and `brownout proxy`"
            }
            Self::InTheProcess => {
                "in the process: in the calls of the server itself, where `brownout exec` has started it"
            }
        }
    }
}

/// What `brownout explain KIND` says.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The key in a scenario.
    pub kind: &'static str,
    /// The part of a serving system that it stands for.
    pub layer: Layer,
    /// By whose hand.
    pub acts: Acts,
    /// What happens, in a sentence or two.
    pub meaning: &'static str,
    /// What a passed run with it says about the system.
    pub certifies: &'static str,
    /// What it does not say.
    pub does_not_certify: &'static str,
    /// A minimal use, as YAML of one entry of `faults`.
    pub example: &'static str,
}

impl About {
    /// Whether `when.file` must say which files are meant: without it an interpreter's own files would be hit too, and
    /// no process would come as far as its model.
    #[must_use]
    pub const fn needs_file(&self) -> bool {
        matches!((self.acts, self.layer), (Acts::InTheProcess, Layer::Artifact))
    }
}

/// Declares the modules, the one-of enum and the dispatch, so that a kind is named in one place.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $module:ident :: $kind:ident,)*) => {
        $(mod $module; pub use $module::*;)*

        /// What a fault does: exactly one kind with its parameters.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub enum Fault { $($(#[doc = $doc])* $kind($kind),)* }

        impl Fault {
            /// Every kind, in the order of the reference.
            pub const ALL: &[About] = &[$($kind::ABOUT),*];

            /// What this fault's kind is about.
            #[must_use]
            pub const fn about(&self) -> &'static About {
                match self { $(Self::$kind(_) => const { &$kind::ABOUT },)* }
            }

            fn meaning(&self) -> &dyn Meaning {
                match self { $(Self::$kind(fault) => fault,)* }
            }

            /// What is wrong with its parameters beyond what the schema says; `(field, what would be right)` each.
            #[must_use]
            pub fn problems(&self) -> Vec<(&'static str, String)> {
                match self { $(Self::$kind(fault) => fault.problems(),)* }
            }
        }
    };
}

kinds! {
    /// The request is held before it goes upstream.
    latency::Latency,
    /// The first token is held.
    first_token_delay::FirstTokenDelay,
    /// Every token is held.
    slow_tokens::SlowTokens,
    /// The stream stands still for a while.
    stall::Stall,
    /// The stream ends early, orderly.
    truncate::Truncate,
    /// The connection is cut.
    disconnect::Disconnect,
    /// The answer is an HTTP error.
    http_error::HttpError,
    /// Requests beyond a rate are refused.
    rate_limit::RateLimit,
    /// The text of tokens is wrong.
    corrupt_tokens::CorruptTokens,
    /// The stream breaks its own format.
    malformed_stream::MalformedStream,
    /// An error event inside a stream that began with 200.
    inband_error::InbandError,
    /// A successful answer with nothing in it.
    empty_response::EmptyResponse,
    /// The answer trickles.
    bandwidth::Bandwidth,
    /// The request is never answered.
    blackhole::Blackhole,
    /// Requests wait for a place.
    queue::Queue,
    /// The prompt is said to be too long.
    context_overflow::ContextOverflow,
    /// Another model answers, or none.
    wrong_model::WrongModel,
    /// No prompt is ever found in a prefix cache.
    cache_bust::CacheBust,
    /// Tool calls are broken.
    tool_call_fault::ToolCallFault,
    /// Health checks fail.
    probe_flap::ProbeFlap,
    /// The token usage is wrong.
    usage_lie::UsageLie,
    /// Model files read as damaged.
    checkpoint_corrupt::CheckpointCorrupt,
    /// Model files cannot be opened or read.
    checkpoint_error::CheckpointError,
    /// Model files are slow to read.
    checkpoint_slow::CheckpointSlow,
}

impl Fault {
    /// The kind with this key, by its exact name.
    #[must_use]
    pub fn kind(name: &str) -> Option<&'static About> {
        Self::ALL.iter().find(|about| about.kind == name)
    }

    /// The kind that a misspelt key was likely meant to be.
    #[must_use]
    pub fn closest_kind(name: &str) -> Option<&'static About> {
        crate::load::closest(name, Self::ALL.iter().map(|about| about.kind)).and_then(Self::kind)
    }

    /// What happens before the request goes upstream.
    #[must_use]
    pub fn before(&self, facts: &Facts<'_>, draw: Draw) -> Before {
        self.meaning().before(facts, draw)
    }

    /// What happens to the answer.
    #[must_use]
    pub fn on_answer(&self, facts: &Facts<'_>, draw: Draw) -> Option<Box<dyn Effect>> {
        self.meaning().on_answer(facts, draw)
    }

    /// Paths that the fault's own parameters name.
    #[must_use]
    pub fn own_paths(&self) -> &[String] {
        match self {
            Self::ProbeFlap(fault) => &fault.paths,
            _ => &[],
        }
    }
}
