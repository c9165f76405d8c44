//! A socket, and waiting for it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::{c_int, c_short};
use uroce_ibverbs::errno::Errno;
use uroce_ibverbs::restart::all_handlers_restart;

use crate::deadline::{Asleep, Deadline, Waiters};
use crate::options::Options;

/// What is behind a socket: a connection, or datagrams.
pub(crate) trait Endpoint: Send {
    /// Takes what has come.
    fn progress(&mut self);
    /// True, once: something has changed of which no descriptor tells who sleeps, or none does any more.
    fn take_change(&mut self) -> bool;
    /// What a program that polls the socket is told.
    fn revents(&mut self, events: c_short) -> c_short;
    /// The next completion wakes who sleeps on the descriptors; true if that is news, so that one more look is due. Only who is
    /// about to sleep calls this: it takes the event that has woken others, unless one of them still sleeps long.
    fn arm(&mut self, asleep: &Asleep<'_>) -> bool;
    /// What becomes readable when something happens.
    fn fds(&self) -> Vec<c_int>;
    fn local(&self) -> Option<SocketAddr>;
    fn peer(&self) -> Option<SocketAddr>;
    fn options(&mut self) -> &mut Options;
    /// An option that only this kind of socket has.
    fn special(&mut self, level: c_int, name: c_int) -> Option<c_int>;
}

/// A socket. The program knows it by the number of its descriptor.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    pub fd: c_int,
    pub nonblocking: AtomicBool,
    pub closed: AtomicBool,
    waiters: Waiters,
    state: Mutex<S>,
}

impl<S: Endpoint> Socket<S> {
    pub fn new(fd: c_int, state: S, nonblocking: bool) -> Self {
        Socket {
            fd,
            nonblocking: AtomicBool::new(nonblocking),
            closed: AtomicBool::new(false),
            waiters: Waiters::default(),
            state: Mutex::new(state),
        }
    }

    /// The state, up to date.
    pub fn state(&self) -> MutexGuard<'_, S> {
        let mut state = self.state_as_it_was();
        state.progress();
        self.wake_after(&mut state);
        state
    }

    /// Others that sleep look again if there is a reason.
    pub fn wake_after(&self, state: &mut S) {
        if state.take_change() {
            self.waiters.wake_long_sleepers();
        }
    }

    /// The socket was closed. Calls that wait for it end.
    pub fn mark_closed(&self) {
        // Who is about to sleep has the state locked since it looked.
        let _state = self.state_as_it_was();
        self.closed.store(true, Ordering::Relaxed);
        self.waiters.wake_long_sleepers();
    }

    /// The state as the last call left it.
    pub fn state_as_it_was(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No call is in the middle of something.
    pub fn is_free(&self) -> bool {
        self.state.try_lock().is_ok()
    }

    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Waits until `ready` has an answer, as long as `deadline` lasts. A signal ends that, unless the handlers have SA_RESTART.
    ///
    /// # Errors
    /// That of `ready`; EAGAIN: the time is over; EBADF: the socket was closed meanwhile; EINTR.
    pub fn wait<T>(
        &self,
        deadline: Deadline,
        ready: impl FnMut(&mut S) -> Option<Result<T, Errno>>,
    ) -> Result<T, Errno> {
        self.wait_again(&deadline, all_handlers_restart, ready)
    }

    /// The same for what no signal may cut short: it goes on with what is left of the time.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait) without EINTR.
    pub fn wait_through_signals<T>(
        &self,
        deadline: &Deadline,
        ready: impl FnMut(&mut S) -> Option<Result<T, Errno>>,
    ) -> Result<T, Errno> {
        self.wait_again(deadline, || true, ready)
    }

    /// Goes on after a signal if `goes_on` says so then.
    fn wait_again<T>(
        &self,
        deadline: &Deadline,
        goes_on: impl Fn() -> bool,
        mut ready: impl FnMut(&mut S) -> Option<Result<T, Errno>>,
    ) -> Result<T, Errno> {
        loop {
            match self.wait_until(deadline, &mut ready) {
                Err(Errno(libc::EINTR)) if goes_on() => {}
                other => return other,
            }
        }
    }

    fn wait_until<T>(
        &self,
        deadline: &Deadline,
        ready: &mut impl FnMut(&mut S) -> Option<Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let waiting = self.waiters.enter();
        loop {
            let mut state = self.state();
            if self.closed.load(Ordering::Relaxed) {
                return Err(Errno(libc::EBADF));
            }
            let answer = ready(&mut state);
            self.wake_after(&mut state);
            if let Some(answer) = answer {
                return answer;
            }
            if deadline.is_over() {
                return Err(Errno(libc::EAGAIN));
            }
            let spins = deadline.spins();
            let limit = if spins { Duration::ZERO } else { waiting.sleep_limit() };
            let asleep = waiting.falls_asleep(limit);
            if state.arm(&asleep) || spins {
                continue;
            }
            let fds = state.fds();
            drop(state);
            asleep.sleep(&fds, deadline)?;
        }
    }

    /// How long calls of the program wait; `flags` may say that this one does not.
    pub fn deadline(&self, flags: c_int) -> Deadline {
        if self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0 {
            Deadline::now()
        } else {
            Deadline::never()
        }
    }
}

/// What programs do with sockets of any kind.
pub(crate) trait AnySocket {
    fn waiters(&self) -> &Waiters;
    fn nonblocking(&self) -> &AtomicBool;
    fn revents(&self, events: c_short) -> c_short;
    fn arm(&self, asleep: &Asleep<'_>) -> bool;
    fn fds(&self) -> Vec<c_int>;
    fn local(&self) -> Option<SocketAddr>;
    fn peer(&self) -> Option<SocketAddr>;
    fn option(&self, level: c_int, name: c_int) -> Result<c_int, Errno>;
    /// Reads or changes the options.
    fn with_options(&self, change: &mut dyn FnMut(&mut Options));
}

impl<S: Endpoint> AnySocket for Socket<S> {
    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn nonblocking(&self) -> &AtomicBool {
        &self.nonblocking
    }

    fn revents(&self, events: c_short) -> c_short {
        self.state().revents(events)
    }

    fn arm(&self, asleep: &Asleep<'_>) -> bool {
        self.state_as_it_was().arm(asleep)
    }

    fn fds(&self) -> Vec<c_int> {
        self.state_as_it_was().fds()
    }

    fn local(&self) -> Option<SocketAddr> {
        self.state_as_it_was().local()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.state().peer()
    }

    fn option(&self, level: c_int, name: c_int) -> Result<c_int, Errno> {
        let mut state = self.state();
        match state.special(level, name) {
            Some(value) => Ok(value),
            None => state.options().get(level, name),
        }
    }

    fn with_options(&self, change: &mut dyn FnMut(&mut Options)) {
        change(self.state_as_it_was().options());
    }
}
