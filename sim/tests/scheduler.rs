//! What must hold in every run of the scheduler, whatever arrives and leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brownout_sim::SchedulerConfig;
use brownout_sim::answer::{AnswerSpec, Shape};
use brownout_sim::blocks::BLOCK_TOKENS;
use brownout_sim::core::Core;
use brownout_sim::model::Sampling;
use brownout_sim::scheduler::Scheduler;
use brownout_sim::weights::{self, Weights};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    /// A prompt of `shared` tokens that others begin with too and `own` tokens of its own; `output` tokens to make.
    Arrive {
        family: u32,
        shared: usize,
        own: usize,
        output: usize,
    },
    Step,
    /// The nth living sequence goes away, before the planned step is booked if `midway`.
    Leave {
        which: usize,
        midway: bool,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let arrive = (0..3_u32, 0..60_usize, 1..40_usize, 1..40_usize)
        .prop_map(|(family, shared, own, output)| Event::Arrive { family, shared, own, output });
    let leave = (0..8_usize, any::<bool>()).prop_map(|(which, midway)| Event::Leave { which, midway });
    prop::collection::vec(prop_oneof![3 => arrive, 8 => Just(Event::Step), 1 => leave], 1..120)
}

fn config() -> impl Strategy<Value = SchedulerConfig> {
    (1..6_usize, 6..64_usize, 9..24_usize, any::<bool>()).prop_map(
        |(seqs, batched, blocks, prefix_caching)| SchedulerConfig {
            max_num_seqs: seqs,
            max_num_batched_tokens: batched,
            kv_blocks: blocks,
            max_model_len: 9 * BLOCK_TOKENS,
            prefix_caching,
        },
    )
}

fn prompt(id: u64, family: u32, shared: usize, own: usize) -> Vec<u32> {
    (0..shared as u32)
        .map(|at| family * 1000 + at)
        .chain((0..own as u32).map(|at| id as u32 * 10_000 + at))
        .collect()
}

/// The scheduler, with a record of what it should come to.
struct World {
    scheduler: Scheduler,
    wanted: BTreeMap<u64, usize>,
    made: BTreeMap<u64, usize>,
    admitted: Vec<u64>,
    next_id: u64,
}

impl World {
    fn step(&mut self, leaver: Option<usize>) -> Result<(), TestCaseError> {
        let config = self.scheduler.config().clone();
        let step = self.scheduler.schedule();
        self.scheduler.audit().map_err(TestCaseError::fail)?;
        prop_assert_eq!(
            step.shares.is_empty(),
            self.wanted.is_empty(),
            "work exactly when there are sequences"
        );
        prop_assert!(
            step.shares.iter().map(|share| share.tokens).sum::<usize>() <= config.max_num_batched_tokens
        );
        prop_assert!(step.shares.iter().all(|share| share.tokens > 0));
        // Arrival order among those that compute, and nobody computes who came after somebody who waits.
        let ids: Vec<u64> = step.shares.iter().map(|share| share.id).collect();
        prop_assert!(ids.is_sorted(), "{ids:?}");
        prop_assert!(self.scheduler.running() + self.scheduler.waiting() == self.wanted.len());
        let first: Vec<u64> = self.wanted.keys().copied().take(self.scheduler.running()).collect();
        prop_assert!(ids.iter().all(|id| first.contains(id)), "{ids:?} overtook someone in {first:?}");
        for &(id, _) in &step.admitted {
            if !self.admitted.contains(&id) {
                self.admitted.push(id);
            }
        }
        if let Some(which) = leaver {
            self.leave(which)?;
        }
        let (wanted, made) = (&mut self.wanted, &mut self.made);
        self.scheduler.commit(&step, |id| {
            let count = made.entry(id).or_default();
            *count += 1;
            if Some(&*count) == wanted.get(&id) {
                wanted.remove(&id);
                return None;
            }
            Some(900_000 + *count as u32)
        });
        self.scheduler.audit().map_err(TestCaseError::fail)
    }

    fn leave(&mut self, which: usize) -> Result<(), TestCaseError> {
        if let Some(&id) = self.wanted.keys().nth(which) {
            self.wanted.remove(&id);
            prop_assert!(self.scheduler.remove(id));
            prop_assert!(!self.scheduler.remove(id), "gone is gone");
        }
        self.scheduler.audit().map_err(TestCaseError::fail)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Blocks never leak and are never booked twice, arrivals are served in order, and everything ends.
    #[test]
    fn blocks_are_sound_order_is_kept_and_everyone_finishes(config in config(), events in events()) {
        prop_assume!(config.check().is_ok());
        let scheduler = Scheduler::new(config);
        let (wanted, made) = (BTreeMap::new(), BTreeMap::new());
        let mut world = World { scheduler, wanted, made, admitted: Vec::new(), next_id: 1 };
        for event in events {
            match event {
                Event::Arrive { family, shared, own, output } => {
                    let id = world.next_id;
                    world.next_id += 1;
                    world.scheduler.add(id, prompt(id, family, shared, own), 0).expect("short enough");
                    world.wanted.insert(id, output);
                }
                Event::Step => world.step(None)?,
                Event::Leave { which, midway: true } => world.step(Some(which))?,
                Event::Leave { which, midway: false } => world.leave(which)?,
            }
        }
        for _ in 0..50_000 {
            if world.wanted.is_empty() {
                break;
            }
            world.step(None)?;
        }
        prop_assert!(world.wanted.is_empty(), "unfinished: {:?}", world.wanted);
        prop_assert!(world.scheduler.is_idle());
        prop_assert_eq!(world.scheduler.kv_usage(), 0.0);
        prop_assert!(world.admitted.is_sorted(), "first come first served: {:?}", world.admitted);
    }

    /// One request at a time through a large cache: the hit is the longest run of whole blocks that any earlier
    /// request had in common from its first token on, short of the last token.
    #[test]
    fn prefix_hits_are_those_of_a_plain_comparison(
        prompts in prop::collection::vec(
            (0..3_u32, 0..80_usize, 1..50_usize).prop_map(|(f, s, o)| (f, s, o)), 1..12),
    ) {
        let config = SchedulerConfig { kv_blocks: 4096, max_num_batched_tokens: 512, ..SchedulerConfig::default() };
        let mut scheduler = Scheduler::new(SchedulerConfig { max_model_len: 8192, ..config });
        let mut earlier: Vec<Vec<u32>> = Vec::new();
        let mut hits = 0;
        for (at, &(family, shared, own)) in prompts.iter().enumerate() {
            // Some prompts come twice in full.
            let tokens = prompt(at as u64 / 2, family, shared, own);
            let common = |other: &Vec<u32>| tokens.iter().zip(other).take_while(|(a, b)| a == b).count();
            let longest = earlier.iter().map(common).max().unwrap_or(0).min(tokens.len() - 1);
            let expected = longest / BLOCK_TOKENS * BLOCK_TOKENS;
            scheduler.add(at as u64, tokens.clone(), 0).expect("short enough");
            let step = scheduler.schedule();
            prop_assert_eq!(&step.admitted, &vec![(at as u64, expected)]);
            prop_assert_eq!(step.prefill_tokens(), tokens.len() - expected);
            scheduler.commit(&step, |_| None);
            hits += expected as u64;
            prop_assert_eq!(scheduler.totals().prefix_hits, hits);
            earlier.push(tokens);
        }
        let queried: usize = earlier.iter().map(Vec::len).sum();
        prop_assert_eq!(scheduler.totals().prefix_queries, queried as u64);
    }
}

#[test]
fn a_salt_keeps_equal_prompts_apart() {
    let mut scheduler = Scheduler::new(SchedulerConfig::default());
    for (id, salt, expected) in [(1, 0, 0), (2, 5, 0), (3, 5, 48), (4, 0, 48)] {
        scheduler.add(id, (0..64).collect(), salt).expect("short enough");
        let step = scheduler.schedule();
        assert_eq!(step.admitted, [(id, expected)], "salt {salt}");
        scheduler.commit(&step, |_| None);
    }
}

#[test]
fn a_long_prompt_is_computed_in_chunks_beside_decodes() {
    let mut scheduler =
        Scheduler::new(SchedulerConfig { max_num_batched_tokens: 100, ..SchedulerConfig::default() });
    scheduler.add(1, (0..50).collect(), 0).expect("short enough");
    let step = scheduler.schedule();
    scheduler.commit(&step, |_| Some(7));
    scheduler.add(2, (1000..1250).collect(), 0).expect("short enough");
    let mut chunks = Vec::new();
    for _ in 0..3 {
        let step = scheduler.schedule();
        assert_eq!((step.decodes(), step.shares[0].id), (1, 1), "the running stream goes on in every step");
        chunks.push(step.prefill_tokens());
        scheduler.commit(&step, |_| Some(7));
    }
    assert_eq!(chunks, [99, 99, 52]);
}

#[test]
fn impossible_sizes_and_prompts_are_refused() {
    let small = SchedulerConfig { kv_blocks: 10, ..SchedulerConfig::default() };
    assert!(small.check().is_err_and(|error| error.contains("max_model_len")));
    let narrow = SchedulerConfig { max_num_batched_tokens: 10, ..SchedulerConfig::default() };
    assert!(narrow.check().is_err_and(|error| error.contains("max_num_batched_tokens")));
    let mut scheduler = Scheduler::new(SchedulerConfig::default());
    assert!(scheduler.add(1, Vec::new(), 0).is_err());
    assert!(scheduler.add(2, vec![1; 8192], 0).is_err());
    assert!(scheduler.is_idle());
}

/// Runs all requests to their ends and gives each one's tokens, the preemptions it took, and the tokens computed.
fn run(
    weights: &Arc<Weights>,
    config: SchedulerConfig,
    requests: &[AnswerSpec],
) -> (BTreeMap<u64, Vec<u32>>, u64, usize) {
    let mut core = Core::new(config, weights.clone());
    for (id, spec) in requests.iter().enumerate() {
        core.add(id as u64, spec.clone(), 0).expect("short enough");
    }
    let mut said: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    let mut computed = 0;
    for _ in 0..100_000 {
        if ended.len() == requests.len() {
            break;
        }
        let step = core.schedule();
        computed += step.shares.iter().map(|share| share.tokens).sum::<usize>();
        core.commit(&step, |id, token| {
            said.entry(id).or_default().push(token.id);
            if token.finish.is_some() {
                ended.insert(id);
            }
        });
        core.scheduler().audit().expect("sound");
    }
    assert_eq!(ended.len(), requests.len(), "all end");
    (said, core.scheduler().totals().preemptions, computed)
}

#[test]
fn batching_and_preemption_change_when_tokens_come_and_never_which() {
    let dir = tempfile::tempdir().expect("a directory");
    let weights = Arc::new(Weights::open(&weights::write(dir.path(), 11).expect("written")).expect("opens"));
    let requests: Vec<AnswerSpec> = (0..12)
        .map(|at| AnswerSpec {
            prompt: (0..20 + at * 5).map(|token| 100 + token + at).collect(),
            sampling: Sampling { temperature: if at % 2 == 0 { 0.0 } else { 0.9 }, seed: 4 },
            max_tokens: 120,
            min_tokens: 0,
            ignore_eos: true,
            stop: Vec::new(),
            shape: Shape::Prose,
        })
        .collect();
    let roomy = SchedulerConfig { max_model_len: 512, ..SchedulerConfig::default() };
    let (expected, none, once) = run(&weights, roomy.clone(), &requests);
    assert_eq!(none, 0);
    assert!(expected.values().all(|tokens| tokens.len() == 120));
    let one_by_one = SchedulerConfig { max_num_seqs: 1, ..roomy.clone() };
    assert_eq!(run(&weights, one_by_one, &requests).0, expected);
    for prefix_caching in [true, false] {
        // 32 blocks hold about four of the twelve at their full length.
        let tight = SchedulerConfig { kv_blocks: 32, prefix_caching, ..roomy.clone() };
        let (said, preemptions, computed) = run(&weights, tight, &requests);
        assert!(preemptions > 0, "blocks ran out");
        assert!(computed > once || prefix_caching, "what was lost is computed again: {computed} of {once}");
        assert_eq!(said, expected);
    }
}
