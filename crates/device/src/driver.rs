//! The progress thread: it answers peers while the application does something else.
//!
//! It stays away while the application polls, since whoever polls drives the engine; it spins for
//! a moment after traffic, and longer after a stream, because a wake-up costs 30 to 65 us and more; otherwise
//! it sleeps in poll(2) and costs nothing.

use crate::affinity::pin;
use crate::eventfd::wait_readable;
use crate::limits::POLLER_FRESH_NS;
use crate::shared::Shared;
use crate::vigil::Vigil;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use uroce_transport::Instant;

/// Turns of `spin_loop` between two looks at the engine, so that others get at the lock.
const SPINS: usize = 64;
/// How often the thread steps back for somebody who waits for the lock. On a busy machine each
/// step may cost a time slice, and peers wait for answers meanwhile: hence few.
const COURTESY: usize = 16;

/// The running thread. Dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub(crate) struct Driver {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

impl Driver {
    /// With a `processor` (its place among those that the process may use) the thread stays there.
    pub(crate) fn start(
        shared: Arc<Shared>,
        name: &str,
        processor: Option<usize>,
    ) -> io::Result<Driver> {
        let waiter = {
            let mut engine = shared.lock();
            engine.datapath.introduce(Some(Arc::downgrade(&shared) as _));
            engine.datapath.waiter()?
        };
        let work = Work { shared: Arc::clone(&shared), waiter, vigil: Vigil::default() };
        let run = move || {
            if let Some(processor) = processor {
                pin(processor);
            }
            work.run();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Driver { thread: Some(thread), shared })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.request_stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            debug_assert!(ended.is_ok(), "the progress thread panicked");
        }
    }
}

/// What the thread does next.
enum Next {
    /// Look again at once: there may be more to do.
    Again,
    /// Look again after a moment.
    Spin,
    /// Sleep until a packet, a wake-up, or this time.
    Sleep(Option<u64>),
}

struct Work {
    shared: Arc<Shared>,
    waiter: OwnedFd,
    vigil: Vigil,
}

impl Work {
    fn run(mut self) {
        while !self.shared.must_stop() {
            let now = self.shared.clock.now();
            self.vigil.note_time(now);
            if self.shared.application_polls(now) {
                self.vigil.note_application(now);
                self.stay_away(now);
                continue;
            }
            match self.look(now) {
                Next::Again => self.give_way(),
                Next::Spin => self.pause(now),
                Next::Sleep(until) => {
                    self.sleep(until);
                    self.shared.lock().datapath.disarm();
                }
            }
        }
    }

    /// One engine turn, and the decision to sleep under the same lock: whatever is posted later
    /// sees how long the thread means to sleep.
    fn look(&mut self, now: Instant) -> Next {
        let mut engine = self.shared.lock();
        engine.thread_sleeps_until = 0;
        if self.shared.application_polls(now) {
            // It did so while the thread waited for the lock.
            return Next::Spin;
        }
        engine.welcome();
        if engine.turn() {
            self.vigil.note_work(now);
            return Next::Again;
        }
        let awake = self.vigil.is_warm(now) || self.vigil.is_patient(now);
        // Others who do the work of the thread come again: it need not look.
        if awake && !engine.is_visited(now) || engine.datapath.arm() {
            return Next::Spin;
        }
        let until = engine.next_deadline();
        engine.thread_sleeps_until = until.unwrap_or(u64::MAX);
        Next::Sleep(until)
    }

    fn pause(&self, now: Instant) {
        if self.shared.alone {
            return std::thread::yield_now();
        }
        // Patience must not take the processor from who has work: the other end, or our own application.
        if !self.vigil.is_warm(now) {
            std::thread::yield_now();
        }
        for _ in 0..SPINS {
            std::hint::spin_loop();
        }
        self.give_way();
    }

    fn give_way(&self) {
        for _ in 0..COURTESY {
            if !self.shared.is_wanted() {
                break;
            }
            std::thread::yield_now();
        }
    }

    fn sleep(&self, until: Option<u64>) {
        let now = self.shared.clock.now().as_nanos();
        let time = until.map(|at| Duration::from_nanos(at.saturating_sub(now)));
        self.wait(&[self.waiter.as_fd(), self.shared.wake.as_fd()], time);
    }

    /// The application polls: sleep until it may have stopped, deaf to packets.
    fn stay_away(&self, now: Instant) {
        if self.vigil.is_warm(now) {
            return self.pause(now);
        }
        if self.shared.park(now) {
            let time = Duration::from_nanos(POLLER_FRESH_NS);
            self.wait(&[self.shared.wake.as_fd()], Some(time));
        }
        self.shared.unpark();
    }

    fn wait(&self, fds: &[std::os::fd::BorrowedFd<'_>], time: Option<Duration>) {
        if let Err(error) = wait_readable(fds, time) {
            tracing::warn!(%error, "the progress thread cannot sleep in poll(2)");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.wake.clear();
    }
}
