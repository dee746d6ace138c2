//! The paged KV cache: a fixed pool of blocks, shared by prefix, given back in least-recently-used order.
//!
//! A block holds the keys and values of [`BLOCK_TOKENS`] consecutive tokens. A full block is named by the hash of
//! its tokens chained on the name of the block before it, so equal names mean equal prefixes from the first token
//! on. A block that nobody uses any more keeps its name and waits in a queue; it is reused for another prefix only
//! when all blocks that were freed before it are gone. This is the scheme of vLLM's automatic prefix caching (its
//! design page "Automatic Prefix Caching": hash-chained blocks, a free queue in LRU order, tails evicted first).

use std::collections::HashMap;

/// Tokens per KV block; vLLM's default `block_size` on GPUs.
pub const BLOCK_TOKENS: usize = 16;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Block {
    users: u32,
    name: Option<u64>,
    previous: u32,
    next: u32,
}

/// Index of a block in its pool.
pub type BlockId = u32;

/// The pool. Blocks are counted, never touched: the stand-in keeps no keys or values in them.
#[derive(Debug)]
pub struct BlockPool {
    blocks: Vec<Block>,
    named: HashMap<u64, BlockId>,
    // The free queue is threaded through the blocks, so that a hit takes a block from its middle in constant time.
    head: u32,
    tail: u32,
    free: usize,
}

impl BlockPool {
    /// A pool of `count` free blocks.
    pub fn new(count: usize) -> BlockPool {
        let mut pool = BlockPool {
            blocks: vec![Block { users: 0, name: None, previous: NONE, next: NONE }; count],
            named: HashMap::new(),
            head: NONE,
            tail: NONE,
            free: 0,
        };
        for id in 0..count as u32 {
            pool.push_free(id);
        }
        pool
    }

    /// All blocks, used or not.
    pub fn total(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks that no sequence uses (they may still hold a reusable prefix).
    pub fn free(&self) -> usize {
        self.free
    }

    /// The share of blocks in use, 0 to 1: vLLM's `kv_cache_usage_perc`.
    pub fn usage(&self) -> f64 {
        if self.blocks.is_empty() { 0.0 } else { 1.0 - self.free as f64 / self.blocks.len() as f64 }
    }

    /// The block that holds the prefix called `name`, if it is still there. Takes no use of it.
    pub fn find(&self, name: u64) -> Option<BlockId> {
        self.named.get(&name).copied()
    }

    /// Whether a block found by [`BlockPool::find`] is unused, so that taking it lowers the free count.
    pub fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id as usize].users == 0
    }

    /// Adds one user to a block.
    pub fn share(&mut self, id: BlockId) {
        if self.is_free(id) {
            self.unlink(id);
        }
        self.blocks[id as usize].users += 1;
    }

    /// Takes the block that has been unused for longest; what it cached is forgotten. `None` when all are in use.
    pub fn take(&mut self) -> Option<BlockId> {
        let id = self.head;
        if id == NONE {
            return None;
        }
        self.unlink(id);
        let block = &mut self.blocks[id as usize];
        block.users = 1;
        if let Some(name) = block.name.take() {
            self.named.remove(&name);
        }
        Some(id)
    }

    /// Names a full block, so that later sequences with the same prefix find it. If another block has the name
    /// already (two sequences computed the same prefix at once) this one stays private.
    pub fn name(&mut self, id: BlockId, name: u64) {
        if self.blocks[id as usize].name.is_none() && !self.named.contains_key(&name) {
            self.blocks[id as usize].name = Some(name);
            self.named.insert(name, id);
        }
    }

    /// Gives back a sequence's blocks, last block first, so that the end of a prefix is evicted before its start.
    pub fn release(&mut self, table: &mut Vec<BlockId>) {
        while let Some(id) = table.pop() {
            let block = &mut self.blocks[id as usize];
            debug_assert!(block.users > 0, "a block was given back twice");
            block.users -= 1;
            if block.users == 0 {
                self.push_free(id);
            }
        }
    }

    fn push_free(&mut self, id: u32) {
        let tail = self.tail;
        let block = &mut self.blocks[id as usize];
        block.previous = tail;
        block.next = NONE;
        if tail == NONE {
            self.head = id;
        } else {
            self.blocks[tail as usize].next = id;
        }
        self.tail = id;
        self.free += 1;
    }

    fn unlink(&mut self, id: u32) {
        let Block { previous, next, .. } = self.blocks[id as usize];
        if previous == NONE {
            self.head = next;
        } else {
            self.blocks[previous as usize].next = next;
        }
        if next == NONE {
            self.tail = previous;
        } else {
            self.blocks[next as usize].previous = previous;
        }
        self.free -= 1;
    }

    /// Checks the pool against the block tables of all sequences: every block has as many users as tables that
    /// list it, the unused ones are exactly those in the free queue, and names point both ways. For tests.
    ///
    /// # Errors
    /// The first broken rule, in words.
    pub fn audit<'a>(&self, tables: impl Iterator<Item = &'a [BlockId]>) -> Result<(), String> {
        let mut users = vec![0_u32; self.blocks.len()];
        for table in tables {
            for &id in table {
                users[id as usize] += 1;
            }
        }
        for (id, block) in self.blocks.iter().enumerate() {
            if block.users != users[id] {
                return Err(format!("block {id}: {} users counted, {} listed", block.users, users[id]));
            }
            if block.name.is_some_and(|name| self.named.get(&name) != Some(&(id as u32))) {
                return Err(format!("block {id} has a name that does not lead to it"));
            }
        }
        let mut queued = 0;
        let mut at = self.head;
        while at != NONE && queued <= self.blocks.len() {
            if self.blocks[at as usize].users != 0 {
                return Err(format!("block {at} is queued as free and in use"));
            }
            queued += 1;
            at = self.blocks[at as usize].next;
        }
        let unused = users.iter().filter(|&&count| count == 0).count();
        if queued != unused || queued != self.free {
            return Err(format!("{unused} blocks unused, {queued} queued, {} counted free", self.free));
        }
        Ok(())
    }
}

/// The name of a full block: the hash of its tokens chained on the name of the block before it (or on the
/// request's cache salt for the first).
pub fn chain(previous: u64, tokens: &[u32]) -> u64 {
    tokens.iter().fold(crate::noise::mix(previous ^ 0x6b76_626c_6f63_6b73), |hash, &token| {
        crate::noise::mix(hash ^ u64::from(token))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_block_goes_first_and_tails_before_heads() {
        let mut pool = BlockPool::new(3);
        let mut table: Vec<_> = (0..3).map(|_| pool.take().expect("a block")).collect();
        for (&id, name) in table.iter().zip([10, 11, 12]) {
            pool.name(id, name);
        }
        assert_eq!(pool.take(), None);
        pool.release(&mut table);
        assert_eq!(pool.free(), 3);
        let mut next = vec![pool.take().expect("a block")];
        assert_eq!((pool.find(12), pool.find(11).is_some(), pool.find(10).is_some()), (None, true, true));
        pool.release(&mut next);
    }

    #[test]
    fn a_hit_takes_a_block_out_of_the_middle_of_the_queue() {
        let mut pool = BlockPool::new(3);
        let mut table: Vec<_> = (0..3).map(|_| pool.take().expect("a block")).collect();
        pool.name(table[1], 7);
        pool.release(&mut table);
        let hit = pool.find(7).expect("cached");
        pool.share(hit);
        pool.share(hit);
        pool.audit([&[hit][..], &[hit][..]].into_iter()).expect("sound");
        assert_eq!(pool.free(), 2);
    }

    #[test]
    fn names_depend_on_everything_before() {
        assert_eq!(chain(1, &[1, 2]), chain(1, &[1, 2]));
        assert_ne!(chain(1, &[1, 2]), chain(2, &[1, 2]));
        assert_ne!(chain(1, &[1, 2]), chain(1, &[2, 1]));
    }
}
