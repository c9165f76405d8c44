//! The progress thread: it answers peers while the application does something else.
//!
//! The thread is idle while the application polls, since a poll drives the engine. After traffic it
//! spins for a moment, and longer after a stream, because a wake-up costs 30 to 65 us and more.
//! Otherwise it sleeps in poll(2) and costs nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use uroce_host::Thread;
use uroce_transport::Instant;

use crate::affinity::pin;
use crate::engines::Shared;
use crate::eventfd::wait_readable;
use crate::local::register;
use crate::spin_budget::SpinBudget;

/// Iterations of `spin_loop` between two poll iterations of the engine, in which other threads can
/// take its lock.
const SPINS: usize = 64;
/// Most yields in a row to threads that wait for the lock. On a busy machine each yield may cost a
/// time slice while peers wait for answers: hence few.
const LOCK_YIELDS: usize = 16;

/// Panics after which the thread ends.
const PANICS: usize = 16;

/// The running thread. Dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub(crate) struct Driver {
    thread: Option<Thread>,
    shared: Arc<Shared>,
}

impl Driver {
    /// With a `processor` (its place among those that the process may use) the thread stays there.
    pub(crate) fn start(
        shared: Arc<Shared>,
        name: &str,
        processor: Option<usize>,
    ) -> io::Result<Driver> {
        let waiter = shared.lock().datapath.waiter()?;
        let endpoint = shared.lock().local.endpoint().cloned();
        if let Some(endpoint) = endpoint {
            let engine: Weak<Shared> = Arc::downgrade(&shared);
            register(&endpoint, engine);
        }
        let work = Work { shared: Arc::clone(&shared), waiter, spin_budget: SpinBudget::default() };
        let run = move || {
            if let Some(processor) = processor {
                pin(processor);
            }
            work.serve();
        };
        let thread = Thread::spawn(name, run)?;
        Ok(Driver { thread: Some(thread), shared })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take().and_then(Thread::if_here) {
            self.shared.request_stop();
            thread.join();
        }
    }
}

/// Next action of the thread.
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
    spin_budget: SpinBudget,
}

impl Work {
    /// Continues after a panic: the device must still report its failure and be closed.
    fn serve(mut self) {
        for _ in 0..PANICS {
            let engine = Arc::clone(&self.shared);
            if catch_unwind(AssertUnwindSafe(|| self.run())).is_ok() {
                return;
            }
            let _again = catch_unwind(AssertUnwindSafe(|| drop(engine.lock())));
        }
        tracing::error!("the progress thread of a device has panicked too often, and ends");
    }

    fn run(&mut self) {
        while !self.shared.must_stop() {
            let now = self.shared.clock.now();
            self.spin_budget.record_end_of_work(now);
            if self.shared.application_polls(now) {
                self.spin_budget.record_application_poll(now);
                self.idle_while_application_polls(now);
                continue;
            }
            match self.poll_engine(now) {
                Next::Again => self.yield_to_waiters(),
                Next::Spin => self.pause(now),
                Next::Sleep(until) => {
                    self.sleep(until);
                    self.shared.lock().datapath.disarm();
                }
            }
        }
    }

    /// One poll iteration, and the decision to sleep under the same lock: a later post sees until
    /// when the thread sleeps.
    fn poll_engine(&mut self, now: Instant) -> Next {
        let mut engine = self.shared.lock();
        engine.thread_sleeps_until = 0;
        if self.shared.application_polls(now) {
            // The application polled while the thread waited for the lock.
            return Next::Spin;
        }
        engine.local.allow_assist();
        if engine.poll_once() {
            self.spin_budget.record_work(now);
            return Next::Again;
        }
        let awake = self.spin_budget.worked_recently(now) || self.spin_budget.may_spin(now);
        // A thread of another device that polls this engine will poll it again: this thread need
        // not.
        if awake && !engine.local.was_assisted_recently(now) || engine.datapath.arm() {
            return Next::Spin;
        }
        let until = engine.next_deadline();
        engine.thread_sleeps_until = until.unwrap_or(u64::MAX);
        Next::Sleep(until)
    }

    fn pause(&self, now: Instant) {
        if self.shared.single_cpu {
            return std::thread::yield_now();
        }
        // Extra spinning must not take the processor from a thread with work: that of the peer, or
        // of our own application.
        if !self.spin_budget.worked_recently(now) {
            std::thread::yield_now();
        }
        for _ in 0..SPINS {
            std::hint::spin_loop();
        }
        self.yield_to_waiters();
    }

    fn yield_to_waiters(&self) {
        for _ in 0..LOCK_YIELDS {
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

    /// Sleeps, without regard to packets, until the application may have stopped polling.
    fn idle_while_application_polls(&self, now: Instant) {
        if self.spin_budget.worked_recently(now) {
            return self.pause(now);
        }
        // Until the moment at which the last poll is too old: an ACK may wait for this thread.
        let time = self.shared.begin_idle(now);
        if time > 0 {
            self.wait(&[self.shared.wake.as_fd()], Some(Duration::from_nanos(time)));
        }
        self.shared.end_idle();
    }

    fn wait(&self, fds: &[std::os::fd::BorrowedFd<'_>], time: Option<Duration>) {
        if let Err(error) = wait_readable(fds, time) {
            tracing::warn!(%error, "the progress thread cannot sleep in poll(2)");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.wake.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};

    use uroce_datapath::{Datapath as _, LoopbackDatapath, LoopbackFabric, Middleware, RxPacket};
    use uroce_transport::{
        AsyncEvent, CompletionQueue, CqId, QpAttr, QpAttrMask, QpCaps, QpInit, QpState, QpType,
        QueuePair,
    };
    use uroce_wire::{Mtu, Qpn};

    use super::*;
    use crate::async_events::AsyncEvents;
    use crate::clock::Clock;
    use crate::engine::EngineBuilder;
    use crate::limits::DeviceLimits;
    use crate::local::EngineDatapath;
    use crate::{EventChannel, EventOwner, OwnedEvent};

    const QPN: Qpn = Qpn::new(0x77);

    /// Panics at the next receive.
    struct Broken {
        inner: LoopbackDatapath,
        breaks: Arc<AtomicBool>,
    }

    impl Middleware for Broken {
        type Inner = LoopbackDatapath;

        fn inner(&self) -> &LoopbackDatapath {
            &self.inner
        }

        fn inner_mut(&mut self) -> &mut LoopbackDatapath {
            &mut self.inner
        }

        fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
            assert!(!self.breaks.swap(false, Ordering::SeqCst), "on purpose");
            self.inner.recv(limit, sink)
        }
    }

    /// An engine with a queue pair in INIT, and what makes it panic.
    fn shared() -> (Arc<Shared>, Arc<AtomicBool>, CqId) {
        let at: SocketAddr = "10.0.0.1:4791".parse().expect("an address");
        let breaks = Arc::new(AtomicBool::new(false));
        let inner = LoopbackFabric::new().attach(at).expect("free");
        let datapath = Broken { inner, breaks: Arc::clone(&breaks) };
        let limits = DeviceLimits::default();
        let clock = Clock::new(None);
        let builder = EngineBuilder::new(at, (Mtu::M1024, 1), [3; 32], limits, clock);
        let mut engine = builder.build(EngineDatapath::Other(Box::new(datapath)), 0);
        let pd = engine.nic.tables.mem.alloc_pd().expect("a PD");
        let cq = engine.nic.tables.cqs.insert(CompletionQueue::new(16));
        let init = QpInit {
            qpn: QPN,
            qp_type: QpType::Ud,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            caps: QpCaps { max_recv_wr: 4, max_recv_sge: 1, ..QpCaps::default() },
            signal_all: false,
            port_mtu: Mtu::M1024,
        };
        engine.nic.qps.insert(QueuePair::new(&init).expect("a QP"), init);
        let attr = QpAttr { state: QpState::Init, ..QpAttr::default() };
        let mask = QpAttrMask::required(QpType::Ud, QpState::Reset, QpState::Init);
        let now = engine.clock.now();
        let entry = engine.nic.qps.get_mut(QPN).expect("inserted");
        let mut context = engine.nic.tables.context();
        entry.qp.modify(now, &attr, mask, &mut context).expect("to INIT");
        let events = Arc::new(AsyncEvents::new().expect("eventfd"));
        (Arc::new(Shared::new(engine, events).expect("eventfd")), breaks, cq)
    }

    #[test]
    fn v8_a_panic_of_the_progress_thread_is_heard_by_everybody() {
        let (shared, breaks, cq) = shared();
        let channel = EventChannel::new().expect("eventfd");
        shared.events.own(EventOwner::Cq(cq), &channel, 7);
        let driver = Driver::start(Arc::clone(&shared), "uroce-test", None).expect("a thread");
        breaks.store(true, Ordering::SeqCst);
        shared.wake.signal();
        let event = channel.next_event(Some(Duration::from_secs(20))).expect("poll");
        assert_eq!(event, Some(OwnedEvent { event: AsyncEvent::DeviceFatal, cookie: 0 }));
        let state = shared.lock().nic.qps.get(QPN).expect("it is there").qp.state();
        assert_eq!(state, QpState::Err);
        drop(driver);
    }
}
