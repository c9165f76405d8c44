//! Affiliated and unaffiliated asynchronous events (docs/conformance.md).

use std::collections::VecDeque;

use uroce_wire::Qpn;

use crate::id::{CqId, SrqId};
use crate::limits;

/// An asynchronous event (`ibv_async_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// The queue pair failed by a fault of this side: a receive whose buffer or lkey is wrong.
    QpFatal(Qpn),
    /// The peer sent an invalid request (R63); the queue pair is in the error state.
    QpReqErr(Qpn),
    /// The peer asked for access that it does not have (R63, B25); the queue pair is in the error state.
    QpAccessErr(Qpn),
    /// The first packet arrived while the QP was in RTR.
    CommEst(Qpn),
    /// The send queue has drained after a move to SQD.
    SqDrained(Qpn),
    /// A queue pair with a shared receive queue is in the error state and takes no more receives (R89).
    QpLastWqeReached(Qpn),
    /// The shared receive queue failed.
    SrqErr(SrqId),
    /// Fewer receives wait in the shared receive queue than its limit says (R90): post more.
    SrqLimitReached(SrqId),
    /// The completion queue overflowed (R66) and is of no more use: create a larger one, or poll more often.
    CqErr(CqId),
    /// The link came up.
    PortActive,
    /// The link went down.
    PortErr,
    /// The GID table changed.
    GidChange,
    /// The device failed, and all its queue pairs with it.
    DeviceFatal,
}

/// Events that wait to be read. Bounded: the oldest survive, later ones are counted as lost.
#[derive(Debug, Default)]
pub struct EventQueue {
    events: VecDeque<AsyncEvent>,
    lost: u64,
}

impl EventQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    pub fn push(&mut self, event: AsyncEvent) {
        if self.events.len() < limits::MAX_EVENTS {
            self.events.push_back(event);
        } else {
            self.lost += 1;
        }
    }

    /// Takes the oldest event.
    pub fn pop(&mut self) -> Option<AsyncEvent> {
        self.events.pop_front()
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Events that did not fit.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Forgets what concerns a QP that is being destroyed.
    pub fn forget_qp(&mut self, qpn: Qpn) {
        self.events.retain(|event| {
            !matches!(event,
                AsyncEvent::QpFatal(q) | AsyncEvent::QpReqErr(q) | AsyncEvent::QpAccessErr(q)
                | AsyncEvent::CommEst(q) | AsyncEvent::SqDrained(q)
                | AsyncEvent::QpLastWqeReached(q) if *q == qpn)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_bounded_and_counted() {
        let mut queue = EventQueue::new();
        for _ in 0..limits::MAX_EVENTS + 3 {
            queue.push(AsyncEvent::PortActive);
        }
        assert_eq!((queue.len(), queue.lost()), (limits::MAX_EVENTS, 3));
    }

    #[test]
    fn a_destroyed_qp_leaves_no_event() {
        let mut queue = EventQueue::new();
        queue.push(AsyncEvent::CommEst(Qpn::new(5)));
        queue.push(AsyncEvent::CommEst(Qpn::new(6)));
        queue.forget_qp(Qpn::new(5));
        assert_eq!(queue.pop(), Some(AsyncEvent::CommEst(Qpn::new(6))));
        assert_eq!(queue.pop(), None);
    }
}
