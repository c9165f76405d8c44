//! The CPU's part in a word that atomics of the NIC change as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::memory::Memory;
use crate::outcome::Tried;

/// Additions, after which it ends by itself.
const LIMIT: u64 = 1 << 32;

/// A thread that adds 1 to a word, again and again.
pub(crate) struct Adding {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
    /// The word must outlive the thread.
    _memory: Arc<Memory>,
}

/// The address of a word.
struct Word(*const AtomicU64);

// SAFETY: an atomic may be changed by any thread; `Adding` keeps its memory until the thread has ended.
unsafe impl Send for Word {}

impl Word {
    fn add(&self) {
        // SAFETY: aligned and inside memory that is still there, as `start` and `Adding` see to. The only other
        // writer is a NIC.
        unsafe { &*self.0 }.fetch_add(1, Ordering::SeqCst);
    }
}

impl Adding {
    /// Begins to add to the word at `offset`.
    pub(crate) fn start(memory: &Arc<Memory>, offset: u32) -> Tried<Adding> {
        if !memory.has(offset, 8) || !offset.is_multiple_of(8) {
            return Err("no aligned word of 8 bytes in the region".to_owned());
        }
        let word = Word(memory.start().wrapping_add(offset as usize).cast::<AtomicU64>());
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let thread = std::thread::Builder::new().spawn(move || {
            let word = word;
            let goes_on = |_: &u64| !ended.load(Ordering::Relaxed);
            (0..LIMIT).take_while(goes_on).map(|_| word.add()).count() as u64
        });
        let thread = thread.map_err(|error| format!("no thread: {error}"))?;
        Ok(Adding { end, thread: Some(thread), _memory: memory.clone() })
    }

    /// Ends, and says how often it added.
    pub(crate) fn stop(&mut self) -> u64 {
        self.end.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or(0)
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_holds_as_many_as_were_added() {
        let memory = Arc::new(Memory::new(16).expect("16 bytes"));
        assert!(Adding::start(&memory, 4).is_err() && Adding::start(&memory, 16).is_err());
        let mut adding = Adding::start(&memory, 8).expect("a word");
        let word = || u64::from_ne_bytes(memory.read(8, 8).expect("8 bytes").try_into().unwrap());
        while word() == 0 {
            std::thread::yield_now();
        }
        assert_eq!((adding.stop(), adding.stop()), (word(), 0));
    }
}
