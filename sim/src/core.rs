//! Scheduler and model together, without a clock: plan a step, then book it and collect its tokens.

use std::collections::HashMap;
use std::sync::Arc;

use crate::answer::{Answer, AnswerSpec, Token};
use crate::scheduler::{Scheduler, SchedulerConfig, SequenceId, Step};
use crate::weights::Weights;

/// The engine's state.
#[derive(Debug)]
pub struct Core {
    scheduler: Scheduler,
    answers: HashMap<SequenceId, Answer>,
    weights: Arc<Weights>,
}

impl Core {
    /// An idle engine; `config` has passed [`SchedulerConfig::check`].
    pub fn new(config: SchedulerConfig, weights: Arc<Weights>) -> Core {
        Core { scheduler: Scheduler::new(config), answers: HashMap::new(), weights }
    }

    /// Queues an answer; see [`Scheduler::add`].
    ///
    /// # Errors
    /// The prompt is empty or too long.
    pub fn add(&mut self, id: SequenceId, mut spec: AnswerSpec, salt: u64) -> Result<(), String> {
        self.scheduler.add(id, spec.prompt.clone(), salt)?;
        let room = self.scheduler.config().max_model_len - spec.prompt.len();
        spec.max_tokens = spec.max_tokens.clamp(1, room);
        self.answers.insert(id, Answer::new(spec));
        Ok(())
    }

    /// Plans the next step; empty exactly when idle.
    pub fn schedule(&mut self) -> Step {
        self.scheduler.schedule()
    }

    /// Books a step and gives each new token to `emit`, in order of arrival.
    pub fn commit(&mut self, step: &Step, mut emit: impl FnMut(SequenceId, Token)) {
        let Core { scheduler, answers, weights } = self;
        scheduler.commit(step, |id| {
            let token = answers.get_mut(&id)?.step(weights);
            let (value, finished) = (token.id, token.finish.is_some());
            emit(id, token);
            if finished {
                answers.remove(&id);
                return None;
            }
            Some(value)
        });
    }

    /// Takes an answer out at once. False if it is not here.
    pub fn remove(&mut self, id: SequenceId) -> bool {
        self.answers.remove(&id);
        self.scheduler.remove(id)
    }

    /// The scheduler, to read.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }
}
