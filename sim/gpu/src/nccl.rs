//! NCCL: `libnccl.so.2`.
//!
//! As with the real one, calls return before their work is done, which is then a matter of the stream; a rank that never comes, dead
//! or not, is waited for until someone aborts.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::collective::{Collective, Kind, Transfer};
use crate::comm::{Comm, Group, INVALID_USAGE, Task};
use crate::error::{Error, Outcome};
use crate::put;
use crate::reduce::{Numbers, Operation};
use crate::root::root;

/// The version that it claims: 2.30.7.
const VERSION: c_int = 23007;

/// Numbers and texts of `ncclResult_t` in `nccl.h`.
const IN_PROGRESS: c_int = 7;
const TEXTS: [&CStr; 8] = [
    c"no error",
    c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
    c"internal error - please report this issue to the NCCL developers",
    c"invalid argument (run with NCCL_DEBUG=WARN for details)",
    c"invalid usage (run with NCCL_DEBUG=WARN for details)",
    c"remote process exited or there was a network error",
    c"NCCL operation in progress",
];

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// NCCL's number for what went wrong.
fn nccl_code(outcome: Outcome) -> c_int {
    let code = match outcome {
        Ok(()) => 0,
        Err(Error::OPERATING_SYSTEM) => 2,
        Err(Error::INVALID_VALUE | Error::INVALID_HANDLE | Error::INVALID_DEVICE) => 4,
        Err(INVALID_USAGE) => 5,
        Err(_) => 1,
    };
    if code != 0 {
        LAST.set(code);
    }
    code
}

/// `ncclUniqueId`, which passes by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId {
    words: [u64; 2],
    rest: [u64; 14],
}

/// Whether a pointer may stand for so many things.
fn filled(pointer: *const c_void, count: usize) -> Outcome<*mut u8> {
    if pointer.is_null() && count != 0 {
        return Err(Error::INVALID_VALUE);
    }
    Ok(pointer.cast_mut().cast())
}

/// What a collective is given, in all of them.
struct Given {
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    numbers: c_int,
}

fn collective(
    given: Given,
    comm: *mut c_void,
    stream: *mut c_void,
    kind: impl FnOnce(&Comm) -> Outcome<Kind>,
) -> Outcome {
    Group::submit(comm, stream, |comm| {
        let kind = kind(comm)?;
        let numbers = Numbers::new(given.numbers)?;
        // Only a root gives to a broadcast, and only a root gets from a reduction.
        let (gives, gets) = match kind {
            Kind::Broadcast { root } => (root == comm.rank, true),
            Kind::Reduce { root, .. } => (true, root == comm.rank),
            _ => (true, true),
        };
        let send = filled(given.send, if gives { given.count } else { 0 })?;
        let receive = filled(given.receive, if gets { given.count } else { 0 })?;
        let collective = Collective::new(kind, comm.ranks, send, receive, given.count, numbers)?;
        Ok(Task::Collective(collective))
    })
}

fn transfer(
    sends: bool,
    address: *const c_void,
    count: usize,
    numbers: c_int,
    peer: c_int,
    comm: *mut c_void,
    stream: *mut c_void,
) -> Outcome {
    Group::submit(comm, stream, |comm| {
        let size = count.checked_mul(Numbers::new(numbers)?.size()).ok_or(Error::INVALID_VALUE)?;
        let address = filled(address, count)?;
        Ok(Task::Transfer(Transfer { peer: comm.peer(peer)?, sends, address, size, at: 0 }))
    })
}

/// Joins, and waits for the others unless told not to; in a group the group waits.
fn begin(out: *mut *mut c_void, ranks: c_int, id: UniqueId, rank: c_int, blocking: bool) -> Outcome {
    if out.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let root = root()?;
    let comm = Comm::join(root, id.words, ranks, rank, root.runtime_device()?)?;
    put(out, comm.handle())?;
    if blocking {
        Group::wait_for_ranks(comm);
    }
    Ok(())
}

/// `blocking` in `ncclConfig_t`: after a size, a magic number and a version. 0 says no, undefined says yes.
fn blocks(config: *const c_void) -> bool {
    // SAFETY: null, or the caller's structure, of which we know the beginning.
    config.is_null() || unsafe { config.cast::<c_int>().add(4).read_unaligned() } != 0
}

fn unique_id() -> Outcome<UniqueId> {
    let mut words = [0u64; 2];
    let size = size_of_val(&words);
    // SAFETY: writes that many bytes.
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), size, 0) };
    if got != size as isize {
        return Err(Error::OPERATING_SYSTEM);
    }
    // A communicator whose id begins with 0 is a free one.
    words[0] |= 1;
    Ok(UniqueId { words, rest: [0; 14] })
}

exports! { nccl_code;
    fn ncclGetVersion(out: *mut c_int) {
        put(out, VERSION)
    }

    fn ncclGetUniqueId(out: *mut UniqueId) {
        put(out, unique_id()?)
    }

    fn ncclCommInitRank(out: *mut *mut c_void, ranks: c_int, id: UniqueId, rank: c_int) {
        begin(out, ranks, id, rank, true)
    }

    fn ncclCommInitRankConfig(
        out: *mut *mut c_void,
        ranks: c_int,
        id: UniqueId,
        rank: c_int,
        config: *mut c_void,
    ) {
        begin(out, ranks, id, rank, blocks(config))
    }

    /// One process with all ranks, each on a device of its own; without a list, on as many as there are ranks.
    fn ncclCommInitAll(out: *mut *mut c_void, ranks: c_int, devices: *const c_int) {
        let root = root()?;
        root.initialise()?;
        let id = unique_id()?;
        for rank in 0..ranks {
            // SAFETY: the caller's lists are as long as it says.
            let number = if devices.is_null() { rank } else { unsafe { *devices.add(rank as usize) } };
            let comm = Comm::join(root, id.words, ranks, rank, root.device(number)?)?;
            // SAFETY: as above.
            put(unsafe { out.add(rank as usize) }, comm.handle())?;
        }
        Ok(())
    }

    fn ncclCommFinalize(comm: *mut c_void) {
        Comm::find(comm)?.wait_for_work();
        Ok(())
    }

    fn ncclCommDestroy(comm: *mut c_void) {
        let comm = Comm::find(comm)?;
        comm.wait_for_work();
        comm.remove()
    }

    /// Ends this rank's work, finished or not. The others go on waiting.
    fn ncclCommAbort(comm: *mut c_void) {
        Comm::find(comm)?.abort()
    }

    fn ncclCommCount(comm: *mut c_void, out: *mut c_int) {
        put(out, Comm::find(comm)?.ranks as c_int)
    }

    fn ncclCommUserRank(comm: *mut c_void, out: *mut c_int) {
        put(out, Comm::find(comm)?.rank as c_int)
    }

    fn ncclCommCuDevice(comm: *mut c_void, out: *mut c_int) {
        put(out, Comm::find(comm)?.device as c_int)
    }

    fn ncclCommGetAsyncError(comm: *mut c_void, out: *mut c_int) {
        put(out, if Comm::find(comm)?.complete() { 0 } else { IN_PROGRESS })
    }

    fn ncclGroupStart() {
        Group::start();
        Ok(())
    }

    fn ncclGroupEnd() {
        Group::end()
    }

    fn ncclAllReduce(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        numbers: c_int,
        operation: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    ) {
        let given = Given { send, receive, count, numbers };
        collective(given, comm, stream, |_| Ok(Kind::AllReduce(Operation::new(operation)?)))
    }

    fn ncclAllGather(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        numbers: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    ) {
        collective(Given { send, receive, count, numbers }, comm, stream, |_| Ok(Kind::AllGather))
    }

    fn ncclReduceScatter(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        numbers: c_int,
        operation: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    ) {
        let given = Given { send, receive, count, numbers };
        collective(given, comm, stream, |_| Ok(Kind::ReduceScatter(Operation::new(operation)?)))
    }

    fn ncclBroadcast(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        numbers: c_int,
        root: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    ) {
        let given = Given { send, receive, count, numbers };
        collective(given, comm, stream, |comm| Ok(Kind::Broadcast { root: comm.peer(root)? }))
    }

    fn ncclReduce(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        numbers: c_int,
        operation: c_int,
        root: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    ) {
        let given = Given { send, receive, count, numbers };
        collective(given, comm, stream, |comm| {
            Ok(Kind::Reduce { root: comm.peer(root)?, operation: Operation::new(operation)? })
        })
    }

    fn ncclSend(
        address: *const c_void,
        count: usize,
        numbers: c_int,
        peer: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    ) {
        transfer(true, address, count, numbers, peer, comm, stream)
    }

    fn ncclRecv(
        address: *mut c_void,
        count: usize,
        numbers: c_int,
        peer: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    ) {
        transfer(false, address, count, numbers, peer, comm, stream)
    }
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(number: c_int) -> *const c_char {
    let known = usize::try_from(number).ok().and_then(|number| TEXTS.get(number));
    known.map_or(c"unknown result code", |text| *text).as_ptr()
}

/// What went wrong last in this thread; nothing, where nothing did.
#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(_comm: *mut c_void) -> *const c_char {
    match LAST.get() {
        0 => c"".as_ptr(),
        number => ncclGetErrorString(number),
    }
}
