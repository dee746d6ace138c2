//! What all layers of one stack share. A worker of the proxy has one, and so has each layer inside somebody else's
//! server.

use crate::config::Limits;
use crate::control::Shared;
use crate::meter::Meter;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::DropGuard;

/// What all layers of one stack share: what is armed, what was counted, how much may be read.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) meter: Meter,
    pub(crate) shared: Arc<Shared>,
    limits: Limits,
    begun: Instant,
    /// Ends the thread that keeps the time of what is armed, where this site has one of its own.
    _keeper: Option<DropGuard>,
}

impl Site {
    /// A site on a thread of its own; whoever makes it sees to the time.
    pub(crate) fn of_worker(shared: Arc<Shared>, limits: Limits) -> Arc<Self> {
        let (meter, begun) = (Meter::default(), Instant::now());
        Arc::new(Self { meter, shared, limits, begun, _keeper: None })
    }

    /// A site that any number of threads use; `keeper` goes when the last of them is done with it.
    pub(crate) fn of_many(shared: Arc<Shared>, limits: Limits, keeper: DropGuard) -> Arc<Self> {
        let (meter, begun) = (Meter::of_many(), Instant::now());
        Arc::new(Self { meter, shared, limits, begun, _keeper: Some(keeper) })
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Milliseconds since it began: 49 days fit, and only differences of seconds matter.
    pub(crate) fn millis(&self) -> u32 {
        self.begun.elapsed().as_millis() as u32
    }
}
