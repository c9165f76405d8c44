//! The engine behind its lock, and what threads may touch without it.

use crate::clock::Clock;
use crate::device_events::DeviceEvents;
use crate::engine::Engine;
use crate::engines::{CrossEngineOp, Engines};
use crate::eventfd::EventFd;
use crate::limits::{APPLICATION_POLLING_NS, MAX_ASSISTS};
use crate::yield_backoff::YieldBackoff;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use uroce_datapath::{Handovers, Neighbour, Visit};
use uroce_memory::MrSlice;
use uroce_transport::{Arrival, Instant, Run};

/// Shared by the handles of a device and the progress thread of the engine. Aligned so that two engines have no
/// cache line in common, nor a pair of lines that is fetched together.
#[repr(align(128))]
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    pub(crate) clock: Clock,
    /// Callers that wait for the lock. The progress thread, which spins, lets them go first.
    waiting: AtomicU32,
    /// When the application last drove the engine by polling; 0: it does not, or is about to sleep.
    polled_at: AtomicU64,
    /// The progress thread sleeps without looking at packets, because the application polls.
    idle: AtomicBool,
    stop: AtomicBool,
    /// There is one processor: whoever waits for a peer on this host keeps it from running.
    pub(crate) single_cpu: bool,
    yield_backoff: YieldBackoff,
    /// Ends the sleep of the progress thread.
    pub(crate) wake: EventFd,
    pub(crate) events: Arc<DeviceEvents>,
    /// All engines of the device, where there are several.
    engines: OnceLock<Weak<Engines>>,
}

impl Shared {
    pub(crate) fn new(engine: Engine, events: Arc<DeviceEvents>) -> io::Result<Self> {
        Ok(Shared {
            clock: engine.clock,
            engine: Mutex::new(engine),
            waiting: AtomicU32::new(0),
            polled_at: AtomicU64::new(0),
            idle: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            single_cpu: std::thread::available_parallelism().is_ok_and(|count| count.get() == 1),
            yield_backoff: YieldBackoff::default(),
            wake: EventFd::new()?,
            events,
            engines: OnceLock::new(),
        })
    }

    /// The engine is one of several.
    pub(crate) fn join(&self, engines: &Arc<Engines>) {
        let first_time = self.engines.set(Arc::downgrade(engines));
        debug_assert!(first_time.is_ok(), "an engine belongs to one device");
    }

    /// The engine. When the guard goes, the events that came up are delivered and the progress
    /// thread is woken if it would sleep too long.
    pub(crate) fn lock(&self) -> EngineGuard<'_> {
        self.try_lock().unwrap_or_else(|| self.guard(self.lock_slow()))
    }

    /// The engine, if nobody has it: for callers that may have interrupted whoever does.
    pub(crate) fn try_lock(&self) -> Option<EngineGuard<'_>> {
        let engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => self.after_panic(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.guard(engine))
    }

    fn guard<'a>(&'a self, engine: MutexGuard<'a, Engine>) -> EngineGuard<'a> {
        let deferred =
            DeferredWork { shared: self, list: Vec::new(), handovers: Handovers::default() };
        EngineGuard { shared: self, engine, assists: true, wakes_thread: true, deferred }
    }

    /// A thread panicked that held the engine: whoever comes next ends what is in it.
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
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        engine
    }

    /// Somebody wants the lock.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The application has just driven the engine: for a while the progress thread need not.
    pub(crate) fn application_polled(&self, now: Instant) {
        self.polled_at.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    /// The application polled in vain.
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

    /// How long the application counts as one that polls, should it never do it again (ns).
    fn polls_for(&self, now: Instant) -> u64 {
        polling_for(self.polled_at.load(Ordering::SeqCst), now.as_nanos())
    }

    /// Announces that the progress thread leaves the engine to the application, and says for how long (ns).
    /// 0: the application has stopped polling meanwhile.
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

/// How long a poll at `at` goes on to count (ns); 0 stands for no poll.
fn polling_for(at: u64, now: u64) -> u64 {
    if at == 0 { 0 } else { APPLICATION_POLLING_NS.saturating_sub(now.saturating_sub(at)) }
}

impl Shared {
    /// Takes in a run of a device of this process, whose engine the caller holds. Never waits. False, with
    /// nothing changed, if its packets have to come one by one.
    pub(crate) fn receive_run(&self, arrival: &Arrival, run: &Run, payload: &MrSlice<'_>) -> bool {
        let Some(mut engine) = self.try_lock() else {
            return false;
        };
        // The caller visits later, or wakes it: he holds his own engine now.
        engine.assists = false;
        engine.wakes_thread = !engine.allows_assist();
        engine.receive_run(arrival, run, payload)
    }
}

impl Neighbour for Shared {
    fn visit(&self, further: &mut Handovers) -> Visit {
        let Some(mut engine) = self.try_lock() else {
            return Visit::Busy;
        };
        let visit = engine.poll_for_peer();
        further.append(&mut engine.handovers);
        // The visitor comes again, or wakes it.
        engine.wakes_thread = visit != Visit::Later;
        visit
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
    /// Devices that have got packets are visited when the guard goes.
    assists: bool,
    /// The progress thread is woken if there is something to do before it means to look.
    wakes_thread: bool,
    /// Behind the lock: dropped when it is free.
    deferred: DeferredWork<'a>,
}

/// What the holder of the lock has to ask of other engines.
struct DeferredWork<'a> {
    shared: &'a Shared,
    list: Vec<CrossEngineOp>,
    handovers: Handovers,
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

    /// Visits the devices that have got packets, and those that get some by that, as far as they let us in.
    /// No lock is held meanwhile.
    fn visit(&mut self) {
        let mut left = Handovers::default();
        for _ in 0..MAX_ASSISTS {
            let Some(next) = self.handovers.pop() else { break };
            let mut further = Handovers::default();
            match next.deliver(&mut further) {
                Visit::Done | Visit::Busy => {}
                Visit::Again => self.handovers.push(next),
                Visit::Later => left.push(next),
            }
            self.handovers.append(&mut further);
        }
        self.handovers.append(&mut left);
        if !self.handovers.is_empty() {
            self.leave();
        }
    }

    /// What is left is for the next poll of the application, or for the threads of those devices.
    fn leave(&mut self) {
        if let Some(mut engine) = self.shared.try_lock()
            && engine.is_driven_by_application()
        {
            engine.handovers.append(&mut self.handovers);
            return engine.assist_later();
        }
        wake_all(&mut self.handovers);
    }
}

fn wake_all(handovers: &mut Handovers) {
    while let Some(next) = handovers.pop() {
        next.wake();
    }
}

impl Drop for DeferredWork<'_> {
    fn drop(&mut self) {
        if !self.list.is_empty() {
            self.run();
        }
        if !self.handovers.is_empty() {
            self.visit();
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
    /// If the application polls, its next poll visits the devices that have got packets: several posts
    /// are one visit then.
    #[inline]
    pub(crate) fn assist_later(&mut self) {
        self.assists = !self.engine.is_driven_by_application();
    }

    /// That poll is this one.
    #[inline]
    pub(crate) fn assist_now(&mut self) {
        self.assists = true;
    }

    /// The devices that have got packets are woken and not visited.
    pub(crate) fn wake_peers(&mut self) {
        wake_all(&mut self.engine.handovers);
    }

    fn deliver_events(&mut self) {
        while let Some(event) = self.engine.pop_async_event() {
            if !self.shared.events.deliver(event) {
                self.engine.nic.tables.counters.lost_events += 1;
            }
        }
        self.engine.nic.tables.deliver_cq_events();
    }

    /// A posted request may need a timer earlier than the progress thread means to wake up.
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
        if std::thread::panicking() {
            // Whoever comes next knows that by the poisoned lock. A second panic here would end the process.
            return;
        }
        if self.assists && !self.engine.handovers.is_empty() {
            std::mem::swap(&mut self.deferred.handovers, &mut self.engine.handovers);
        }
        self.deliver_events();
        if self.wakes_thread {
            self.wake_thread();
        }
        if !self.engine.nic.cross_engine_ops.is_empty() {
            std::mem::swap(&mut self.deferred.list, &mut self.engine.nic.cross_engine_ops);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r118_a_poll_holds_an_ack_back_for_a_millisecond_at_most() {
        assert_eq!(polling_for(0, 5), 0, "nobody has polled");
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
