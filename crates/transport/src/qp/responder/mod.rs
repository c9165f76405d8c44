//! The responder: executes the peer's requests and answers them.
//!
//! A request walks through named steps, as rxe's does, each a small function: sequence, enabled,
//! resource, length, rkey, execute, complete, acknowledge. First execution and replay share them.

mod checks;
mod datagram;
mod execute;
mod middle;
mod reliable;
mod reorder;
mod replay;
mod response;
mod run;
mod small;
mod target;
mod unreliable;

use std::collections::VecDeque;

use uroce_memory::{PdId, Requirer};
use uroce_wire::{Operation, Packet, Position, Psn};

use crate::attr::QpType;
use crate::context::{Arrival, Context};
use crate::cq::CqId;
use crate::limits;
use crate::qp::QueuePair;
use crate::qp::trains::Repeats;
use crate::recv_queue::RecvWqe;
use crate::reorder_buffer::ReorderBuffer;
use crate::time::Instant;

use replay::Saved;
use response::Response;

pub(crate) use target::Target;

/// A message of which some packets have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    /// SEND or WRITE.
    operation: Operation,
    /// Where a WRITE goes.
    va: u64,
    rkey: u32,
    /// Length that the RETH of a WRITE announced.
    length: u64,
    /// Bytes that have arrived.
    done: u64,
}

impl Message {
    /// True if this is one of its packets, neither the first nor the last.
    #[inline]
    fn contains(&self, packet: &Packet<'_>) -> bool {
        packet.info.position == Position::Middle && packet.info.operation == self.operation
    }
}

/// State of the responder of one QP.
#[derive(Debug)]
pub(crate) struct Responder {
    /// What the request in hand may use.
    target: Target,
    expected: Psn,
    msn: u32,
    /// A NAK or RNR NAK for the expected PSN is out: silence until that PSN arrives (R53, R56).
    silent: bool,
    /// Requests behind a gap may be kept; what was kept behind the one that there is.
    pub(super) reorders: bool,
    reorder_buffer: Option<Box<ReorderBuffer>>,
    /// UC: the rest of a damaged message is dropped (R97).
    drop_rest: bool,
    message: Option<Message>,
    recv: RecvWqe,
    /// `recv` holds a work request that has not completed.
    recv_taken: bool,
    /// READs, atomics, FLUSHes and ATOMIC WRITEs that can be repeated, oldest first.
    saved: VecDeque<Saved>,
    depth: u8,
    responses: VecDeque<Response>,
    pub(super) repeats: Repeats,
    budget_since: Instant,
    budget_used: u32,
    cnp_due: bool,
    last_cnp: Option<Instant>,
}

impl Responder {
    pub(crate) fn new(target: Target) -> Self {
        Responder {
            target,
            expected: Psn::default(),
            msn: 0,
            silent: false,
            reorders: false,
            reorder_buffer: None,
            drop_rest: false,
            message: None,
            recv: RecvWqe::default(),
            recv_taken: false,
            saved: VecDeque::new(),
            depth: 0,
            responses: VecDeque::new(),
            repeats: Repeats::default(),
            budget_since: Instant::default(),
            budget_used: 0,
            cnp_due: false,
            last_cnp: None,
        }
    }

    /// Where the receive in use completes.
    pub(crate) fn recv_cq(&self) -> CqId {
        self.target.recv_cq
    }

    /// Sets the first expected PSN (R20).
    pub(crate) fn start(&mut self, psn: Psn) {
        self.expected = psn;
    }

    /// The PSN that the next request must have.
    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    /// True if this is that PSN, and nothing behind it was refused or kept.
    #[inline]
    fn goes_on_with(&self, psn: Psn) -> bool {
        psn == self.expected && !self.silent && self.reorder_buffer.is_none()
    }

    /// Middle packets of the message, up to the one before PSN `next`, have brought so many bytes to their place.
    #[inline]
    fn pass_middle(&mut self, length: usize, next: Psn) {
        if let Some(message) = &mut self.message {
            message.done += length as u64;
        }
        self.expected = next;
    }

    /// Changes how many READs and atomics are remembered; the newest survive (B32).
    pub(crate) fn set_depth(&mut self, depth: u8) {
        self.depth = depth;
        while self.saved.len() > usize::from(depth) {
            self.saved.pop_front();
        }
    }

    /// True if an answer waits.
    pub(crate) fn wants_transmit(&self) -> bool {
        self.cnp_due || !self.responses.is_empty()
    }

    /// True if one ACK waits, and nothing else.
    pub(crate) fn only_ack_waits(&self) -> bool {
        !self.cnp_due && self.responses.len() == 1 && self.responses[0].is_plain_ack()
    }

    /// Drops what waits to be sent.
    pub(crate) fn forget_answers(&mut self) {
        self.responses.clear();
        self.cnp_due = false;
    }

    /// Gives up the receive work request in use and returns its cookie.
    pub(crate) fn release_receive(&mut self) -> Option<u64> {
        self.message = None;
        std::mem::take(&mut self.recv_taken).then_some(self.recv.wr_id)
    }

    /// A26: may one more answer to a duplicate go out in this period?
    fn spend_reply(&mut self, now: Instant) -> bool {
        if now.since(self.budget_since) >= limits::REPLY_BUDGET_PERIOD_NS {
            self.budget_since = now;
            self.budget_used = 0;
        }
        self.budget_used += 1;
        self.budget_used <= limits::REPLY_BUDGET
    }
}

impl QueuePair {
    /// Takes in a request of the peer.
    pub(crate) fn handle_request(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        match self.init.qp_type {
            QpType::Rc | QpType::XrcTgt => self.handle_reliable(now, packet, cx),
            QpType::Uc => self.handle_unreliable(now, packet, cx),
            QpType::Ud => self.handle_datagram(now, arrival, packet, cx),
            // `admits` lets no request pass.
            QpType::XrcIni => {}
        }
    }

    /// R102: a packet marked by congestion on the way draws a CNP, at most one per interval.
    pub(crate) fn note_congestion(&mut self, now: Instant, arrival: &Arrival) {
        let marked = arrival.traffic_class & 3 == 3;
        if !marked || self.init.qp_type == QpType::Ud {
            return;
        }
        let due =
            self.responder.last_cnp.is_none_or(|last| now.since(last) >= limits::CNP_INTERVAL_NS);
        if due {
            self.responder.last_cnp = Some(now);
            self.responder.cnp_due = true;
        }
    }

    /// Who asks for access to registered memory.
    pub(crate) fn requirer(&self) -> Requirer {
        self.requirer_in(self.responder.target.pd)
    }

    /// The same for a request that was taken in before.
    pub(crate) fn requirer_in(&self, pd: PdId) -> Requirer {
        Requirer { pd, qpn: self.init.qpn.get() }
    }

    /// Makes a receive work request available; false if none is posted.
    fn take_receive(&mut self, cx: &mut Context<'_>) -> bool {
        if self.responder.recv_taken {
            return true;
        }
        let wqe = &mut self.responder.recv;
        let taken = match self.responder.target.srq {
            None => self.recv_queue.pop(wqe),
            Some(id) => match cx.srqs.get_mut(id) {
                Some(srq) => srq.take(id, wqe, cx.events),
                None => false,
            },
        };
        self.responder.recv_taken = taken;
        taken
    }

    /// A message that used up no receive, or is forgotten, leaves it to the other queue pairs of its shared receive queue
    /// (R116).
    #[cold]
    pub(crate) fn give_receive_back(&mut self, cx: &mut Context<'_>) {
        let Some(srq) = self.responder.target.srq.and_then(|id| cx.srqs.get_mut(id)) else {
            return;
        };
        if std::mem::take(&mut self.responder.recv_taken) {
            srq.put_back(&self.responder.recv);
        }
    }

    /// The protection domain of receive buffers: the SRQ's own if there is one.
    fn recv_pd(&self, cx: &Context<'_>) -> PdId {
        let srq = self.responder.target.srq.and_then(|id| cx.srqs.get(id));
        srq.map_or(self.init.pd, |srq| srq.pd())
    }
}
