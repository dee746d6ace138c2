//! The control block of this process, if it has one, and who the process is to it.

use crate::plan;
use crate::{clock, sys};
use brownout_control::block::VARIABLE;
use brownout_control::directive::Family;
use brownout_control::ring::Event;
use brownout_control::{Block, Directive, Text};
use core::ffi::CStr;
use core::fmt::{Arguments, Write as _};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use core::time::Duration;

static BLOCK: AtomicPtr<Block> = AtomicPtr::new(core::ptr::null_mut());
static RANK: AtomicU64 = AtomicU64::new(Directive::ANY_RANK);

/// Families whose hooks are needed although nothing is armed any more, since something is left to undo.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// What launchers call the rank of a process.
const RANKS: [&CStr; 4] = [c"RANK", c"OMPI_COMM_WORLD_RANK", c"PMI_RANK", c"SLURM_PROCID"];

/// Finds the block that the environment names. Without one the shim stays out of the way for ever.
pub(crate) fn attach() {
    let Some(block) = variable(VARIABLE_NAME).and_then(map) else { return };
    let rank =
        RANKS.iter().find_map(|name| core::str::from_utf8(variable(name)?.to_bytes()).ok()?.parse().ok());
    RANK.store(rank.unwrap_or(Directive::ANY_RANK), Relaxed);
    BLOCK.store(core::ptr::from_ref(block).cast_mut(), Release);
    crate::watch::survive_forks();
}

/// [`VARIABLE`], as C has it.
const VARIABLE_NAME: &CStr = c"BROWNOUT_CONTROL";
const _: () = assert!(VARIABLE.len() == VARIABLE_NAME.to_bytes().len());

fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: names end with a zero; what is found lives in the environment, which is left alone while we are loaded.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: as `getenv` gives it.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

fn map(path: &CStr) -> Option<&'static Block> {
    let fd = sys::open_at(libc::AT_FDCWD, path, libc::O_RDWR).ok()?;
    let long_enough = sys::stat(fd).is_some_and(|about| about.size >= Block::SIZE as u64);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, nowhere in particular.
    let at = long_enough.then(|| unsafe { sys::mmap(0, Block::SIZE, protection, libc::MAP_SHARED, fd, 0) });
    sys::close(fd);
    // SAFETY: as long as a block, never unmapped, and a block of any bits is one: all atomics and plain numbers.
    let block = unsafe { &*(at?.ok()? as *const Block) };
    block.is_ours().then_some(block)
}

/// The block.
pub(crate) fn block() -> Option<&'static Block> {
    // SAFETY: null, or what `attach` has put there for good.
    unsafe { BLOCK.load(Acquire).as_ref() }
}

/// Whether anything concerns the hooks of a family.
#[inline]
pub(crate) fn concerns(family: Family) -> bool {
    // SAFETY: null, or what `attach` has put there for good.
    let concerns = unsafe { BLOCK.load(Relaxed).as_ref() }.map_or(0, Block::concerns);
    (concerns | LEFT.load(Relaxed)) & family.bit() != 0
}

/// Says whether something is left to undo for which the hooks of a family are needed.
pub(crate) fn keep(family: Family, left: bool) {
    match left {
        true => LEFT.fetch_or(family.bit(), Relaxed),
        false => LEFT.fetch_and(!family.bit(), Relaxed),
    };
}

/// Whether anything is left to undo.
pub(crate) fn has_left() -> bool {
    LEFT.load(Relaxed) != 0
}

/// Time since arming, if anything may fire now.
pub(crate) fn since_armed() -> Option<Duration> {
    block()?.since_armed(clock::now())
}

/// The rank of this process.
pub(crate) fn rank() -> u64 {
    RANK.load(Relaxed)
}

/// A fault did something.
pub(crate) struct Effect<'a> {
    pub(crate) slot: usize,
    pub(crate) n: u64,
    pub(crate) touched: u64,
    pub(crate) asked: Duration,
    pub(crate) given: Duration,
    pub(crate) path: &'a [u8],
    pub(crate) note: Arguments<'a>,
}

/// Tells the reader of the block.
pub(crate) fn tell(effect: &Effect<'_>) {
    let (Some(block), Some(plan)) = (block(), plan::now()) else { return };
    let mut note = Text::EMPTY;
    let _ = note.write_fmt(effect.note);
    block.ring.tell(&Event {
        at: clock::now(),
        generation: plan.generation(),
        slot: effect.slot as u64,
        n: effect.n,
        touched: effect.touched,
        asked: brownout_control::block::nanos(effect.asked),
        given: brownout_control::block::nanos(effect.given),
        pid: sys::pid().into(),
        rank: rank(),
        exe: Text::ending(plan.exe()),
        path: Text::ending(effect.path),
        note,
    });
}
