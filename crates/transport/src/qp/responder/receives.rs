//! The receive work requests of a responder: where they come from, which one is in use, where it completes.
//!
//! For RC, UC and UD that is settled when the queue pair is made. A request of XRC names a shared
//! receive queue, which brings its protection domain and its completion queue (X3, X5).

use uroce_memory::{Access, MemTable, MrSlice, PdId, Requirer, Sge};
use uroce_wire::Packet;

use super::checks::Refusal;
use crate::attr::{QpCaps, QpInit};
use crate::cause::Cause;
use crate::context::Context;
use crate::id::CqId;
use crate::id::SrqId;
use crate::limits;
use crate::qp::config::QpConfig;
use crate::recv_queue::{RecvQueue, RecvWqe};
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

    /// Bytes of the work request that [`take`](Self::take) would make available; `None` if none is posted.
    pub(super) fn next_length(&self, cx: &Context<'_>) -> Option<u64> {
        match self.target.srq {
            _ if self.in_use => Some(self.current.length),
            None => self.queue.front_length(),
            Some(id) => cx.srqs.get(id)?.front_length(),
        }
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

    /// Where a SEND of `length` bytes goes, if the oldest work request has [one entry](Self::front_of_one) with the room, and
    /// may be written to: the cookie, and the bytes.
    // Always: it is the way of each small SEND, from two places.
    #[inline(always)]
    pub(super) fn place_of_one<'m>(
        &self,
        pd: PdId,
        length: u32,
        mem: &'m MemTable,
    ) -> Option<(u64, MrSlice<'m>)> {
        let (wr_id, sge) = self.front_of_one()?;
        if length > sge.length {
            return None;
        }
        let place = Sge { length, ..*sge };
        let granted = mem.check_local(&place, pd, Access::LOCAL_WRITE);
        granted.ok().map(|place| (wr_id, place))
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

    /// What holds between two calls. `in_message`: a message is in progress.
    pub(super) fn assert_invariants(&self) {
        debug_assert!(
            self.target.srq.is_none() || self.queue.len() == 0,
            "two sources of receives"
        );
        debug_assert!(
            !self.in_use || self.current.length <= limits::MAX_MESSAGE,
            "a receive is posted"
        );
    }

    /// The protection domain of receive buffers: the SRQ's own if there is one.
    pub(super) fn buffer_pd(&self, config: &QpConfig, cx: &Context<'_>) -> PdId {
        let srq = self.target.srq.and_then(|id| cx.srqs.get(id));
        srq.map_or(config.init.pd, |srq| srq.pd())
    }

    /// Writes a datagram and the area in front of it into the work request in use.
    pub(super) fn scatter_datagram(
        &self,
        config: &QpConfig,
        grh: &[u8],
        payload: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<(), Cause> {
        let pd = self.buffer_pd(config, cx);
        let sges = &self.current.sges;
        let explain = |error: uroce_memory::SgeError| Cause::LocalBuffer {
            index: error.index as u32,
            lkey: sges.get(error.index).map_or(0, |sge| sge.lkey.0),
            error: error.error,
        };
        cx.mem.scatter(pd, sges, 0, grh).map_err(explain)?;
        cx.mem.scatter(pd, sges, grh.len() as u64, payload).map_err(explain)
    }

    /// X3: from here on the request in hand uses what its XRCETH names, if it has one. In the middle of a message it cannot
    /// name another queue.
    #[inline]
    pub(super) fn aim(
        &mut self,
        config: &QpConfig,
        in_message: bool,
        packet: &Packet<'_>,
        cx: &Context<'_>,
    ) -> Result<(), Refusal> {
        let Some(xrceth) = packet.xrceth() else {
            return Ok(());
        };
        let named = cx.srqs.xrc_named(xrceth.srqn);
        let Some((id, pd, xrc)) = named.filter(|named| Some(named.2.xrcd) == config.init.xrcd)
        else {
            return Err(Refusal::invalid(packet, "it names no XRC SRQ of the QP's domain"));
        };
        let target = Target { pd, srq: Some(id), recv_cq: xrc.cq };
        if in_message && target != self.target {
            let what = "it names another SRQ than its message began with";
            return Err(Refusal::invalid(packet, what));
        }
        self.target = target;
        Ok(())
    }

    /// The accessor of the memory that the request in hand names.
    pub(super) fn requirer(&self, config: &QpConfig) -> Requirer {
        config.requirer(self.target.pd)
    }
}
