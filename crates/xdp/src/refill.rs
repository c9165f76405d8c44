//! Refill policy of the fill ring: how many of the receive chunks the kernel has.
//!
//! The kernel fills chunks in the order in which it got them, so with many of them neither end
//! still has a chunk in a cache when it is used again. So the kernel gets a small working set while
//! that suffices: the chunks that came back last. When it needs more (the reader is late, or there
//! are many senders) it gets all, and few again after a long time in which few sufficed.

use crate::sys::ring::Producer;
use crate::umem::{Chunk, Umem};

/// Chunks that the kernel always has: what one device may have in flight to another (1 MiB), in
/// packets of 1 KiB. With fewer a delayed reader loses packets that its peer was right to send.
pub(crate) const SMALL_WORKING_SET: u32 = 1024;

/// Chunks that are refilled together: to read what the kernel has left is to wait for its
/// processor.
const REFILL_BATCH: u32 = 16;

/// Refills in a row that found enough left before the working set is halved.
const CALM: u32 = 16;

/// The refill policy of one receive queue; see the module.
#[derive(Debug)]
pub(crate) struct RefillPolicy {
    /// Free chunks; the one freed last is last.
    held: Vec<Chunk>,
    /// All chunks of the queue.
    all: u32,
    /// Chunks that the kernel shall have.
    wanted: u32,
    /// The kernel always gets all chunks.
    generous: bool,
    /// Chunks that came since the last refill, and how many are one.
    came: u32,
    together: u32,
    /// Refills in a row that found enough left.
    calm: u32,
}

impl RefillPolicy {
    /// The policy for a queue of `all` chunks, which the kernel has.
    pub(crate) fn new(all: u32) -> Self {
        let held = Vec::with_capacity(all as usize);
        let together = REFILL_BATCH.min(all / 16).max(1);
        Self { held, all, wanted: all, generous: false, came: 0, together, calm: 0 }
    }

    /// From now on the kernel gets back at once what it filled.
    pub(crate) fn keep_nothing(&mut self) {
        (self.generous, self.wanted, self.together) = (true, self.all, 1);
    }

    /// Takes back a chunk whose bytes are not needed any more.
    #[inline]
    pub(crate) fn put(&mut self, chunk: Chunk) {
        self.held.push(chunk);
        self.came += 1;
    }

    /// Refills the ring when that is worth it. The kernel may not show yet that it took chunks
    /// which it has filled: those count as its own until the next refill.
    #[inline]
    pub(crate) fn refill(&mut self, fill: &mut Producer<u64>, umem: &mut Umem) {
        if self.came < self.together {
            return;
        }
        self.came = 0;
        let left = fill.waiting();
        self.judge(left);
        self.lend(self.wanted.saturating_sub(left), fill, umem);
    }

    /// Gives the kernel all chunks: the queue may not be read for a while.
    pub(crate) fn refill_all(&mut self, fill: &mut Producer<u64>, umem: &mut Umem) {
        if !self.held.is_empty() {
            self.lend(fill.room(), fill, umem);
        }
    }

    fn lend(&mut self, count: u32, fill: &mut Producer<u64>, umem: &mut Umem) {
        for _ in 0..count {
            let Some(chunk) = self.held.pop() else {
                break;
            };
            let fits = fill.push(umem.lend(chunk));
            debug_assert!(fits, "the ring holds every chunk, and this one was not in it");
        }
        fill.publish();
    }

    /// Adapts the number of chunks that the kernel shall have, of which `left` were left.
    fn judge(&mut self, left: u32) {
        if left < self.wanted / 2 {
            (self.wanted, self.calm) = (self.all, 0);
            return;
        }
        self.calm += 1;
        if self.calm == CALM {
            self.calm = 0;
            if !self.generous {
                self.wanted = (self.wanted / 2).max(SMALL_WORKING_SET.min(self.all));
            }
        }
    }
}

#[cfg(test)]
mod tests;
