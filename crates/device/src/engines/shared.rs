//! The engine behind its lock, and state that threads access without it.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use uroce_memory::MrSlice;
use uroce_transport::{Arrival, CqId, Instant, Run};

use super::Several;
use crate::async_events::AsyncEvents;
use crate::clock::Clock;
use crate::engine::{CrossEngineOp, Engine};
use crate::eventfd::EventFd;
use crate::limits::APPLICATION_POLLING_NS;
use crate::local::{Assist, PeerEngine, PendingPeers};
use crate::yield_backoff::YieldBackoff;

/// Shared by the handles of a device and the progress thread of the engine. Aligned so that two engines have no
/// cache line in common, nor a pair of lines that is fetched together.
#[repr(align(128))]
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    pub(crate) clock: Clock,
    /// Threads that wait for the lock. The progress thread, which spins, lets them go first.
    waiting: AtomicU32,
    /// Time of the last poll by the application; 0: it does not poll, or is about to sleep.
    polled_at: AtomicU64,
    /// The progress thread sleeps without receiving packets, because the application polls.
    idle: AtomicBool,
    stop: AtomicBool,
    /// There is one processor: a thread that spins keeps a peer on this host from running.
    pub(crate) single_cpu: bool,
    yield_backoff: YieldBackoff,
    /// Ends the sleep of the progress thread.
    pub(crate) wake: EventFd,
    pub(crate) events: Arc<AsyncEvents>,
    /// All engines of the device, where there are several.
    engines: OnceLock<Weak<Several>>,
}

impl Shared {
    pub(crate) fn new(engine: Engine, events: Arc<AsyncEvents>) -> io::Result<Self> {
        Ok(Shared {
            waiting: AtomicU32::new(0),
            polled_at: AtomicU64::new(0),
            idle: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            single_cpu: !engine.clock.is_virtual()
                && std::thread::available_parallelism().is_ok_and(|count| count.get() == 1),
            yield_backoff: YieldBackoff::default(),
            wake: EventFd::new()?,
            events,
            engines: OnceLock::new(),
            clock: engine.clock.clone(),
            engine: Mutex::new(engine),
        })
    }

    /// Records the engines of the device, of which this is one.
    pub(super) fn join(&self, engines: &Arc<Several>) {
        let first_time = self.engines.set(Arc::downgrade(engines));
        debug_assert!(first_time.is_ok(), "an engine belongs to one device");
    }

    /// The engine. When the guard goes, the events that came up are delivered and the progress
    /// thread is woken if it would sleep too long.
    pub(crate) fn lock(&self) -> EngineGuard<'_> {
        self.try_lock().unwrap_or_else(|| self.guard(self.lock_slow()))
    }

    /// The engine, unless it is locked: for callers that may have interrupted the holder of the
    /// lock.
    pub(crate) fn try_lock(&self) -> Option<EngineGuard<'_>> {
        let engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => self.after_panic(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.guard(engine))
    }

    /// Looks at the engine without changing it: no event can come of it, and nobody is woken.
    pub(crate) fn look<R>(&self, at: impl FnOnce(&Engine) -> R) -> R {
        match self.engine.try_lock() {
            Ok(engine) => at(&engine),
            Err(_) => at(&self.lock()),
        }
    }

    fn guard<'a>(&'a self, engine: MutexGuard<'a, Engine>) -> EngineGuard<'a> {
        let deferred =
            DeferredWork { shared: self, list: Vec::new(), pending: PendingPeers::default() };
        let unwinds = std::thread::panicking();
        let (assists, wakes_thread, runs_ops) = (true, true, true);
        EngineGuard { shared: self, engine, assists, wakes_thread, runs_ops, unwinds, deferred }
    }

    /// A thread panicked while it held the engine: the next holder fails the device.
    #[cold]
    fn after_panic<'a>(
        &self,
        poisoned: PoisonError<MutexGuard<'a, Engine>>,
    ) -> MutexGuard<'a, Engine> {
        let mut engine = poisoned.into_inner();
        self.engine.clear_poison();
        tracing::error!(
            "a defect of uroce has stopped a device: its queue pairs are in the error state; please report the panic above"
        );
        engine.fail_device();
        engine
    }

    fn lock_slow(&self) -> MutexGuard<'_, Engine> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let engine = self.engine.lock().unwrap_or_else(|poisoned| self.after_panic(poisoned));
        let waiting = self.waiting.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(waiting > 0, "who waited was counted");
        engine
    }

    /// True if a thread waits for the lock.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The application has just polled: for a while the progress thread need not.
    pub(crate) fn application_polled(&self, now: Instant) {
        self.polled_at.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    /// The application polled and found no completion.
    pub(crate) fn handle_empty_poll(&self) {
        if self.single_cpu {
            self.yield_backoff.handle_empty_poll(|| self.clock.now(), std::thread::yield_now);
        }
    }

    /// The application is about to sleep until an event comes: the progress thread takes over at
    /// once. Ordered with [`park`](Self::park) so that one of the two sees the other.
    pub(crate) fn application_sleeps(&self) {
        self.polled_at.store(0, Ordering::SeqCst);
        if self.idle.swap(false, Ordering::SeqCst) {
            self.wake.signal();
        }
    }

    pub(crate) fn application_polls(&self, now: Instant) -> bool {
        self.polls_for(now) > 0
    }

    /// Time for which the application still counts as polling if it does not poll again (ns).
    fn polls_for(&self, now: Instant) -> u64 {
        polling_for(self.polled_at.load(Ordering::SeqCst), now.as_nanos())
    }

    /// Announces that the progress thread leaves the engine to the application, and returns for how
    /// long (ns). 0: the application has stopped polling meanwhile.
    pub(crate) fn begin_idle(&self, now: Instant) -> u64 {
        self.idle.store(true, Ordering::SeqCst);
        self.polls_for(now)
    }

    pub(crate) fn end_idle(&self) {
        self.idle.store(false, Ordering::SeqCst);
    }

    pub(crate) fn request_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake.signal();
    }

    pub(crate) fn must_stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// Time for which a poll at `at` still counts (ns); 0 stands for no poll.
fn polling_for(at: u64, now: u64) -> u64 {
    if at == 0 { 0 } else { APPLICATION_POLLING_NS.saturating_sub(now.saturating_sub(at)) }
}

impl PeerEngine for Shared {
    fn poll_for_peer(&self, further: &mut PendingPeers) -> Assist {
        let Some(mut engine) = self.try_lock() else {
            return Assist::Busy;
        };
        let outcome = engine.poll_for_peer();
        further.append(&mut engine.local.pending);
        // After `Later` the other thread comes again, or wakes the progress thread.
        engine.wakes_thread = outcome != Assist::Later;
        outcome
    }

    fn receive_run(&self, arrival: &Arrival, run: &Run, payload: &MrSlice<'_>) -> bool {
        let Some(mut engine) = self.try_lock() else {
            return false;
        };
        // The caller holds its own engine: it polls this one later, or wakes its progress thread.
        engine.assists = false;
        engine.wakes_thread = !engine.local.allows_assist();
        engine.receive_run(arrival, run, payload)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The locked engine.
pub(crate) struct EngineGuard<'a> {
    shared: &'a Shared,
    engine: MutexGuard<'a, Engine>,
    /// Engines of peers that have been sent packets are polled when the guard is dropped.
    assists: bool,
    /// The progress thread is woken if it is needed earlier than it means to wake up.
    wakes_thread: bool,
    /// What other engines have to do is done when the guard is dropped.
    runs_ops: bool,
    /// The thread unwound already when it locked the engine: a destructor of the application, and no panic under the
    /// lock.
    unwinds: bool,
    /// Declared after the lock: dropped when it is free.
    deferred: DeferredWork<'a>,
}

/// Work for other engines, done after the lock of this one is released.
struct DeferredWork<'a> {
    shared: &'a Shared,
    list: Vec<CrossEngineOp>,
    pending: PendingPeers,
}

impl DeferredWork<'_> {
    #[cold]
    fn run(&mut self) {
        let engines = self.shared.engines.get().and_then(Weak::upgrade);
        for op in self.list.drain(..) {
            match (&engines, op) {
                (Some(engines), op) => engines.run(op),
                // A queue pair of another process cannot be asked from here.
                (None, CrossEngineOp::ProbePeer { id, .. }) => self.shared.lock().confirm(id),
                (None, _) => {}
            }
        }
    }

    /// Polls the engines of peers that have been sent packets. No lock is held meanwhile.
    fn assist(&mut self) {
        self.pending.assist();
        if !self.pending.is_empty() {
            self.leave();
        }
    }

    /// Leaves the remaining peers to the next poll of the application, or to their own threads.
    fn leave(&mut self) {
        if let Some(mut engine) = self.shared.try_lock()
            && engine.local.is_driven_by_application()
        {
            engine.local.pending.append(&mut self.pending);
            return engine.assist_later();
        }
        self.pending.wake();
    }
}

impl Drop for DeferredWork<'_> {
    fn drop(&mut self) {
        if !self.list.is_empty() {
            self.run();
        }
        if !self.pending.is_empty() {
            self.assist();
        }
    }
}

impl Deref for EngineGuard<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for EngineGuard<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl EngineGuard<'_> {
    /// Leaves the peers that have been sent packets to the next poll of the application, if it
    /// polls: several posts then cause one poll of a peer.
    #[inline]
    pub(crate) fn assist_later(&mut self) {
        self.assists = !self.engine.local.is_driven_by_application();
    }

    /// Undoes [`assist_later`](Self::assist_later): this is the poll of the application.
    #[inline]
    pub(crate) fn assist_now(&mut self) {
        self.assists = true;
    }

    /// The application has polled this CQ, unless that was its last look before it sleeps.
    #[inline]
    pub(crate) fn note_poll(&mut self, cq: CqId) {
        if !self.engine.nic.tables.is_armed(cq) {
            self.shared.application_polled(self.engine.polled_at);
            self.engine.local.refuse_assist();
        }
    }

    /// Wakes the peers that have been sent packets instead of polling their engines.
    pub(crate) fn wake_peers(&mut self) {
        self.engine.local.pending.wake();
    }

    /// Leaves what other engines have to do to the next holder of the lock: the locks of those may never be released.
    pub(crate) fn leave_cross_engine_ops(&mut self) {
        self.runs_ops = false;
    }

    fn deliver_events(&mut self) {
        while let Some(event) = self.engine.pop_async_event() {
            if !self.shared.events.deliver(event) {
                self.engine.nic.tables.counters.lost_events += 1;
            }
        }
        self.engine.nic.tables.deliver_cq_events();
    }

    /// Wakes the progress thread if a posted request needs a timer earlier than the thread means to
    /// wake up.
    fn wake_thread(&mut self) {
        if self.engine.thread_sleeps_until == 0 {
            return;
        }
        let needed = self.engine.next_deadline().unwrap_or(u64::MAX);
        if needed < self.engine.thread_sleeps_until {
            self.engine.thread_sleeps_until = 0;
            self.shared.wake.signal();
        }
    }
}

impl Drop for EngineGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinds {
            // The next holder of the lock sees that it is poisoned. A second panic here would end
            // the process.
            return;
        }
        if self.assists && !self.engine.local.pending.is_empty() {
            std::mem::swap(&mut self.deferred.pending, &mut self.engine.local.pending);
        }
        self.deliver_events();
        if self.wakes_thread {
            self.wake_thread();
        }
        if self.runs_ops && !self.engine.nic.cross_engine_ops.is_empty() {
            std::mem::swap(&mut self.deferred.list, &mut self.engine.nic.cross_engine_ops);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r118_a_poll_holds_an_ack_back_for_a_millisecond_at_most() {
        assert_eq!(polling_for(0, 5), 0, "no poll yet");
        assert_eq!(polling_for(1_000, 1_000), APPLICATION_POLLING_NS);
        assert_eq!(polling_for(1_000, 1_000 + APPLICATION_POLLING_NS - 1), 1);
        assert_eq!(polling_for(1_000, 1_000 + APPLICATION_POLLING_NS), 0);
        assert_eq!(
            polling_for(2_000, 1_000),
            APPLICATION_POLLING_NS,
            "polled since `now` was read"
        );
    }
}
