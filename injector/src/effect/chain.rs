//! The effects of all faults that fire on one request, at work together.

use super::{Done, Effect, Out, Step, Then};
use crate::wire::{Api, Class, Event, SseSplitter, classify, sse};
use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use std::time::Duration;

/// All effects on one answer, in file order. One event goes in, one step comes out.
///
/// Each effect counts tokens anew in what it sees, so that "after five tokens" means five tokens of what the effects
/// before it let through. An effect whose time is over passes everything, and no hold reaches beyond that time.
pub struct Chain {
    api: Api,
    links: SmallVec<[Link; 2]>,
}

struct Link {
    rule: usize,
    effect: Box<dyn Effect>,
    until: Duration,
    /// Token events that this effect has seen.
    tokens: u32,
    /// Holds that were asked for, each cut off at `until`.
    asked: Duration,
    /// Whether one was cut off there.
    cut: bool,
}

impl Link {
    /// Adds `step`'s hold to the `total`, as far as this effect's time reaches.
    fn add(&mut self, step: &Step, now: Duration, total: &mut super::Hold) {
        let left = self.until.saturating_sub(now + total.add);
        let add = step.hold.add.min(left);
        self.asked += add;
        self.cut |= add < step.hold.add;
        total.add += add;
        total.space = total.space.max(step.hold.space.min(left));
        total.bytes_per_second = match (total.bytes_per_second, step.hold.bytes_per_second) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// A stretch of the stream on its way through the effects.
enum Part<'a> {
    /// An event as it came.
    Came(Event<'a>),
    /// One event of what an effect put in another's place.
    Made { raw: Bytes, whole: bool },
}

impl Part<'_> {
    /// The bytes, for the pass through the effects and for what leaves at the end.
    fn raw(&self) -> &[u8] {
        match self {
            Self::Came(event) => event.raw,
            Self::Made { raw, .. } => raw,
        }
    }
}

type Parts<'a> = SmallVec<[Part<'a>; 1]>;

impl Chain {
    /// No effect yet, on an answer of `api`.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self { api, links: SmallVec::new() }
    }

    /// Adds the effect of the rule with index `rule`, which ends at `until` (time since the plan was armed). To be
    /// called in file order.
    pub fn push(&mut self, rule: usize, until: Duration, effect: Box<dyn Effect>) {
        self.links.push(Link { rule, effect, until, tokens: 0, asked: Duration::ZERO, cut: false });
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// What becomes of `event`. `now` is the time since the plan was armed. The event's token number is not looked at:
    /// every effect counts for itself.
    ///
    /// Where several events come out of one, their holds are summed before the first of them.
    pub fn event(&mut self, now: Duration, event: &Event<'_>) -> Step {
        self.pass(now, smallvec![Part::Came(*event)], false)
    }

    /// What becomes of the orderly end of the stream. Not to be called after a step that ended it.
    pub fn end(&mut self, now: Duration) -> Step {
        self.pass(now, SmallVec::new(), true)
    }

    /// What becomes of a whole JSON answer. `tokens`: its completion tokens by its usage, 0 where it reports none.
    pub fn body(&mut self, now: Duration, body: &[u8], tokens: u32) -> Step {
        let mut total = Step::PASS;
        for link in self.links.iter_mut().filter(|link| link.until > now) {
            let current = match &total.out {
                Out::Same => body,
                Out::Replace(bytes) => bytes,
            };
            let step = link.effect.body(current, tokens);
            link.add(&step, now, &mut total.hold);
            if let Out::Replace(bytes) = step.out {
                total.out = Out::Replace(bytes);
            }
            total.then = step.then;
            if step.then != Then::Continue {
                break;
            }
        }
        total
    }

    /// What each effect has done so far, by index of its rule.
    pub fn done(&self) -> impl Iterator<Item = (usize, Done)> {
        self.links.iter().map(|link| {
            let mut done = Done { asked: link.asked, ..link.effect.done() };
            if link.cut {
                done.note.push_str(super::CUT_BY_WINDOW);
            }
            (link.rule, done)
        })
    }

    fn pass(&mut self, now: Duration, mut parts: Parts<'_>, mut ends: bool) -> Step {
        let api = self.api;
        let (mut hold, mut closes, mut changed) = (super::Hold::default(), None, false);
        for link in &mut self.links {
            if link.until <= now {
                continue;
            }
            let mut out = Parts::new();
            let mut then = Then::Continue;
            for part in parts {
                let step = link.see(api, &part);
                link.add(&step, now, &mut hold);
                match step.out {
                    Out::Same => out.push(part),
                    Out::Replace(bytes) => {
                        changed = true;
                        split(bytes, &mut out);
                    }
                }
                then = step.then;
                if then != Then::Continue {
                    break;
                }
            }
            if then == Then::Continue && ends {
                let step = link.effect.end();
                link.add(&step, now, &mut hold);
                if let Out::Replace(bytes) = step.out {
                    changed = true;
                    split(bytes, &mut out);
                }
                then = step.then;
            }
            parts = out;
            // The first in the stream to end it is whoever cut the list of parts last: later effects see only what
            // is left, and what ended the stream behind a cut is gone with it.
            match then {
                Then::Continue => {}
                Then::End => (ends, closes) = (true, None),
                Then::Close(close) => (ends, closes) = (false, Some(close)),
            }
        }
        let then = match closes {
            Some(close) => Then::Close(close),
            None if ends => Then::End,
            None => Then::Continue,
        };
        let out = match &parts[..] {
            [Part::Came(_)] => Out::Same,
            [] if !changed => Out::Same,
            [Part::Made { raw, .. }] => Out::Replace(raw.clone()),
            parts => Out::Replace(parts.iter().flat_map(|part| part.raw().to_vec()).collect()),
        };
        Step { hold, out, then }
    }
}

impl Link {
    fn see(&mut self, api: Api, part: &Part<'_>) -> Step {
        match part {
            Part::Came(event) => {
                let event = Event { token: self.tokens, ..*event };
                self.tokens += u32::from(event.class.is_token());
                self.effect.event(&event)
            }
            Part::Made { raw, whole } => {
                let fields = sse::fields(raw);
                let data = fields.data.as_deref();
                let class = if *whole { classify(api, data) } else { Class::Raw };
                let event = Event { raw, data: data.unwrap_or_default(), class, api, token: self.tokens };
                self.tokens += u32::from(class.is_token());
                self.effect.event(&event)
            }
        }
    }
}

/// Splits what an effect made into events again, for the effects behind it.
fn split(bytes: Bytes, out: &mut Parts<'_>) {
    let mut splitter = SseSplitter::new(usize::MAX);
    splitter.push(bytes);
    while let Some(piece) = splitter.next_event() {
        out.push(Part::Made { raw: piece.raw, whole: piece.whole });
    }
    if let Some(piece) = splitter.finish() {
        out.push(Part::Made { raw: piece.raw, whole: false });
    }
}
