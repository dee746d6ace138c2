//! Who is who, and who is dead: processes are told apart by their id and the time at which they started, since ids come again.
//!
//! Processes that share a state must see each other under `/proc`: one PID namespace.

use std::sync::atomic::{AtomicU64, Ordering};

/// A process: its id above, the lower half of its start time (clock ticks since boot) below. Never 0.
pub(crate) type Identity = u64;

/// This process. Asked anew each time, since a fork makes another of it.
pub(crate) fn own() -> Identity {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let known = KNOWN.load(Ordering::Relaxed);
    if known >> 32 == u64::from(pid) {
        return known;
    }
    let start = match look(pid) {
        Seen::Alive(start) => start,
        Seen::Dead | Seen::Hidden => 0,
    };
    let own = (u64::from(pid) << 32) | start;
    KNOWN.store(own, Ordering::Relaxed);
    own
}

/// Whether the process lives. One that cannot be looked at counts as alive: better memory held than memory given twice.
pub(crate) fn alive(identity: Identity) -> bool {
    identity == own()
        || match look((identity >> 32) as u32) {
            Seen::Alive(start) => start == identity & u64::from(u32::MAX),
            Seen::Dead => false,
            Seen::Hidden => true,
        }
}

enum Seen {
    Alive(u64),
    Dead,
    Hidden,
}

fn look(pid: u32) -> Seen {
    match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => read(&stat),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Seen::Dead,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Seen::Dead,
        Err(_) => Seen::Hidden,
    }
}

/// `pid (any name) state ... starttime ...`: the third and the 22nd field. A zombie holds no memory any more.
fn read(stat: &[u8]) -> Seen {
    let Some(name_end) = stat.iter().rposition(|byte| *byte == b')') else { return Seen::Hidden };
    let rest = String::from_utf8_lossy(&stat[name_end + 1..]);
    let mut fields = rest.split_ascii_whitespace();
    if let Some("Z" | "X") = fields.next() {
        return Seen::Dead;
    }
    fields
        .nth(18)
        .and_then(|start| start.parse::<u64>().ok())
        .map_or(Seen::Hidden, |start| Seen::Alive(start & u64::from(u32::MAX)))
}
