//! What the system lets the process have.

use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;

/// Open files that the process has room for from the start: some thousand streams through a proxy, two sockets each.
/// The kernel keeps 128 KiB for it.
const ROOM: u64 = 16_384;

/// Lets the process have as many sockets as its hard limit allows, and makes room for them. Call it before there are
/// threads.
///
/// The usual soft limit of 1024 is what a program may have that uses `select`; a proxy, a server or a load of a few
/// hundred streams is beyond it at once.
pub(crate) fn allow_sockets() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused, everything runs all the same, with fewer connections.
    let _ = setrlimit(Resource::Nofile, limit);
    make_room(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX));
}

/// The kernel doubles its table of a process's open files whenever it is full, and where the process has threads it then
/// waits until no CPU reads the old one (`synchronize_rcu` in `expand_fdtable`, fs/file.c): 10 to 30 ms in which the
/// connection that was one too many, and all others of its thread, stand still. That is no latency of the server that
/// is measured. The table never shrinks, so one high number used once is enough.
fn make_room(limit: u64) {
    let highest = i32::try_from(ROOM.min(limit).saturating_sub(1)).unwrap_or(0);
    // Without it everything runs all the same, with those pauses.
    let _ = File::open("/dev/null").map(|file| rustix::io::fcntl_dupfd_cloexec(file, highest));
}
