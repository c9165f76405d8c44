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

use crate::attr::QpCaps;
use crate::attr::QpInit;
use crate::attr::QpState;
use crate::cause::Cause;
use crate::cause::FlushReason;
use crate::event::AsyncEvent;
use crate::qp::completion;
use crate::recv_queue::RecvQueue;
use crate::wc::Wc;
use crate::wc::WcFlags;
use crate::wc::WcOpcode;
use crate::wc::WcStatus;
use crate::wr::PostError;
use crate::wr::RecvWr;
use std::collections::VecDeque;

use uroce_memory::{PdId, Requirer};
use uroce_wire::{Operation, Packet, Position, Psn};

use crate::attr::QpType;
use crate::context::{Arrival, Context};
use crate::cq::CqId;
use crate::limits;
use crate::qp::config::QpConfig;
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
    recv_queue: RecvQueue,
    /// What takes the QP down at the end of this call.
    failure: Option<FlushReason>,
    /// COMM_EST was raised.
    established: bool,
    /// Single packets got through where trains did not; nobody was told yet.
    pub(super) lost_trains: bool,
    rcvd_messages: u64,
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
    pub(crate) fn new(init: &QpInit) -> Self {
        let QpCaps { max_recv_wr, max_recv_sge, .. } = init.caps;
        Responder {
            recv_queue: RecvQueue::new(max_recv_wr, max_recv_sge),
            failure: None,
            established: false,
            lost_trains: false,
            rcvd_messages: 0,
            target: Target::of(init),
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

    /// Receive work requests that were completed, those that were flushed included.
    pub(crate) fn rcvd_messages(&self) -> u64 {
        self.rcvd_messages
    }

    /// True if the QP fails at the end of this call.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// What takes the QP down.
    pub(crate) fn take_failure(&mut self) -> Option<FlushReason> {
        self.failure.take()
    }

    /// The QP fails at the end of this call (R87). Nothing that waits behind a gap is executed.
    fn fail(&mut self, reason: FlushReason, cx: &mut Context<'_>) {
        self.failure = Some(reason);
        self.drop_reorder_buffer(cx);
    }

    /// Queues a receive work request.
    pub(crate) fn post(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.recv_queue.push(wr)
    }

    /// The first request of a peer shows that it is there.
    fn note_established(&mut self, config: &QpConfig, cx: &mut Context<'_>) {
        if config.state == QpState::Rtr && !self.established {
            self.established = true;
            cx.events.push(AsyncEvent::CommEst(config.init.qpn));
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

impl Responder {
    /// Reports a receive work request.
    #[inline]
    pub(crate) fn complete_recv(&mut self, wc: Wc, solicited: bool, cx: &mut Context<'_>) {
        let cq = self.recv_cq();
        self.rcvd_messages += 1;
        if !completion::report(cq, wc, solicited, cx) {
            self.failure.get_or_insert(FlushReason::CqOverflow);
        }
    }

    /// R87: every receive completes with a flush error; those of an SRQ stay there.
    pub(crate) fn flush(&mut self, config: &QpConfig, reason: FlushReason, cx: &mut Context<'_>) {
        if let Some(wr_id) = self.release_receive() {
            self.flush_receive(config, wr_id, reason, cx);
        }
        let mut wqe = RecvWqe::default();
        while self.recv_queue.pop(&mut wqe) {
            self.flush_receive(config, wqe.wr_id, reason, cx);
        }
    }

    fn flush_receive(
        &mut self,
        config: &QpConfig,
        wr_id: u64,
        reason: FlushReason,
        cx: &mut Context<'_>,
    ) {
        let cause = Cause::Flushed(reason);
        let wc = Wc {
            wr_id,
            status: WcStatus::WrFlushErr,
            opcode: WcOpcode::Recv,
            vendor_err: cause.code(),
            qpn: config.init.qpn.get(),
            flags: WcFlags::empty(),
            cause,
            ..Wc::default()
        };
        self.complete_recv(wc, false, cx);
    }
}

impl Responder {
    /// Takes in a request of the peer.
    #[inline]
    pub(crate) fn handle_request(
        &mut self,
        config: &QpConfig,
        now: Instant,
        arrival: &Arrival,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        if self.run_small(config, arrival, packet, cx) {
            return;
        }
        self.note_congestion(config, now, arrival);
        self.note_established(config, cx);
        match config.init.qp_type {
            QpType::Rc | QpType::XrcTgt => self.handle_reliable(config, now, packet, cx),
            QpType::Uc => self.handle_unreliable(config, packet, cx),
            QpType::Ud => self.handle_datagram(config, arrival, packet, cx),
            // `admits` lets no request pass.
            QpType::XrcIni => {}
        }
    }

    /// R102: a packet marked by congestion on the way draws a CNP, at most one per interval.
    pub(crate) fn note_congestion(&mut self, config: &QpConfig, now: Instant, arrival: &Arrival) {
        let marked = arrival.traffic_class & 3 == 3;
        if !marked || config.init.qp_type == QpType::Ud {
            return;
        }
        let due = self.last_cnp.is_none_or(|last| now.since(last) >= limits::CNP_INTERVAL_NS);
        if due {
            self.last_cnp = Some(now);
            self.cnp_due = true;
        }
    }

    /// Who asks for access to registered memory.
    pub(crate) fn requirer(&self, config: &QpConfig) -> Requirer {
        self.requirer_in(config, self.target.pd)
    }

    /// The same for a request that was taken in before.
    pub(crate) fn requirer_in(&self, config: &QpConfig, pd: PdId) -> Requirer {
        Requirer { pd, qpn: config.init.qpn.get() }
    }

    /// Makes a receive work request available; false if none is posted.
    fn take_receive(&mut self, cx: &mut Context<'_>) -> bool {
        if self.recv_taken {
            return true;
        }
        let wqe = &mut self.recv;
        let taken = match self.target.srq {
            None => self.recv_queue.pop(wqe),
            Some(id) => match cx.srqs.get_mut(id) {
                Some(srq) => srq.take(id, wqe, cx.events),
                None => false,
            },
        };
        self.recv_taken = taken;
        taken
    }

    /// A message that used up no receive, or is forgotten, leaves it to the other queue pairs of its shared receive queue
    /// (R116).
    #[cold]
    pub(crate) fn give_receive_back(&mut self, cx: &mut Context<'_>) {
        let Some(srq) = self.target.srq.and_then(|id| cx.srqs.get_mut(id)) else {
            return;
        };
        if std::mem::take(&mut self.recv_taken) {
            srq.put_back(&self.recv);
        }
    }

    /// The protection domain of receive buffers: the SRQ's own if there is one.
    fn recv_pd(&self, config: &QpConfig, cx: &Context<'_>) -> PdId {
        let srq = self.target.srq.and_then(|id| cx.srqs.get(id));
        srq.map_or(config.init.pd, |srq| srq.pd())
    }
}
