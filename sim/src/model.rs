//! The model: the next token as a pure function of weights, prompt, what was said so far, and a seed.
//!
//! The context is a vector: each token's embedding is added and the sum decays, so near words count most; the whole
//! prompt stays in it as a mean, so that prompts that differ anywhere give different answers. A candidate's logit
//! is its bigram weight plus how well its head row fits the context at this position, less a penalty for words just
//! used. Temperature 0 takes the best; otherwise seeded Gumbel noise scaled by the temperature is added, which
//! samples from the softmax. Batching, preemption and timing have no part in it.

use crate::noise::{gumbel, join, mix};
use crate::vocab;
use crate::weights::{DIM, FAN, Weights};

const DECAY: f32 = 0.75;
/// Words that are penalised for having been used just now.
const RECENT: usize = 12;
const REPEAT_PENALTY: f32 = 2.0;

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is greedy; at most 2 as in the OpenAI API.
    pub temperature: f32,
    /// Seeds the noise; without effect at temperature 0.
    pub seed: u64,
}

/// One answer in the making.
#[derive(Clone, Debug)]
pub struct Generator {
    context: [f32; DIM],
    prompt: [f32; DIM],
    current: u32,
    produced: usize,
    recent: [u32; RECENT],
    noise: u64,
    temperature: f32,
}

impl Generator {
    /// Reads the prompt (this is where a real model would prefill).
    pub fn new(weights: &Weights, prompt: &[u32], sampling: Sampling) -> Generator {
        let mut context = [0.0; DIM];
        let mut sum = [0.0; DIM];
        let mut noise = mix(sampling.seed);
        for (position, &token) in prompt.iter().enumerate() {
            let embedding = weights.embed(token);
            // Order matters in the mean too: each position's share is weighted by a hash of token and position.
            let weight = ((join(u64::from(token), position as u64) & 0xff) as f32 - 127.5) / 64.0;
            for dim in 0..DIM {
                context[dim] = context[dim] * DECAY + embedding[dim];
                sum[dim] += embedding[dim] * weight;
            }
            noise = join(noise, u64::from(token));
        }
        let scale = 1.0 / (prompt.len().max(1) as f32).sqrt();
        Generator {
            context,
            prompt: sum.map(|value| value * scale),
            current: vocab::END,
            produced: 0,
            recent: [u32::MAX; RECENT],
            noise,
            temperature: sampling.temperature,
        }
    }

    /// The next token. `weights` are read from their map on every call.
    pub fn next(&mut self, weights: &Weights) -> u32 {
        let position = weights.position(self.produced);
        let mut query = [0.0; DIM];
        for dim in 0..DIM {
            query[dim] = self.context[dim] + self.prompt[dim] + position[dim];
        }
        let successors = weights.successors(self.current);
        let bigram = weights.bigram(self.current);
        let mut best = (f32::NEG_INFINITY, successors[0]);
        for slot in 0..FAN {
            let token = successors[slot];
            let mut logit = bigram[slot] + dot(&query, &weights.head(token)) / (DIM as f32).sqrt();
            if self.recent.contains(&token) && !matches!(vocab::class(token), vocab::Class::Stop) {
                logit -= REPEAT_PENALTY;
            }
            if self.temperature > 0.0 {
                let key = join(join(self.noise, self.produced as u64), slot as u64);
                logit += self.temperature * gumbel(key) as f32;
            }
            // total_cmp, so that NaN out of corrupted weights still gives one answer and not another.
            if logit.total_cmp(&best.0).is_gt() {
                best = (logit, token);
            }
        }
        self.take(weights, best.1);
        best.1
    }

    fn take(&mut self, weights: &Weights, token: u32) {
        for (value, added) in self.context.iter_mut().zip(weights.embed(token)) {
            *value = *value * DECAY + added;
        }
        self.recent[self.produced % RECENT] = token;
        self.current = token;
        self.produced += 1;
    }

    /// Whether the model would end its answer here: at the end of a sentence, the readier the longer it is.
    pub fn ends(&self, weights: &Weights) -> bool {
        if vocab::class(self.current) != vocab::Class::Stop {
            return false;
        }
        let readiness = dot(&self.context, &weights.end()) / (DIM as f32).sqrt();
        readiness + self.produced as f32 / 32.0 > 3.0
    }
}

/// A unit vector for a text: the mean of its tokens' embeddings, each turned by its position.
pub fn embedding(weights: &Weights, tokens: &[u32], dimensions: usize) -> Vec<f32> {
    let mut vector = vec![0.0_f32; dimensions];
    for (position, &token) in tokens.iter().enumerate() {
        let (embed, head) = (weights.embed(token), weights.head(token));
        let fade = 1.0 / (1.0 + position as f32 / 64.0);
        for (dim, value) in vector.iter_mut().enumerate() {
            // Longer vectors than the model's own are filled by mixing two rows at growing distance.
            *value += fade * (embed[dim % DIM] + head[(dim / DIM + dim) % DIM]);
        }
    }
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|value| *value /= norm);
    }
    vector
}

fn dot(a: &[f32; DIM], b: &[f32; DIM]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(weights: &Weights, prompt: &str, sampling: Sampling, count: usize) -> Vec<u32> {
        let mut tokens = Vec::new();
        vocab::encode(prompt, &mut tokens);
        let mut generator = Generator::new(weights, &tokens, sampling);
        (0..count).map(|_| generator.next(weights)).collect()
    }

    fn weights(seed: u64) -> (tempfile::TempDir, std::path::PathBuf, Weights) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = crate::weights::write(dir.path(), seed).expect("written");
        let weights = Weights::open(&path).expect("opens");
        (dir, path, weights)
    }

    const GREEDY: Sampling = Sampling { temperature: 0.0, seed: 0 };

    #[test]
    fn the_answer_depends_on_weights_prompt_and_with_temperature_on_the_seed() {
        let (_dir, _, one) = weights(1);
        let (_other, _, two) = weights(2);
        let base = answer(&one, "tell me of the river", GREEDY, 40);
        assert_eq!(base, answer(&one, "tell me of the river", GREEDY, 40));
        assert_eq!(base, answer(&one, "tell me of the river", Sampling { seed: 9, ..GREEDY }, 40));
        assert_ne!(base, answer(&one, "tell me of the lake", GREEDY, 40));
        assert_ne!(base, answer(&two, "tell me of the river", GREEDY, 40));
        let warm = Sampling { temperature: 1.0, seed: 1 };
        let sampled = answer(&one, "tell me of the river", warm, 40);
        assert_eq!(sampled, answer(&one, "tell me of the river", warm, 40));
        assert_ne!(sampled, answer(&one, "tell me of the river", Sampling { seed: 2, ..warm }, 40));
        assert_ne!(sampled, base);
    }

    #[test]
    fn an_answer_uses_many_words() {
        let (_dir, _, weights) = weights(7);
        let mut tokens = answer(&weights, "say something", GREEDY, 200);
        tokens.sort_unstable();
        tokens.dedup();
        assert!(tokens.len() > 60, "{} different words in 200", tokens.len());
    }

    #[test]
    fn flipped_bits_in_the_file_change_what_the_mapped_model_says() {
        use std::os::unix::fs::FileExt;
        let (_dir, path, weights) = weights(3);
        let before = answer(&weights, "tell me of the river", GREEDY, 60);
        let bytes = std::fs::read(&path).expect("readable");
        let data = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
        let file = std::fs::File::options().write(true).open(&path).expect("writable");
        for at in (data..bytes.len()).step_by(61) {
            file.write_all_at(&[bytes[at] ^ 0x40], at as u64).expect("written");
        }
        // The same mapping, not a new one: nothing was cached outside it.
        assert_ne!(before, answer(&weights, "tell me of the river", GREEDY, 60));
        for (at, &byte) in bytes.iter().enumerate().skip(data).step_by(61) {
            file.write_all_at(&[byte], at as u64).expect("written");
        }
        assert_eq!(before, answer(&weights, "tell me of the river", GREEDY, 60));
    }

    #[test]
    fn a_broken_header_or_a_missing_tensor_is_refused_with_its_name() {
        let (_dir, path, _) = weights(3);
        let good = std::fs::read(&path).expect("readable");
        let mut bad = good.clone();
        bad[0] ^= 0xff;
        std::fs::write(&path, &bad).expect("written");
        let error = Weights::open(&path).expect_err("a bad header length").to_string();
        assert!(error.contains("header"), "{error}");
        let mut renamed = good;
        let at =
            renamed.windows(7).position(|window| window == b"lm_head").expect("the name is in the header");
        renamed[at] = b'X';
        std::fs::write(&path, &renamed).expect("written");
        let error = Weights::open(&path).expect_err("a missing tensor").to_string();
        assert!(error.contains("lm_head.weight"), "{error}");
    }

    #[test]
    fn embeddings_are_unit_vectors_that_differ_by_text() {
        let (_dir, _, weights) = weights(3);
        let of = |text: &str| {
            let mut tokens = Vec::new();
            vocab::encode(text, &mut tokens);
            embedding(&weights, &tokens, 384)
        };
        let (river, lake) = (of("the river"), of("the lake"));
        assert!((river.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
        assert_eq!(river, of("the river"));
        assert_ne!(river, lake);
    }
}
