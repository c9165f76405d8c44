//! How long calls wait.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libc::{c_int, pollfd};
use uroce_ibverbs::descriptor::poll;
use uroce_ibverbs::errno::Errno;

use crate::wakeup::ThreadWakeup;

/// How long a call looks again and again before it sleeps: what it waits for is often under way.
const SPIN: Duration = Duration::from_micros(20);
/// The longest sleep: a descriptor that another thread has emptied ends none, and a process without free descriptors has no
/// wakeup.
const LONG_SLEEP: Duration = Duration::from_millis(500);
/// The longest sleep while several threads wait for one socket.
const SHORT_SLEEP: Duration = Duration::from_millis(1);

/// How long a call waits.
#[derive(Debug)]
pub struct Deadline {
    /// `None`: for ever.
    end: Option<Instant>,
    spins_until: Cell<Instant>,
}

impl Deadline {
    fn until(end: Option<Instant>) -> Deadline {
        Deadline { end, spins_until: Cell::new(Instant::now() + SPIN) }
    }

    /// The call does not wait.
    pub fn now() -> Deadline {
        Deadline::until(Some(Instant::now()))
    }

    /// The call waits for ever.
    pub fn never() -> Deadline {
        Deadline::until(None)
    }

    /// The call waits so long.
    pub fn after(time: Duration) -> Deadline {
        Deadline::until(Instant::now().checked_add(time))
    }

    /// As poll(2) has it: milliseconds, negative for ever.
    pub fn of_poll(timeout: c_int) -> Deadline {
        u64::try_from(timeout).map_or_else(
            |_| Deadline::never(),
            |timeout| Deadline::after(Duration::from_millis(timeout)),
        )
    }

    /// The time is over.
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Whether it is too early to sleep.
    pub fn spins(&self) -> bool {
        Instant::now() < self.spins_until.get()
    }

    /// Milliseconds to sleep, `most` at most. After a sleep it is early again.
    pub fn sleep_ms(&self, most: Duration) -> c_int {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        let sleep = left.map_or(most, |left| left.min(most));
        // Rounded up: not to look again and again in the last millisecond.
        c_int::try_from(sleep.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
    }

    fn woken(&self) {
        self.spins_until.set(Instant::now() + SPIN);
    }
}

/// Threads that wait for a socket.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    all: AtomicU32,
    /// Those that sleep long, or are about to: they began when nobody else waited.
    long_sleepers: AtomicU32,
    /// Theirs.
    wakeups: Mutex<Vec<Arc<ThreadWakeup>>>,
}

/// One of them, as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Waiters);

impl Waiters {
    pub fn enter(&self) -> Waiting<'_> {
        self.all.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// A call has changed what others wait for, and no descriptor of the socket tells them.
    pub fn wake_long_sleepers(&self) {
        if self.long_sleepers.load(Ordering::SeqCst) > 0 {
            self.wakeups().iter().for_each(|wakeup| wakeup.wake());
        }
    }

    fn wakeups(&self) -> MutexGuard<'_, Vec<Arc<ThreadWakeup>>> {
        self.wakeups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting<'_> {
    /// The longest sleep that makes sense.
    pub fn sleep_limit(&self) -> Duration {
        if self.0.all.load(Ordering::SeqCst) > 1 { SHORT_SLEEP } else { LONG_SLEEP }
    }

    /// This thread is about to sleep so long at most. It must look once more, or have the socket's state locked since it looked:
    /// what another call changes from now on wakes it.
    pub fn falls_asleep(&self, limit: Duration) -> Asleep<'_> {
        let is_long = limit > SHORT_SLEEP;
        self.0.long_sleepers.fetch_add(u32::from(is_long), Ordering::SeqCst);
        let wakeup = if is_long { ThreadWakeup::of_this_thread() } else { None };
        if let Some(wakeup) = &wakeup {
            self.0.wakeups().push(Arc::clone(wakeup));
        }
        Asleep { waiters: self.0, limit, is_long, wakeup }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.all.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread that sleeps, or is about to, as long as this lives.
#[derive(Debug)]
pub(crate) struct Asleep<'a> {
    waiters: &'a Waiters,
    limit: Duration,
    is_long: bool,
    /// `None`: nobody wakes it, and it sleeps to the limit.
    wakeup: Option<Arc<ThreadWakeup>>,
}

impl Asleep<'_> {
    /// Another thread sleeps long. The event that is to wake it must not be taken before it runs, or it sleeps on.
    pub fn is_beside_a_long_sleeper(&self) -> bool {
        self.waiters.long_sleepers.load(Ordering::SeqCst) > u32::from(self.is_long)
    }

    /// What wakes this thread beside the descriptors of its sockets.
    pub fn wakeup(&self) -> Option<&ThreadWakeup> {
        self.wakeup.as_deref()
    }

    /// Sleeps until one of the descriptors is readable, or it is time to look again.
    ///
    /// # Errors
    /// EINTR.
    pub fn sleep(&self, fds: &[c_int], deadline: &Deadline) -> Result<(), Errno> {
        let one = |fd: &c_int| pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
        let wakeup = self.wakeup().map(ThreadWakeup::fd);
        let mut set: Vec<pollfd> = fds.iter().chain(&wakeup).map(one).collect();
        let woken = poll(&mut set, deadline.sleep_ms(self.limit));
        self.awoke(&set);
        woken?;
        deadline.woken();
        Ok(())
    }

    /// poll(2) has returned with these.
    pub fn awoke(&self, set: &[pollfd]) {
        let is_due = |wakeup: &&ThreadWakeup| {
            set.iter().any(|one| one.fd == wakeup.fd() && one.revents != 0)
        };
        self.wakeup().filter(is_due).into_iter().for_each(ThreadWakeup::clear);
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.waiters.long_sleepers.fetch_sub(u32::from(self.is_long), Ordering::SeqCst);
        let Some(own) = &self.wakeup else { return };
        let mut wakeups = self.waiters.wakeups();
        if let Some(at) = wakeups.iter().position(|wakeup| Arc::ptr_eq(wakeup, own)) {
            wakeups.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_as_long_as_poll_would() {
        assert!(Deadline::of_poll(0).is_over());
        assert!(!Deadline::of_poll(60_000).is_over() && !Deadline::of_poll(-1).is_over());
        assert!(Deadline::now().is_over() && !Deadline::never().is_over());
        assert!(!Deadline::after(Duration::MAX).is_over(), "longer than a clock counts");
    }

    #[test]
    fn a_sleep_is_rounded_up_and_has_a_limit() {
        assert_eq!(Deadline::never().sleep_ms(Duration::from_millis(500)), 500);
        assert_eq!(Deadline::never().sleep_ms(Duration::from_micros(1)), 1);
        assert_eq!(Deadline::now().sleep_ms(LONG_SLEEP), 0);
        let left = Deadline::after(Duration::from_secs(60)).sleep_ms(LONG_SLEEP);
        assert_eq!(Duration::from_millis(left.unsigned_abs().into()), LONG_SLEEP);
    }

    #[test]
    fn threads_that_wait_for_one_socket_sleep_less() {
        let waiters = Waiters::default();
        let first = waiters.enter();
        assert_eq!(first.sleep_limit(), LONG_SLEEP);
        let second = waiters.enter();
        assert_eq!((first.sleep_limit(), second.sleep_limit()), (SHORT_SLEEP, SHORT_SLEEP));
        drop(second);
        assert_eq!(first.sleep_limit(), LONG_SLEEP);
    }

    #[test]
    fn a_thread_knows_of_another_one_that_sleeps_long() {
        let waiters = Waiters::default();
        let first = waiters.enter();
        let long = first.falls_asleep(first.sleep_limit());
        assert!(!long.is_beside_a_long_sleeper(), "it is the only one");
        let second = waiters.enter();
        let short = second.falls_asleep(second.sleep_limit());
        assert!(short.is_beside_a_long_sleeper() && !long.is_beside_a_long_sleeper());
        drop(long);
        assert!(!short.is_beside_a_long_sleeper());
    }
}
