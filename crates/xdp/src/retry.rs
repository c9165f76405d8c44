//! The alarm that brings a sleeping caller back to packets that wait for a hardware address.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// When a caller is called back: about as long as a neighbour takes to answer.
const AFTER_NS: i64 = 1_000_000;

/// A descriptor that becomes readable a millisecond after [`set`](Self::set).
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: OwnedFd,
    set: bool,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, set: false })
    }

    /// The caller is about to sleep: `wanted` says whether it must be called back.
    pub(crate) fn set(&mut self, wanted: bool) {
        if !wanted && !self.set {
            return;
        }
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let after = Timespec { tv_sec: 0, tv_nsec: if wanted { AFTER_NS } else { 0 } };
        let time = Itimerspec { it_interval: none, it_value: after };
        // Setting also forgets an alarm that has gone off.
        match timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time) {
            Ok(_) => self.set = wanted,
            Err(error) => tracing::warn!(%error, "packets wait for the next call"),
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn rings(alarm: &Alarm, millis: i64) -> bool {
        let wait = Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
        poll(&mut [PollFd::new(alarm, PollFlags::IN)], Some(&wait)).expect("poll") == 1
    }

    #[test]
    fn it_rings_once_set_and_not_after_it_was_taken_back() {
        let mut alarm = Alarm::new().expect("timer");
        alarm.set(false);
        assert!(!rings(&alarm, 5));
        alarm.set(true);
        assert!(rings(&alarm, 900));
        alarm.set(false);
        assert!(!rings(&alarm, 5));
        alarm.set(true);
        alarm.set(true);
        assert!(rings(&alarm, 900));
    }
}
