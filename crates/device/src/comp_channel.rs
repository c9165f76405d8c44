//! Completion channels: how an application sleeps until a CQ has something for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use uroce_transport::CqId;

use crate::event_list::EventList;

/// An event of a completion queue: a completion came while the queue was armed by `req_notify`. Each arming gives one
/// event at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CqEvent {
    /// The CQ that had a completion while it was armed.
    pub cq: CqId,
    /// What the application gave when it created the CQ (`cq_context` of ibverbs).
    pub cookie: u64,
}

/// A completion channel (`ibv_comp_channel`): a list of CQ events behind an eventfd.
///
/// The descriptor ([`AsFd`]) is readable exactly while events wait, so it can go into an
/// application's own poll(2) or epoll set. Fetch events with [`next_event`](Self::next_event) only;
/// do not read the descriptor. A clone is the same channel. An event that was not yet fetched is
/// merged with the next one of the same CQ: fetching one event and then polling that CQ until it is
/// empty never misses a completion (B42).
#[derive(Debug, Clone)]
pub struct CompChannel(Arc<EventList<CqEvent>>);

impl CompChannel {
    /// # Errors
    /// EMFILE and the like: no descriptor for the eventfd.
    pub(crate) fn new() -> io::Result<Self> {
        // Events of one CQ merge, so the number of CQs is the bound.
        Ok(CompChannel(Arc::new(EventList::new(usize::MAX)?)))
    }

    /// The next event; `None` as `timeout` waits for ever, zero only looks (non-blocking).
    ///
    /// `Ok(None)`: the timeout has passed. With a device that has no progress thread the engine
    /// makes no progress while this call sleeps; use a zero timeout there and call `Device::drive`.
    ///
    /// # Errors
    /// What poll(2) says; there is no known reason on Linux other than lack of kernel memory.
    pub fn next_event(&self, timeout: Option<Duration>) -> io::Result<Option<CqEvent>> {
        self.0.wait(timeout)
    }

    /// The next event if one waits, for a caller that has slept in read(2) of the descriptor, and taken nothing else from it.
    /// `note` is called with the event before it leaves the list, so that a concurrent destruction of its CQ finds the
    /// event either in the list or noted. `note` must not call the device.
    pub fn event_after_read(&self, note: impl FnOnce(&CqEvent)) -> Option<CqEvent> {
        self.0.pop_after_read(note)
    }

    /// The next event if one waits. Never sleeps.
    pub fn try_event(&self) -> Option<CqEvent> {
        self.0.pop()
    }

    pub(crate) fn push(&self, event: CqEvent) {
        self.0.push(event);
    }

    /// A destroyed CQ leaves no event behind (R93).
    pub(crate) fn forget(&self, cq: CqId) {
        self.0.retain(|event| event.cq != cq);
    }
}

impl AsFd for CompChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_cq_merge_and_forget_removes_them() {
        let channel = CompChannel::new().expect("eventfd");
        let first = CqEvent { cq: CqId(1), cookie: 10 };
        let second = CqEvent { cq: CqId(2), cookie: 20 };
        channel.push(first);
        channel.push(second);
        channel.push(first);
        channel.forget(CqId(2));
        assert_eq!(channel.try_event(), Some(first));
        assert_eq!(channel.next_event(Some(Duration::ZERO)).expect("poll"), None);
    }
}
