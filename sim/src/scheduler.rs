//! What runs in the next step: continuous batching with chunked prefill over a paged KV cache. No clock, no I/O.
//!
//! The rules are those of vLLM's V1 scheduler (`vllm/v1/core/sched/scheduler.py`). There is no prefill phase and no
//! decode phase: each sequence has tokens and a count of how many of them are computed, and each step gives it some
//! of the step's token budget so that the count catches up. A sequence whose count has caught up yields a token.
//!
//! 1. Running sequences come first, in order of arrival. If one needs a KV block and none is left, the *latest*
//!    arrival loses all of its blocks and goes back to the head of the queue: preemption by recompute.
//! 2. If nothing was preempted, waiting sequences are admitted first come, first served, while there are slots,
//!    budget and blocks. Blocks that already hold the sequence's prefix are shared and not computed again; at
//!    least one token is always computed, since the last one's output is what the first new token is drawn from.
//!
//! [`Scheduler::schedule`] plans a step, [`Scheduler::commit`] books it as computed, and between the two a sequence
//! may be removed at any time.

use std::collections::{HashMap, VecDeque};

use crate::blocks::{BLOCK_TOKENS, BlockId, BlockPool, chain};

/// Sizes of the engine. The defaults make a small engine that saturates at some tens of streams on a laptop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Sequences that may run at once, at least 1. vLLM's `max_num_seqs` defaults to 128 (its `SchedulerConfig`);
    /// here 64, so that a demo's load reaches the limit.
    pub max_num_seqs: usize,
    /// Tokens computed in one step, prefill and decode together, at least `max_num_seqs`. vLLM's
    /// `max_num_batched_tokens` defaults to 2048; here 512 (vLLM's own default while chunked prefill was new, 0.4
    /// to 0.6), so that one long prompt lengthens the gaps between tokens by tens and not hundreds of milliseconds.
    pub max_num_batched_tokens: usize,
    /// KV blocks of [`BLOCK_TOKENS`] tokens; must hold at least one sequence of `max_model_len`. Here 2048, that is
    /// 32,768 tokens: enough for 64 sequences of 512 tokens, so longer ones preempt each other.
    pub kv_blocks: usize,
    /// Prompt and answer together, in tokens. Default 8192, vLLM's fallback where a model names no length.
    pub max_model_len: usize,
    /// Whether blocks are shared by prefix; on by default, as in vLLM.
    pub prefix_caching: bool,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        SchedulerConfig {
            max_num_seqs: 64,
            max_num_batched_tokens: 512,
            kv_blocks: 2048,
            max_model_len: 8192,
            prefix_caching: true,
        }
    }
}

impl SchedulerConfig {
    /// Checks that any admitted sequence can finish.
    ///
    /// # Errors
    /// The first impossible size, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.max_num_seqs == 0 || self.max_model_len < 2 {
            return Err("max_num_seqs must be at least 1 and max_model_len at least 2".to_owned());
        }
        if self.max_num_batched_tokens < self.max_num_seqs {
            return Err(format!(
                "max_num_batched_tokens ({}) must be at least max_num_seqs ({}), or some sequence never decodes",
                self.max_num_batched_tokens, self.max_num_seqs
            ));
        }
        if self.kv_blocks * BLOCK_TOKENS < self.max_model_len {
            return Err(format!(
                "{} KV blocks hold {} tokens, fewer than max_model_len ({}): a sequence that long could never finish",
                self.kv_blocks,
                self.kv_blocks * BLOCK_TOKENS,
                self.max_model_len
            ));
        }
        if self.kv_blocks >= u32::MAX as usize {
            return Err(format!("{} KV blocks are too many", self.kv_blocks));
        }
        Ok(())
    }
}

/// Names a sequence; the caller hands them out, each once.
pub type SequenceId = u64;

#[derive(Debug)]
struct Sequence {
    id: SequenceId,
    /// The prompt, then what was generated.
    tokens: Vec<u32>,
    prompt_len: usize,
    computed: usize,
    table: Vec<BlockId>,
    /// Names of the full blocks at the start of `tokens`, as far as they were needed.
    names: Vec<u64>,
    salt: u64,
    preemptions: u32,
    cached_prompt: usize,
}

impl Sequence {
    /// Extends `names` to all full blocks of `tokens`.
    fn name_blocks(&mut self) {
        for block in self.tokens.chunks_exact(BLOCK_TOKENS).skip(self.names.len()) {
            self.names.push(chain(self.names.last().copied().unwrap_or(self.salt), block));
        }
    }
}

/// One sequence's part in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which sequence.
    pub id: SequenceId,
    /// Tokens computed for it in this step.
    pub tokens: usize,
    /// Its tokens after the step, computed ones: what attention reads.
    pub context: usize,
    /// Whether the step yields a new token for it.
    pub samples: bool,
    /// Whether this is a decode: one token, the last generated one.
    pub decode: bool,
}

/// What one step computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The parts, running sequences in order of arrival.
    pub shares: Vec<Share>,
    /// Sequences admitted in this step, with the prompt tokens that the prefix cache spared them.
    pub admitted: Vec<(SequenceId, usize)>,
    /// Sequences that lost their blocks in this step.
    pub preempted: Vec<SequenceId>,
}

impl Step {
    /// Prompt (and recomputed) tokens in this step.
    pub fn prefill_tokens(&self) -> usize {
        self.shares.iter().filter(|share| !share.decode).map(|share| share.tokens).sum()
    }

    /// Sequences that decode one token in this step.
    pub fn decodes(&self) -> usize {
        self.shares.iter().filter(|share| share.decode).count()
    }

    /// Tokens of context that attention reads in this step, over all sequences.
    pub fn context_tokens(&self) -> usize {
        self.shares.iter().map(|share| share.context).sum()
    }
}

/// Totals since the start, under vLLM's meanings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerTotals {
    /// Tokens looked up in the prefix cache (first admissions only).
    pub prefix_queries: u64,
    /// Of those, tokens found.
    pub prefix_hits: u64,
    /// Preemptions.
    pub preemptions: u64,
}

/// The scheduler's state.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    pool: BlockPool,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    totals: SchedulerTotals,
}

impl Scheduler {
    /// A scheduler with an empty cache; `config` has passed [`SchedulerConfig::check`].
    pub fn new(config: SchedulerConfig) -> Scheduler {
        let pool = BlockPool::new(config.kv_blocks);
        Scheduler {
            config,
            pool,
            waiting: VecDeque::new(),
            running: Vec::new(),
            totals: SchedulerTotals::default(),
        }
    }

    /// Queues a sequence. `salt` keeps prefixes apart that must not be shared (0 for none).
    ///
    /// # Errors
    /// An empty prompt, or one that leaves no room for a token under `max_model_len`; the caller answers 400.
    pub fn add(&mut self, id: SequenceId, prompt: Vec<u32>, salt: u64) -> Result<(), String> {
        if prompt.is_empty() || prompt.len() >= self.config.max_model_len {
            return Err(format!(
                "a prompt of {} tokens: allowed are 1 to {}",
                prompt.len(),
                self.config.max_model_len - 1
            ));
        }
        let prompt_len = prompt.len();
        self.waiting.push_back(Sequence {
            id,
            tokens: prompt,
            prompt_len,
            computed: 0,
            table: Vec::new(),
            names: Vec::new(),
            salt,
            preemptions: 0,
            cached_prompt: 0,
        });
        Ok(())
    }

    /// Plans the next step and takes the blocks it needs. Empty exactly when there is no sequence at all.
    pub fn schedule(&mut self) -> Step {
        let mut step = Step::default();
        let mut budget = self.config.max_num_batched_tokens;
        let mut index = 0;
        while index < self.running.len() && budget > 0 {
            let sequence = &self.running[index];
            let want = (sequence.tokens.len() - sequence.computed).min(budget);
            let end = sequence.computed + want;
            if !self.make_room(index, end, &mut step) {
                break;
            }
            step.shares.push(share(&self.running[index], want));
            budget -= want;
            index += 1;
        }
        if step.preempted.is_empty() {
            self.admit(&mut step, budget);
        }
        step
    }

    /// Gives the running sequence at `index` blocks for its first `end` tokens, preempting later arrivals if it
    /// must. False if it had to give way itself.
    fn make_room(&mut self, index: usize, end: usize, step: &mut Step) -> bool {
        let blocks = end.div_ceil(BLOCK_TOKENS);
        while self.running[index].table.len() < blocks {
            if let Some(block) = self.pool.take() {
                self.running[index].table.push(block);
                continue;
            }
            let last = self.running.len() - 1;
            let mut victim = self.running.remove(last);
            self.pool.release(&mut victim.table);
            victim.computed = 0;
            victim.preemptions += 1;
            self.totals.preemptions += 1;
            step.preempted.push(victim.id);
            self.waiting.push_front(victim);
            if last == index {
                return false;
            }
        }
        true
    }

    fn admit(&mut self, step: &mut Step, mut budget: usize) {
        while budget > 0 && self.running.len() < self.config.max_num_seqs {
            let Some(sequence) = self.waiting.front_mut() else { break };
            sequence.name_blocks();
            // The last token is computed even if its block is cached.
            let reusable =
                if self.config.prefix_caching { (sequence.tokens.len() - 1) / BLOCK_TOKENS } else { 0 };
            let hits: Vec<BlockId> =
                sequence.names[..reusable].iter().map_while(|&name| self.pool.find(name)).collect();
            let hit_tokens = hits.len() * BLOCK_TOKENS;
            let want = (sequence.tokens.len() - hit_tokens).min(budget);
            let fresh = (hit_tokens + want).div_ceil(BLOCK_TOKENS) - hits.len();
            let revived = hits.iter().filter(|&&id| self.pool.is_free(id)).count();
            if fresh + revived > self.pool.free() {
                break;
            }
            let Some(mut sequence) = self.waiting.pop_front() else { break };
            for &id in &hits {
                self.pool.share(id);
            }
            sequence.table = hits;
            sequence.table.extend((0..fresh).map_while(|_| self.pool.take()));
            sequence.computed = hit_tokens;
            if sequence.preemptions == 0 {
                self.totals.prefix_queries += sequence.tokens.len() as u64;
                self.totals.prefix_hits += hit_tokens as u64;
                sequence.cached_prompt = hit_tokens;
            }
            budget -= want;
            step.admitted.push((sequence.id, sequence.cached_prompt));
            step.shares.push(share(&sequence, want));
            self.running.push(sequence);
        }
    }

    /// Books `step` as computed: blocks that became full can be found by others from now on. `next` is asked, in
    /// order of arrival, for the new token of each sequence that yields one; `None` ends the sequence.
    pub fn commit(&mut self, step: &Step, mut next: impl FnMut(SequenceId) -> Option<u32>) {
        let shares: HashMap<SequenceId, &Share> = step.shares.iter().map(|share| (share.id, share)).collect();
        let Scheduler { running, pool, config, .. } = self;
        running.retain_mut(|sequence| {
            // Sequences that were removed since the step was planned are simply not found.
            let Some(share) = shares.get(&sequence.id) else { return true };
            let full_before = sequence.computed / BLOCK_TOKENS;
            sequence.computed += share.tokens;
            if config.prefix_caching {
                sequence.name_blocks();
                for block in full_before..sequence.computed / BLOCK_TOKENS {
                    pool.name(sequence.table[block], sequence.names[block]);
                }
            }
            if !share.samples {
                return true;
            }
            let token = next(sequence.id);
            if let Some(token) = token {
                sequence.tokens.push(token);
                if sequence.tokens.len() < config.max_model_len {
                    return true;
                }
            }
            pool.release(&mut sequence.table);
            false
        });
    }

    /// Takes a sequence out at once and frees its slot and blocks. False if it is not here (it may just have ended).
    pub fn remove(&mut self, id: SequenceId) -> bool {
        if let Some(at) = self.running.iter().position(|sequence| sequence.id == id) {
            let mut sequence = self.running.remove(at);
            self.pool.release(&mut sequence.table);
            return true;
        }
        let before = self.waiting.len();
        self.waiting.retain(|sequence| sequence.id != id);
        before != self.waiting.len()
    }

    /// Whether no sequence is running or waiting.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Sequences that hold a slot.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Sequences in the queue, preempted ones included.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The share of KV blocks in use, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        self.pool.usage()
    }

    /// Totals since the start.
    pub fn totals(&self) -> SchedulerTotals {
        self.totals
    }

    /// The sizes it was made with.
    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    /// Checks every invariant; see [`BlockPool::audit`]. For tests.
    ///
    /// # Errors
    /// The first broken rule, in words.
    pub fn audit(&self) -> Result<(), String> {
        self.pool.audit(self.running.iter().map(|sequence| sequence.table.as_slice()))?;
        for sequence in &self.running {
            if sequence.computed > sequence.table.len() * BLOCK_TOKENS
                || sequence.computed > sequence.tokens.len()
            {
                return Err(format!(
                    "sequence {} has more computed than it has room or tokens for",
                    sequence.id
                ));
            }
        }
        if let Some(sequence) = self.waiting.iter().find(|sequence| !sequence.table.is_empty()) {
            return Err(format!("sequence {} waits and holds blocks", sequence.id));
        }
        if self.running.len() > self.config.max_num_seqs {
            return Err(format!("{} sequences run at once", self.running.len()));
        }
        Ok(())
    }
}

fn share(sequence: &Sequence, tokens: usize) -> Share {
    let context = sequence.computed + tokens;
    Share {
        id: sequence.id,
        tokens,
        context,
        samples: context == sequence.tokens.len(),
        decode: tokens == 1
            && sequence.tokens.len() > sequence.prompt_len
            && context == sequence.tokens.len(),
    }
}
