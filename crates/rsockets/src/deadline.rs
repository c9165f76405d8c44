//! How long a call waits, and sleeping on descriptors.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, pollfd};

use crate::errno::Errno;

/// How long a call looks again and again before it sleeps: what it waits for is often under way.
const SPIN: Duration = Duration::from_micros(20);
/// The longest sleep: a descriptor that another thread has emptied wakes nobody.
const NAP: Duration = Duration::from_millis(500);
/// The longest sleep while several threads wait for one socket.
const SHORT_NAP: Duration = Duration::from_millis(1);

/// How long a call waits.
#[derive(Debug)]
pub(super) struct Patience {
    /// `None`: for ever.
    end: Option<Instant>,
    spins_until: Cell<Instant>,
}

impl Patience {
    fn until(end: Option<Instant>) -> Patience {
        Patience { end, spins_until: Cell::new(Instant::now() + SPIN) }
    }

    /// The call does not wait.
    pub fn none() -> Patience {
        Patience::until(Some(Instant::now()))
    }

    pub fn endless() -> Patience {
        Patience::until(None)
    }

    pub fn of(time: Duration) -> Patience {
        Patience::until(Instant::now().checked_add(time))
    }

    /// As poll(2) has it: milliseconds, negative for ever.
    pub fn of_poll(timeout: c_int) -> Patience {
        u64::try_from(timeout).map_or_else(
            |_| Patience::endless(),
            |timeout| Patience::of(Duration::from_millis(timeout)),
        )
    }

    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Whether it is too early to sleep.
    pub fn spins(&self) -> bool {
        Instant::now() < self.spins_until.get()
    }

    /// Milliseconds to sleep, `most` at most. After a sleep it is early again.
    pub fn nap(&self, most: Duration) -> c_int {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        let nap = left.map_or(most, |left| left.min(most));
        // Rounded up: not to look again and again in the last millisecond.
        c_int::try_from(nap.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
    }

    fn woken(&self) {
        self.spins_until.set(Instant::now() + SPIN);
    }
}

/// Threads that wait for a socket.
#[derive(Debug, Default)]
pub(super) struct Waiters(AtomicU32);

/// One of them, as long as this lives.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a Waiters);

impl Waiters {
    pub fn enter(&self) -> Waiting<'_> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }
}

impl Waiting<'_> {
    /// The longest sleep that makes sense.
    pub fn nap(&self) -> Duration {
        if self.0.0.load(Ordering::SeqCst) > 1 { SHORT_NAP } else { NAP }
    }

    /// Sleeps until one of the descriptors is readable, or it is time to look again.
    ///
    /// # Errors
    /// EINTR.
    pub fn sleep(&self, fds: &[c_int], patience: &Patience) -> Result<(), Errno> {
        let one = |fd: &c_int| pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
        let mut set: Vec<pollfd> = fds.iter().map(one).collect();
        poll(&mut set, patience.nap(self.nap()))?;
        patience.woken();
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// poll(2).
///
/// # Errors
/// What it says.
pub(super) fn poll(set: &mut [pollfd], timeout: c_int) -> Result<usize, Errno> {
    // SAFETY: as many entries as are counted.
    let found = unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, timeout) };
    usize::try_from(found).map_err(|_| Errno::last())
}
