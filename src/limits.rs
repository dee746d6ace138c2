//! What the system lets the process have.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Lets the process have as many sockets as its hard limit allows. The usual soft limit of 1024 is what a program may
/// have that uses `select`; a proxy, a server or a load of a few hundred streams is beyond it at once.
pub(crate) fn raise_sockets() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused, everything runs all the same, with fewer connections.
    let _ = setrlimit(Resource::Nofile, limit);
}
