//! How many of the receive chunks the kernel has.
//!
//! It fills them in the order in which it got them, so what it has goes round, and by the time a chunk is
//! its turn again, neither end has it in a cache if there are many. So it gets few while few do: those that came
//! back last. When it needs more than that (the reader is late, or there are many senders) it gets all, and few
//! again after a long time in which few did.

use crate::sys::ring::Producer;
use crate::umem::{Chunk, Umem};

/// So many chunks the kernel always has: what one device may have under way to another (1 MiB), in packets of 1 KiB. With
/// fewer a reader who is kept from reading loses packets that its peer was right to send.
pub(crate) const SMALL_WORKING_SET: u32 = 1024;

/// So many chunks go back together: to look what the kernel has left is to wait for its processor.
const REFILL_BATCH: u32 = 16;

/// Refills in a row that found enough left, before half as many do.
const CALM: u32 = 16;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct RefillPolicy {
    /// Chunks that neither the kernel nor anybody else has; the last came last.
    held: Vec<Chunk>,
    /// All chunks of the queue.
    all: u32,
    /// So many the kernel shall have.
    wanted: u32,
    /// Always all of them.
    generous: bool,
    /// Chunks that came since the last refill, and how many are one.
    came: u32,
    together: u32,
    /// Refills in a row that found enough left.
    calm: u32,
}

impl RefillPolicy {
    /// For a queue of so many chunks, which the kernel has.
    pub(crate) fn new(all: u32) -> Self {
        let held = Vec::with_capacity(all as usize);
        let together = REFILL_BATCH.min(all / 16).max(1);
        Self { held, all, wanted: all, generous: false, came: 0, together, calm: 0 }
    }

    /// From now on the kernel gets back at once what it filled.
    pub(crate) fn keep_nothing(&mut self) {
        (self.generous, self.wanted, self.together) = (true, self.all, 1);
    }

    /// Takes a chunk whose bytes nobody needs any more.
    #[inline]
    pub(crate) fn put(&mut self, chunk: Chunk) {
        self.held.push(chunk);
        self.came += 1;
    }

    /// Gives the kernel what it lacks, when that is worth it. It may not show yet that it took chunks which it has filled: those count
    /// as its own until the next refill.
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

    /// Gives the kernel everything: nobody may look for a while.
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

    /// Decides how many it shall have, of which so many were left.
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
