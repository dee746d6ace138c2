//! The model's weights: a real safetensors file that is made, mapped, and read from the map for every token.
//!
//! | tensor | type | shape | meaning |
//! |---|---|---|---|
//! | `model.embed_tokens.weight` | F32 | words x 32 | what a token adds to the context vector |
//! | `model.positions.weight` | F32 | 128 x 32 | added by position, so that answers do not run in circles |
//! | `model.bigram.successors` | U16 | words x 64 | which words may follow a word: the grammar |
//! | `model.bigram.weight` | F32 | words x 64 | how likely each follows |
//! | `lm_head.weight` | F32 | words x 32 | how well a word fits the context vector |
//! | `model.end.weight` | F32 | 32 | how ready a context is to end the answer |
//!
//! About 350 KB. Nothing is kept outside the map: whoever changes the file's bytes, or what a read or a mapping of
//! them gives, changes what the server says from the next token on, as with a real server whose checkpoint is bad.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::noise::{join, normal, uniform};
use crate::vocab::{self, Class};

/// Length of the context vector.
pub(crate) const DIM: usize = 32;
/// Successors per word.
pub(crate) const FAN: usize = 64;
/// Positions before they repeat.
pub(crate) const POSITIONS: usize = 128;
/// The file's name inside the weights directory.
pub const WEIGHTS_FILE: &str = "model.safetensors";

/// Why weights could not be made or loaded.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file could not be written or mapped.
    #[error("weights {path}: {source}")]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not valid safetensors.
    #[error("weights {path}: the safetensors header does not parse: {source}")]
    Header {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: safetensors::SafeTensorError,
    },
    /// A tensor is missing or has the wrong type or shape.
    #[error("weights {path}: tensor {tensor}: {problem}")]
    Tensor {
        /// Which file.
        path: PathBuf,
        /// Which tensor.
        tensor: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// Mapped weights.
#[derive(Debug)]
pub struct Weights {
    map: Mmap,
    embed: Range<usize>,
    positions: Range<usize>,
    successors: Range<usize>,
    bigram: Range<usize>,
    head: Range<usize>,
    end: Range<usize>,
}

/// Writes seeded weights to `dir/model.safetensors`, by way of a temporary file in the same directory, so that no
/// reader ever sees half of them. Returns the file's path.
///
/// # Errors
/// The directory cannot be made or written.
pub fn write(dir: &Path, seed: u64) -> Result<PathBuf, WeightsError> {
    let io = |source| WeightsError::Io { path: dir.to_owned(), source };
    std::fs::create_dir_all(dir).map_err(io)?;
    let path = dir.join(WEIGHTS_FILE);
    let bytes = make(seed).map_err(|source| WeightsError::Header { path: path.clone(), source })?;
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(io)?;
    file.write_all(&bytes).map_err(io)?;
    file.persist(&path).map_err(|error| io(error.error))?;
    Ok(path)
}

/// The bytes of a weights file: a pure function of the seed.
fn make(seed: u64) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let words = vocab::size();
    let gaussian = |stream: u64, count: usize, scale: f64| -> Vec<u8> {
        (0..count as u64)
            .flat_map(|i| ((normal(join(join(seed, stream), i)) * scale) as f32).to_le_bytes())
            .collect()
    };
    let members = |class| (0..words as u32).filter(|&id| vocab::class(id) == class).collect::<Vec<u32>>();
    let mut by_class: Vec<(Class, Vec<u32>)> = Vec::new();
    for class in (0..words as u32).map(vocab::class) {
        if !by_class.iter().any(|(known, _)| *known == class) {
            by_class.push((class, members(class)));
        }
    }
    let pick = |class: Class, key: u64| {
        let members =
            by_class.iter().find(|(known, _)| *known == class).map_or(&[][..], |(_, members)| members);
        key.checked_rem(members.len() as u64).map_or(vocab::END, |at| members[at as usize])
    };
    let mut successors = Vec::with_capacity(words * FAN * 2);
    let mut bigram = Vec::with_capacity(words * FAN * 4);
    for word in 0..words as u32 {
        for slot in 0..FAN as u64 {
            let key = join(join(seed, 100 + u64::from(word)), slot);
            let next = pick(follower(vocab::class(word), uniform(key)), join(key, 1));
            successors.extend_from_slice(&(next as u16).to_le_bytes());
            bigram.extend_from_slice(&((normal(join(key, 2)) * 0.7) as f32).to_le_bytes());
        }
    }
    let tensors = [
        ("model.embed_tokens.weight", Dtype::F32, vec![words, DIM], gaussian(1, words * DIM, 1.0)),
        ("model.positions.weight", Dtype::F32, vec![POSITIONS, DIM], gaussian(2, POSITIONS * DIM, 0.8)),
        ("model.bigram.successors", Dtype::U16, vec![words, FAN], successors),
        ("model.bigram.weight", Dtype::F32, vec![words, FAN], bigram),
        ("lm_head.weight", Dtype::F32, vec![words, DIM], gaussian(3, words * DIM, 1.0)),
        ("model.end.weight", Dtype::F32, vec![DIM], gaussian(4, DIM, 1.0)),
    ];
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, data)| Ok((*name, TensorView::new(*dtype, shape.clone(), data)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    safetensors::serialize(views, None)
}

/// The grammar: what kind of word follows a kind of word, by a uniform number.
fn follower(class: Class, at: f64) -> Class {
    let table: &[(f64, Class)] = match class {
        Class::End | Class::Stop => {
            &[(0.8, Class::Determiner), (0.9, Class::Adverb), (1.0, Class::Preposition)]
        }
        Class::Comma => &[(0.6, Class::Conjunction), (1.0, Class::Determiner)],
        Class::Determiner => &[(0.4, Class::Adjective), (1.0, Class::Noun)],
        Class::Adjective => &[(0.15, Class::Adjective), (1.0, Class::Noun)],
        Class::Noun => &[
            (0.55, Class::Verb),
            (0.72, Class::Preposition),
            (0.82, Class::Conjunction),
            (0.87, Class::Comma),
            (1.0, Class::Stop),
        ],
        Class::Verb => &[(0.65, Class::Determiner), (0.8, Class::Adverb), (1.0, Class::Preposition)],
        Class::Adverb => &[(0.4, Class::Determiner), (0.7, Class::Preposition), (1.0, Class::Stop)],
        Class::Preposition | Class::Conjunction => &[(1.0, Class::Determiner)],
    };
    table.iter().find(|(bound, _)| at < *bound).map_or(Class::Determiner, |&(_, class)| class)
}

impl Weights {
    /// Maps and checks a weights file.
    ///
    /// # Errors
    /// The file cannot be mapped, its header does not parse, or a tensor is missing or misshapen. Values are not
    /// checked: a bad checkpoint with a good header loads, as it does in real servers.
    pub fn open(path: &Path) -> Result<Weights, WeightsError> {
        let io = |source| WeightsError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        // SAFETY: the mapping is read-only and its bytes are only ever copied out as integers and floats, for which
        // every bit pattern is valid; no reference into it is kept from one read to the next, so bytes that change
        // below us change the text and nothing else. A file cut short below its mapping raises SIGBUS on the next
        // read past its end, as it does in every server that maps its checkpoint.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        let tensors = SafeTensors::deserialize(&map)
            .map_err(|source| WeightsError::Header { path: path.to_owned(), source })?;
        let base = map.as_ptr() as usize;
        let words = vocab::size();
        let find = |tensor: &'static str, dtype: Dtype, shape: &[usize]| {
            let problem = |problem| WeightsError::Tensor { path: path.to_owned(), tensor, problem };
            let view = tensors.tensor(tensor).map_err(|error| problem(error.to_string()))?;
            if view.dtype() != dtype || view.shape() != shape {
                let found =
                    format!("expected {dtype:?} {shape:?}, found {:?} {:?}", view.dtype(), view.shape());
                return Err(problem(found));
            }
            let start = view.data().as_ptr() as usize - base;
            Ok(start..start + view.data().len())
        };
        let embed = find("model.embed_tokens.weight", Dtype::F32, &[words, DIM])?;
        let positions = find("model.positions.weight", Dtype::F32, &[POSITIONS, DIM])?;
        let successors = find("model.bigram.successors", Dtype::U16, &[words, FAN])?;
        let bigram = find("model.bigram.weight", Dtype::F32, &[words, FAN])?;
        let head = find("lm_head.weight", Dtype::F32, &[words, DIM])?;
        let end = find("model.end.weight", Dtype::F32, &[DIM])?;
        Ok(Weights { map, embed, positions, successors, bigram, head, end })
    }

    fn floats<const N: usize>(&self, tensor: &Range<usize>, row: usize) -> [f32; N] {
        let start = tensor.start + row * N * 4;
        let mut values = [0.0; N];
        for (value, bytes) in values.iter_mut().zip(self.map[start..start + N * 4].chunks_exact(4)) {
            *value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        values
    }

    /// Row of the embedding; ids outside the vocabulary wrap.
    pub(crate) fn embed(&self, token: u32) -> [f32; DIM] {
        self.floats(&self.embed, token as usize % vocab::size())
    }

    pub(crate) fn position(&self, position: usize) -> [f32; DIM] {
        self.floats(&self.positions, position % POSITIONS)
    }

    pub(crate) fn bigram(&self, token: u32) -> [f32; FAN] {
        self.floats(&self.bigram, token as usize % vocab::size())
    }

    pub(crate) fn head(&self, token: u32) -> [f32; DIM] {
        self.floats(&self.head, token as usize % vocab::size())
    }

    pub(crate) fn end(&self) -> [f32; DIM] {
        self.floats(&self.end, 0)
    }

    /// Successors of a token; values outside the vocabulary (corrupted ones) wrap.
    pub(crate) fn successors(&self, token: u32) -> [u32; FAN] {
        let start = self.successors.start + token as usize % vocab::size() * FAN * 2;
        let mut values = [0; FAN];
        for (value, bytes) in values.iter_mut().zip(self.map[start..start + FAN * 2].chunks_exact(2)) {
            *value = u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) % vocab::size() as u32;
        }
        values
    }
}
