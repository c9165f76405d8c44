//! The engine behind its lock, and what threads may touch without it.

use crate::clock::Clock;
use crate::courtesy::Courtesy;
use crate::device_events::DeviceEvents;
use crate::engine::Engine;
use crate::engines::{Engines, Errand};
use crate::eventfd::EventFd;
use crate::limits::POLLER_FRESH_NS;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use uroce_transport::Instant;

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
    parked: AtomicBool,
    stop: AtomicBool,
    /// There is one processor: whoever waits for a peer on this host keeps it from running.
    pub(crate) alone: bool,
    courtesy: Courtesy,
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
            parked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            alone: std::thread::available_parallelism().is_ok_and(|count| count.get() == 1),
            courtesy: Courtesy::default(),
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
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.guard(engine))
    }

    fn guard<'a>(&'a self, engine: MutexGuard<'a, Engine>) -> EngineGuard<'a> {
        let errands = Errands { shared: self, list: Vec::new() };
        EngineGuard { shared: self, engine, errands }
    }

    fn lock_slow(&self) -> MutexGuard<'_, Engine> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub(crate) fn polled_in_vain(&self) {
        if self.alone {
            self.courtesy.poll_in_vain(|| self.clock.now(), std::thread::yield_now);
        }
    }

    /// The application is about to sleep until an event comes: the progress thread takes over at
    /// once. Ordered with [`park`](Self::park) so that one of the two sees the other.
    pub(crate) fn application_sleeps(&self) {
        self.polled_at.store(0, Ordering::SeqCst);
        if self.parked.swap(false, Ordering::SeqCst) {
            self.wake.signal();
        }
    }

    pub(crate) fn application_polls(&self, now: Instant) -> bool {
        let at = self.polled_at.load(Ordering::SeqCst);
        at != 0 && now.as_nanos().saturating_sub(at) < POLLER_FRESH_NS
    }

    /// Announces that the progress thread leaves the engine to the application. False: the
    /// application has stopped polling meanwhile.
    pub(crate) fn park(&self, now: Instant) -> bool {
        self.parked.store(true, Ordering::SeqCst);
        self.application_polls(now)
    }

    pub(crate) fn unpark(&self) {
        self.parked.store(false, Ordering::SeqCst);
    }

    pub(crate) fn request_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake.signal();
    }

    pub(crate) fn must_stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
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
    /// Behind the lock: dropped when it is free.
    errands: Errands<'a>,
}

/// What the holder of the lock has to ask of other engines.
struct Errands<'a> {
    shared: &'a Shared,
    list: Vec<Errand>,
}

impl Errands<'_> {
    #[cold]
    fn run(&mut self) {
        let engines = self.shared.engines.get().and_then(Weak::upgrade);
        for errand in self.list.drain(..) {
            if let Some(engines) = &engines {
                engines.run(errand);
            }
        }
    }
}

impl Drop for Errands<'_> {
    fn drop(&mut self) {
        if !self.list.is_empty() {
            self.run();
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
        self.deliver_events();
        self.wake_thread();
        if !self.engine.nic.errands.is_empty() {
            std::mem::swap(&mut self.errands.list, &mut self.engine.nic.errands);
        }
    }
}
