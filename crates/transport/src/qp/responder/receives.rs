//! The receive work requests of a responder: where they come from, which one is in use, where it completes.
//!
//! For RC, UC and UD that is settled when the queue pair is made. A request of XRC names a shared
//! receive queue, which brings its protection domain and its completion queue (X3, X5).

use uroce_memory::{PdId, Sge};

use crate::attr::{QpCaps, QpInit};
use crate::context::Context;
use crate::cq::CqId;
use crate::qp::config::QpConfig;
use crate::recv_queue::{RecvQueue, RecvWqe};
use crate::srq::SrqId;
use crate::wr::{PostError, RecvWr};

/// What a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    /// Protection domain of the keys that the request names.
    pub(super) pd: PdId,
    /// Where its receive comes from, if not from the queue pair's own queue.
    pub(super) srq: Option<SrqId>,
    /// Where that receive completes.
    pub(super) recv_cq: CqId,
}

impl Target {
    /// What the queue pair was made with.
    pub(super) fn of(init: &QpInit) -> Target {
        Target { pd: init.pd, srq: init.srq, recv_cq: init.recv_cq }
    }
}

/// The receive work requests of a responder.
#[derive(Debug)]
pub(super) struct Receives {
    queue: RecvQueue,
    /// What the request in hand may use.
    target: Target,
    /// The work request in use, if one is.
    current: RecvWqe,
    in_use: bool,
}

impl Receives {
    pub(super) fn new(init: &QpInit) -> Self {
        let QpCaps { max_recv_wr, max_recv_sge, .. } = init.caps;
        Receives {
            queue: RecvQueue::new(max_recv_wr, max_recv_sge),
            target: Target::of(init),
            current: RecvWqe::default(),
            in_use: false,
        }
    }

    /// Queues a receive work request.
    pub(super) fn post(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.queue.push(wr)
    }

    /// The work request in use; meaningless while none is.
    #[inline]
    pub(super) fn current(&self) -> &RecvWqe {
        &self.current
    }

    /// What the request in hand may use.
    pub(super) fn target(&self) -> Target {
        self.target
    }

    /// From here on requests use this (X3).
    pub(super) fn set_target(&mut self, target: Target) {
        self.target = target;
    }

    /// Makes a receive work request available; false if none is posted.
    pub(super) fn take(&mut self, cx: &mut Context<'_>) -> bool {
        if self.in_use {
            return true;
        }
        let wqe = &mut self.current;
        self.in_use = match self.target.srq {
            None => self.queue.pop(wqe),
            Some(id) => match cx.srqs.get_mut(id) {
                Some(srq) => srq.take(id, wqe, cx.events),
                None => false,
            },
        };
        self.in_use
    }

    /// The oldest work request if it has one entry, comes from the queue pair's own queue, and no other is in use: its
    /// cookie and that entry.
    #[inline]
    pub(super) fn front_of_one(&self) -> Option<(u64, &Sge)> {
        if self.target.srq.is_some() || self.in_use {
            return None;
        }
        self.queue.front_of_one()
    }

    /// Takes away what [`front_of_one`](Self::front_of_one) has shown.
    #[inline]
    pub(super) fn drop_front_of_one(&mut self) {
        self.queue.drop_front_of_one();
    }

    /// A message that used up no receive, or is forgotten, leaves it to the other queue pairs of its shared receive queue
    /// (R116).
    #[cold]
    pub(super) fn give_back(&mut self, cx: &mut Context<'_>) {
        let Some(srq) = self.target.srq.and_then(|id| cx.srqs.get_mut(id)) else {
            return;
        };
        if std::mem::take(&mut self.in_use) {
            srq.put_back(&self.current);
        }
    }

    /// Gives up the work request in use and returns its cookie.
    pub(super) fn release(&mut self) -> Option<u64> {
        std::mem::take(&mut self.in_use).then_some(self.current.wr_id)
    }

    /// The cookies of all work requests, that of the one in use first; those of an SRQ stay there.
    pub(super) fn next_to_flush(&mut self) -> Option<u64> {
        self.release().or_else(|| self.queue.pop(&mut self.current).then_some(self.current.wr_id))
    }

    /// The protection domain of receive buffers: the SRQ's own if there is one.
    pub(super) fn buffer_pd(&self, config: &QpConfig, cx: &Context<'_>) -> PdId {
        let srq = self.target.srq.and_then(|id| cx.srqs.get(id));
        srq.map_or(config.init.pd, |srq| srq.pd())
    }
}
