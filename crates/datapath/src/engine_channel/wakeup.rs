//! Wake-up of an engine by others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// Counter of the batches for one engine, which reads it without a system call. The others
/// increment it and wake the engine.
#[derive(Debug)]
pub(super) struct Wakeup {
    /// Batches in the channel, or about to be.
    waiting: AtomicUsize,
    /// The engine is about to sleep until a batch comes.
    armed: AtomicBool,
    event: OwnedFd,
}

impl Wakeup {
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { waiting: AtomicUsize::new(0), armed: AtomicBool::new(false), event })
    }

    /// Announces a batch; [`wake`](Self::wake) follows when it is in the channel.
    pub(super) fn announce(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes back an announcement: a batch was read, or could not be sent.
    pub(super) fn cancel(&self) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the engine if it sleeps.
    pub(super) fn wake(&self) {
        // Sequentially consistent with `arm`: either the engine sees the announcement, or the
        // sender sees that it sleeps.
        if self.armed.load(Ordering::SeqCst) && self.armed.swap(false, Ordering::SeqCst) {
            // The counter of the eventfd cannot overflow by steps of one.
            rustix::io::write(&self.event, &1u64.to_ne_bytes()).ok();
        }
    }

    /// True if no batch is announced.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// From now on a batch makes the descriptor readable; `true` if there is one already.
    pub(super) fn arm(&self) -> bool {
        rustix::io::read(&self.event, &mut [0; 8]).ok();
        self.armed.store(true, Ordering::SeqCst);
        let waits = !self.is_empty();
        if waits {
            self.armed.store(false, Ordering::Relaxed);
        }
        waits
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_armed_are_woken() {
        let wakeup = Wakeup::new().expect("a descriptor");
        let woken = || rustix::io::read(&wakeup, &mut [0; 8]).is_ok();
        wakeup.announce();
        wakeup.wake();
        assert!(!woken(), "the engine is awake");
        assert!(wakeup.arm(), "one is there");
        wakeup.cancel();
        assert!(wakeup.is_empty() && !wakeup.arm());
        wakeup.announce();
        wakeup.wake();
        assert!(woken());
        wakeup.wake();
        assert!(!woken(), "once is enough");
    }
}

/// Models: `cargo xtask loom`.
#[cfg(all(test, loom))]
mod loom_models {
    use loom::sync::Arc;

    use super::*;
    use crate::sync::explore;

    /// A batch that is announced while the engine goes to sleep is seen by the engine, or wakes it.
    #[test]
    fn no_wakeup_is_lost() {
        explore(|| {
            let wakeup = Arc::new(Wakeup::new().expect("a descriptor"));
            let senders = [(); 2].map(|()| {
                let wakeup = Arc::clone(&wakeup);
                loom::thread::spawn(move || {
                    wakeup.announce();
                    wakeup.wake();
                })
            });
            let mut read = 0;
            while wakeup.arm() {
                wakeup.cancel();
                read += 1;
            }
            senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
            let woken = rustix::io::read(&*wakeup, &mut [0; 8]).is_ok();
            assert!(woken || read == 2, "asleep with {read} of 2 batches read");
        });
    }
}
