//! Collectives through shared memory.
//!
//! Each communicator has a buffer for each rank. All ranks put a chunk of what they have into their buffers, take what they need from
//! all, and go on to the next chunk when everybody has taken. So a rank that does not come holds up all, and memory is bounded.
//! A buffer for each pair of ranks serves sends and receives.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Outcome};
use crate::process;
use crate::reduce::{Numbers, Operation, reduce};
use crate::state::State;

/// How many ranks a communicator may have.
pub(crate) const RANKS: usize = 8;
const CHUNK: usize = 256 << 10;
const LETTER: usize = 16 << 10;

/// What the ranks of a communicator share.
#[repr(C)]
pub(crate) struct Communicator {
    /// 0 for a free one.
    id: [AtomicU64; 2],
    ranks: AtomicU64,
    members: [Member; RANKS],
    /// By sender and receiver.
    letters: [[Letter; RANKS]; RANKS],
    chunks: [Bytes<CHUNK>; RANKS],
}

#[repr(C)]
struct Member {
    /// Who has joined as this rank; 0 for nobody yet.
    process: AtomicU64,
    left: AtomicU64,
    /// How many chunks it has put into its buffer, and has taken from all.
    put: AtomicU64,
    taken: AtomicU64,
}

#[repr(C)]
struct Letter {
    sent: AtomicU64,
    received: AtomicU64,
    bytes: Bytes<LETTER>,
}

/// Bytes that the counters beside them say who may touch.
#[repr(transparent)]
struct Bytes<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: shared memory; the protocol above says whose turn it is.
unsafe impl<const SIZE: usize> Sync for Bytes<SIZE> {}

impl<const SIZE: usize> Bytes<SIZE> {
    fn start(&self) -> *mut u8 {
        self.0.get().cast()
    }
}

impl Communicator {
    fn has_id(&self, id: [u64; 2]) -> bool {
        self.id[0].load(Ordering::Acquire) == id[0] && self.id[1].load(Ordering::Relaxed) == id[1]
    }

    /// Whether nobody is left who could use it.
    fn abandoned(&self) -> bool {
        self.members.iter().all(|member| {
            let process = member.process.load(Ordering::Acquire);
            process == 0 || member.left.load(Ordering::Acquire) != 0 || !process::alive(process)
        })
    }

    fn begin(&self, id: [u64; 2], ranks: usize) {
        self.id[0].store(0, Ordering::Release);
        for member in &self.members {
            for word in [&member.process, &member.left, &member.put, &member.taken] {
                word.store(0, Ordering::Relaxed);
            }
        }
        for letter in self.letters.iter().flatten() {
            letter.sent.store(0, Ordering::Relaxed);
            letter.received.store(0, Ordering::Relaxed);
        }
        self.ranks.store(ranks as u64, Ordering::Relaxed);
        self.id[1].store(id[1], Ordering::Relaxed);
        self.id[0].store(id[0], Ordering::Release);
    }

    /// Joins the communicator of that id as a rank, and begins it where this is the first rank to come.
    pub(crate) fn join(state: &State, id: [u64; 2], ranks: usize, rank: usize) -> Outcome<&Self> {
        if id[0] == 0 || ranks == 0 || ranks > RANKS || rank >= ranks {
            return Err(Error::INVALID_VALUE);
        }
        let locked = state.locked();
        locked.own_slot()?;
        let all = &state.communicators;
        let found = match all.iter().find(|found| found.has_id(id)) {
            Some(found) => found,
            None => {
                let free = all.iter().find(|one| one.id[0].load(Ordering::Relaxed) == 0);
                let free = free.or_else(|| all.iter().find(|one| one.abandoned()));
                let free = free.ok_or(Error::OPERATING_SYSTEM)?;
                free.begin(id, ranks);
                free
            }
        };
        let member = &found.members[rank];
        if found.ranks.load(Ordering::Relaxed) != ranks as u64 || member.process.load(Ordering::Relaxed) != 0
        {
            return Err(Error::INVALID_VALUE);
        }
        member.process.store(process::own(), Ordering::Release);
        Ok(found)
    }

    pub(crate) fn leave(&self, rank: usize) {
        self.members[rank].left.store(1, Ordering::Release);
    }

    fn present(&self) -> &[Member] {
        &self.members[..(self.ranks.load(Ordering::Relaxed) as usize).min(RANKS)]
    }

    /// Whether all ranks have joined.
    pub(crate) fn complete(&self) -> bool {
        self.present().iter().all(|member| member.process.load(Ordering::Acquire) != 0)
    }
}

/// What a collective does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    AllReduce(Operation),
    AllGather,
    ReduceScatter(Operation),
    Broadcast { root: usize },
    Reduce { root: usize, operation: Operation },
}

/// One rank's part in a collective.
pub(crate) struct Collective {
    kind: Kind,
    numbers: Numbers,
    send: *const u8,
    receive: *mut u8,
    /// Bytes of one rank's share, and of what each rank puts in.
    share: usize,
    total: usize,
    at: usize,
    has_put: bool,
}

// SAFETY: device pointers, good in every thread of the process.
unsafe impl Send for Collective {}

impl Collective {
    pub(crate) fn new(
        kind: Kind,
        ranks: usize,
        send: *const u8,
        receive: *mut u8,
        count: usize,
        numbers: Numbers,
    ) -> Outcome<Self> {
        let share = count.checked_mul(numbers.size()).ok_or(Error::INVALID_VALUE)?;
        let total = match kind {
            Kind::ReduceScatter(_) => share.checked_mul(ranks).ok_or(Error::INVALID_VALUE)?,
            _ => share,
        };
        Ok(Self { kind, numbers, send, receive, share, total, at: 0, has_put: false })
    }

    /// Goes on as far as the others let it; says whether it is done.
    pub(crate) fn step(&mut self, shared: &Communicator, rank: usize) -> bool {
        let own = &shared.members[rank];
        while self.at < self.total {
            let round = own.taken.load(Ordering::Relaxed) + 1;
            let reached = |of: fn(&Member) -> &AtomicU64, round: u64| {
                shared.present().iter().all(|member| of(member).load(Ordering::Acquire) >= round)
            };
            if !self.has_put {
                if !reached(|member| &member.taken, round - 1) {
                    return false;
                }
                self.put(shared, rank);
                own.put.store(round, Ordering::Release);
                self.has_put = true;
            }
            if !reached(|member| &member.put, round) {
                return false;
            }
            self.take(shared, rank);
            own.taken.store(round, Ordering::Release);
            self.has_put = false;
            self.at += self.chunk();
        }
        true
    }

    fn chunk(&self) -> usize {
        CHUNK.min(self.total - self.at)
    }

    fn put(&self, shared: &Communicator, rank: usize) {
        if !matches!(self.kind, Kind::Broadcast { root } if root != rank) {
            let to = shared.chunks[rank].start();
            // SAFETY: our buffer, which everybody has taken the last chunk from; the caller's range is `total` long.
            unsafe { std::ptr::copy_nonoverlapping(self.send.add(self.at), to, self.chunk()) };
        }
    }

    fn take(&self, shared: &Communicator, rank: usize) {
        let ranks = shared.present().len();
        let from = |rank: usize| shared.chunks[rank].start().cast_const();
        let chunk = self.chunk();
        // SAFETY: buffers that everybody has filled, and the caller's ranges, as long as the C function says.
        unsafe {
            let copy = |rank: usize, at: usize| {
                std::ptr::copy_nonoverlapping(from(rank), self.receive.add(at), chunk);
            };
            let reduce_part = |begin: usize, bytes: usize, at: usize, operation: Operation| {
                let sources: [*const u8; RANKS] = std::array::from_fn(|rank| from(rank).add(begin));
                reduce(self.receive.add(at), &sources[..ranks], bytes, self.numbers, operation);
            };
            match self.kind {
                Kind::AllReduce(operation) => reduce_part(0, chunk, self.at, operation),
                Kind::Reduce { root, operation } if root == rank => {
                    reduce_part(0, chunk, self.at, operation);
                }
                Kind::Reduce { .. } => {}
                Kind::Broadcast { root } => copy(root, self.at),
                Kind::AllGather => (0..ranks).for_each(|rank| copy(rank, rank * self.share + self.at)),
                Kind::ReduceScatter(operation) => {
                    // What of this chunk lies in our own share.
                    let own = rank * self.share;
                    let begin = self.at.max(own);
                    let end = (self.at + chunk).min(own + self.share);
                    if begin < end {
                        reduce_part(begin - self.at, end - begin, begin - own, operation);
                    }
                }
            }
        }
    }
}

/// A send or a receive.
pub(crate) struct Transfer {
    pub(crate) peer: usize,
    pub(crate) sends: bool,
    pub(crate) address: *mut u8,
    pub(crate) size: usize,
    pub(crate) at: usize,
}

// SAFETY: as for collectives.
unsafe impl Send for Transfer {}

impl Transfer {
    /// Goes on as far as the peer lets it; says whether it is done.
    pub(crate) fn step(&mut self, shared: &Communicator, rank: usize) -> bool {
        let (from, to) = if self.sends { (rank, self.peer) } else { (self.peer, rank) };
        let letter = &shared.letters[from][to];
        while self.at < self.size {
            let waiting = letter.sent.load(Ordering::Acquire) != letter.received.load(Ordering::Acquire);
            if waiting == self.sends {
                return false;
            }
            let length = LETTER.min(self.size - self.at);
            let (inside, counter) =
                (letter.bytes.start(), if self.sends { &letter.sent } else { &letter.received });
            // SAFETY: our turn with the buffer; the caller's range is `size` long.
            unsafe {
                let outside = self.address.add(self.at);
                let (from, to) = if self.sends { (outside, inside) } else { (inside, outside) };
                std::ptr::copy_nonoverlapping(from, to, length);
            }
            counter.fetch_add(1, Ordering::Release);
            self.at += length;
        }
        true
    }
}
