//! This process's own copy of the directives that are about it: read from the block once each time they change, so that
//! a hook looks at plain memory.

use crate::once::{Once, Turn};
use crate::{control, sys};
use brownout_control::block::SLOTS;
use brownout_control::{Counters, Directive, Text};
use core::cell::UnsafeCell;
use core::time::Duration;

/// See the module.
pub(crate) struct Plan {
    ready: Once,
    known: UnsafeCell<Known>,
}

struct Known {
    generation: u64,
    exe: Text<64>,
    directives: [Option<Directive>; SLOTS],
}

// SAFETY: written only by who has the turn, and read only when it is ready.
unsafe impl Sync for Plan {}

static PLAN: Plan = Plan {
    ready: Once::new(),
    known: UnsafeCell::new(Known { generation: 0, exe: Text::EMPTY, directives: [None; SLOTS] }),
};

/// The plan, as it is in the block now. Nothing where there is none, or while it is being written.
pub(crate) fn now() -> Option<&'static Plan> {
    let block = control::block()?;
    let generation = block.generation();
    if generation == 0 || !generation.is_multiple_of(2) {
        return None;
    }
    if !PLAN.ready.is(generation) {
        match PLAN.ready.turn(generation, |_| true) {
            Turn::Ready => {}
            Turn::Never => return None,
            Turn::Mine => {
                // SAFETY: it is this thread's turn; that others still read an older plan is bounded by their call.
                let known = unsafe { &mut *PLAN.known.get() };
                let mut path = [0; 1024];
                let path = sys::read_link(c"/proc/self/exe", &mut path).unwrap_or_default();
                let exe = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                known.generation = generation;
                known.exe = Text::beginning(exe);
                for (slot, place) in known.directives.iter_mut().enumerate() {
                    let directive = block.directive(slot, generation);
                    *place = directive.filter(|directive| directive.is_about(exe, control::rank()));
                }
                if block.generation() != generation {
                    PLAN.ready.undo();
                    return None;
                }
                PLAN.ready.done(generation);
            }
        }
    }
    Some(&PLAN)
}

impl Plan {
    fn known(&self) -> &Known {
        // SAFETY: a plan is only given out when it is ready.
        unsafe { &*self.known.get() }
    }

    /// Which writing of the directives it is.
    pub(crate) fn generation(&self) -> u64 {
        self.known().generation
    }

    /// The name of this process's executable.
    pub(crate) fn exe(&self) -> &[u8] {
        self.known().exe.bytes()
    }

    /// The directives that are about this process, with their slots.
    pub(crate) fn directives(&self) -> impl Iterator<Item = (usize, &Directive)> {
        self.known().directives.iter().enumerate().filter_map(|(slot, there)| Some((slot, there.as_ref()?)))
    }

    /// Those of them whose bits are set in `slots`.
    pub(crate) fn among(&self, slots: u32) -> impl Iterator<Item = (usize, &Directive)> {
        self.directives().filter(move |(slot, _)| slots & (1 << slot) != 0)
    }
}

/// A directive fires.
#[derive(Clone, Copy)]
pub(crate) struct Firing {
    pub(crate) draw: brownout_control::Draw,
    /// When it is over, in time since arming.
    pub(crate) until: Duration,
}

/// Whether `directive` fires on what happens `at` this time since arming; counts it.
pub(crate) fn choose(
    slot: usize,
    directive: &Directive,
    number: Option<u64>,
    at: Duration,
) -> Option<Firing> {
    let counters: &Counters = control::block()?.counters(slot)?;
    let trigger = directive.trigger();
    let since = trigger.window.since_open(at)?;
    let (_, draw) = trigger.choose(counters, number, since, |n| directive.draw(n))?;
    Some(Firing { draw, until: trigger.window.shuts(at) })
}
