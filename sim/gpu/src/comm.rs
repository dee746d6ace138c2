//! A process's part in communicators: whom it has joined, and what it does with them in which order.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::collective::{Collective, Communicator, Transfer};
use crate::error::{Error, Outcome};
use crate::root::{Root, hold, root};
use crate::stream::{Rest, Stream};

/// Something in the wrong order. Not among the driver's errors.
pub(crate) const INVALID_USAGE: Error = Error(-5);

thread_local! {
    static GROUP: RefCell<Group> = const { RefCell::new(Group::new()) };
}

/// A process's part in a communicator.
pub(crate) struct Comm {
    shared: &'static Communicator,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) device: usize,
    /// Work begins in the order in which it was given, on whatever stream.
    given: AtomicU64,
    done: AtomicU64,
    aborted: AtomicBool,
    /// Held while the shared buffers are touched, so that an abort knows when that has ended.
    touching: Mutex<()>,
}

impl Comm {
    pub(crate) fn join(
        root: &'static Root,
        id: [u64; 2],
        ranks: c_int,
        rank: c_int,
        device: usize,
    ) -> Outcome<Arc<Self>> {
        let number = |value| usize::try_from(value).map_err(|_| Error::INVALID_VALUE);
        let (ranks, rank) = (number(ranks)?, number(rank)?);
        let shared = Communicator::join(root.state()?, id, ranks, rank)?;
        let comm = Arc::new(Self {
            shared,
            rank,
            ranks,
            device,
            given: AtomicU64::new(0),
            done: AtomicU64::new(0),
            aborted: AtomicBool::new(false),
            touching: Mutex::default(),
        });
        hold(&root.comms).push(Arc::clone(&comm));
        Ok(comm)
    }

    pub(crate) fn handle(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn find(handle: *mut c_void) -> Outcome<Arc<Self>> {
        let comms = hold(&root()?.comms);
        let found = comms.iter().find(|comm| comm.handle() == handle);
        found.map(Arc::clone).ok_or(Error::INVALID_VALUE)
    }

    /// Whether all ranks have joined.
    pub(crate) fn complete(&self) -> bool {
        self.shared.complete()
    }

    /// Ends this rank's work, finished or not.
    pub(crate) fn abort(&self) -> Outcome {
        self.aborted.store(true, Ordering::Release);
        drop(hold(&self.touching));
        self.remove()
    }

    fn wait_until(&self, reached: impl Fn(&Self) -> bool) {
        let mut rest = Rest::default();
        while !reached(self) && !self.aborted.load(Ordering::Acquire) {
            rest.rest();
        }
    }

    pub(crate) fn wait_for_ranks(&self) {
        self.wait_until(Self::complete);
    }

    pub(crate) fn wait_for_work(&self) {
        let given = self.given.load(Ordering::Acquire);
        self.wait_until(|comm| comm.done.load(Ordering::Acquire) >= given);
    }

    /// Leaves the others.
    pub(crate) fn remove(&self) -> Outcome {
        hold(&root()?.comms).retain(|comm| comm.handle() != self.handle());
        self.shared.leave(self.rank);
        Ok(())
    }

    pub(crate) fn peer(&self, number: c_int) -> Outcome<usize> {
        usize::try_from(number).ok().filter(|peer| *peer < self.ranks).ok_or(Error::INVALID_VALUE)
    }

    /// Gives a stream work that counts as one, however much it is.
    fn give(self: Arc<Self>, stream: &Arc<Stream>, mut tasks: Vec<Task>) -> Outcome {
        let turn = self.given.fetch_add(1, Ordering::AcqRel);
        let step = move |clock: &mut crate::stream::Clock| {
            let touching = hold(&self.touching);
            let aborted = self.aborted.load(Ordering::Acquire);
            if !aborted {
                if self.done.load(Ordering::Acquire) != turn {
                    return false;
                }
                step(&mut tasks, self.shared, self.rank);
                if !tasks.is_empty() {
                    return false;
                }
            }
            drop(touching);
            self.done.fetch_max(turn + 1, Ordering::AcqRel);
            clock.ended = Instant::now();
            true
        };
        stream.give(root()?, Box::new(step));
        Ok(())
    }
}

/// What a call asks for.
pub(crate) enum Task {
    Collective(Collective),
    Transfer(Transfer),
}

/// Does what can be done: collectives one after the other, transfers beside each other but for those of one pair in one direction.
fn step(tasks: &mut Vec<Task>, shared: &Communicator, rank: usize) {
    let mut held_up: Vec<Option<(usize, bool)>> = Vec::new();
    tasks.retain_mut(|task| {
        let lane = match task {
            Task::Collective(_) => None,
            Task::Transfer(transfer) => Some((transfer.peer, transfer.sends)),
        };
        if held_up.contains(&lane) {
            return true;
        }
        let done = match task {
            Task::Collective(collective) => collective.step(shared, rank),
            Task::Transfer(transfer) => transfer.step(shared, rank),
        };
        if !done {
            held_up.push(lane);
        }
        !done
    });
}

/// What a thread has asked for since `ncclGroupStart`.
pub(crate) struct Group {
    depth: u32,
    failed: Option<Error>,
    joined: Vec<Arc<Comm>>,
    work: Vec<(Arc<Comm>, Arc<Stream>, Vec<Task>)>,
}

impl Group {
    const fn new() -> Self {
        Self { depth: 0, failed: None, joined: Vec::new(), work: Vec::new() }
    }

    pub(crate) fn start() {
        GROUP.with_borrow_mut(|group| group.depth += 1);
    }

    /// The end of the outermost group begins its work, and waits for those who were to join.
    pub(crate) fn end() -> Outcome {
        let ended = GROUP.with_borrow_mut(|group| {
            group.depth = group.depth.checked_sub(1).ok_or(INVALID_USAGE)?;
            Ok((group.depth == 0).then(|| std::mem::replace(group, Self::new())))
        });
        ended?.map_or(Ok(()), Self::finish)
    }

    /// Waits for the other ranks, now or at the end of the group.
    pub(crate) fn wait_for_ranks(comm: Arc<Comm>) {
        let alone = GROUP.with_borrow_mut(|group| {
            if group.depth == 0 {
                return Some(comm);
            }
            group.joined.push(comm);
            None
        });
        alone.iter().for_each(|comm| comm.wait_for_ranks());
    }

    /// Begins work now, or at the end of the group, which fails where one of its calls did.
    pub(crate) fn submit(
        comm: *mut c_void,
        stream: *mut c_void,
        task: impl FnOnce(&Comm) -> Outcome<Task>,
    ) -> Outcome {
        let found = || {
            let comm = Comm::find(comm)?;
            let task = task(&comm)?;
            let stream = root()?.stream(stream, comm.device)?;
            Ok((comm, stream, task))
        };
        let found = found();
        let now = GROUP.with_borrow_mut(|group| match found {
            found if group.depth == 0 => found.map(Some),
            Ok((comm, stream, task)) => {
                group.add(comm, stream, task);
                Ok(None)
            }
            Err(error) => {
                group.failed = group.failed.or(Some(error));
                Err(error)
            }
        });
        now?.map_or(Ok(()), |(comm, stream, task)| comm.give(&stream, vec![task]))
    }

    /// Work of one communicator on one stream is done together.
    fn add(&mut self, comm: Arc<Comm>, stream: Arc<Stream>, task: Task) {
        let same = |work: &&mut (Arc<Comm>, Arc<Stream>, Vec<Task>)| {
            Arc::ptr_eq(&work.0, &comm) && Arc::ptr_eq(&work.1, &stream)
        };
        match self.work.iter_mut().find(same) {
            Some(work) => work.2.push(task),
            None => self.work.push((comm, stream, vec![task])),
        }
    }

    fn finish(self) -> Outcome {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.joined.iter().for_each(|comm| comm.wait_for_ranks());
        self.work.into_iter().try_for_each(|(comm, stream, tasks)| comm.give(&stream, tasks))
    }
}
