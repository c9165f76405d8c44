//! Queue pairs: requester, responder and completer of one connection or datagram endpoint.

mod completer;
mod completion;
mod emit;
mod local;
mod middle;
mod port;
mod read_split;
mod requester;
mod responder;
mod retry;
mod run;
mod scoreboard;
mod segment;
mod selective_repeat;
mod send_queue;
mod small;
mod state;
mod tail_probe;
mod traffic;
mod trains;
mod transmit;

use std::net::IpAddr;

use uroce_memory::PdId;
use uroce_wire::{DropReason, Operation, Packet, Psn, Qpn, Service};

use crate::attr::{CreateQpError, QpAttr, QpInit, QpState, QpType};
use crate::cause::FlushReason;
use crate::context::{Arrival, Context};
use crate::cq::CqId;
use crate::event::AsyncEvent;
use crate::limits;
use crate::recv_queue::RecvQueue;
use crate::srq::SrqId;
use crate::time::Instant;
use crate::wr::{PostError, RecvWr, SendWr};

use requester::Requester;
use responder::{Responder, Target};
use send_queue::SendQueue;

pub use run::Run;
pub use state::ModifyQpError;
pub use traffic::QpTraffic;

/// A packet passed the checks of [`QueuePair::admits`]; good for this packet only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Admitted(Qpn);

impl Admitted {
    fn is_for(self, qpn: Qpn) -> bool {
        self.0 == qpn
    }
}

/// A queue pair.
///
/// After any command or `handle_*` call, drain [`QueuePair::poll_transmit`], then read
/// [`QueuePair::poll_timeout`].
#[derive(Debug)]
pub struct QueuePair {
    init: QpInit,
    attr: QpAttr,
    state: QpState,
    send_queue: SendQueue,
    recv_queue: RecvQueue,
    requester: Requester,
    responder: Responder,
    src_port: u16,
    /// What the first error was; work requests posted later are flushed with it.
    flush_reason: FlushReason,
    /// The requester has something to do; cleared when it has looked and found nothing.
    awake: bool,
    /// Single packets got through where trains did not; nobody was told yet.
    lost_trains: bool,
    /// A completion was lost in an overflowing CQ; the QP fails at the end of this call (R66).
    cq_broken: bool,
    /// SQ_DRAINED was considered for this stay in SQD.
    drained_reported: bool,
    /// COMM_EST was raised.
    established: bool,
    /// LAST_WQE_REACHED was raised (R89).
    last_wqe_reported: bool,
    traffic: QpTraffic,
}

impl QueuePair {
    /// A queue pair in RESET (R85).
    pub fn new(init: &QpInit) -> Result<Self, CreateQpError> {
        init.caps.check()?;
        Ok(Self::blank(init))
    }

    fn blank(init: &QpInit) -> Self {
        QueuePair {
            init: *init,
            attr: QpAttr::default(),
            state: QpState::Reset,
            send_queue: SendQueue::new(&init.caps),
            recv_queue: RecvQueue::new(init.caps.max_recv_wr, init.caps.max_recv_sge),
            requester: Requester::default(),
            responder: Responder::new(Target::of(init)),
            src_port: port::from_qpn(init.qpn),
            flush_reason: FlushReason::ByModify,
            awake: false,
            lost_trains: false,
            cq_broken: false,
            drained_reported: false,
            established: false,
            last_wqe_reported: false,
            traffic: QpTraffic::default(),
        }
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.init.qpn
    }

    /// Its transport service.
    pub fn qp_type(&self) -> QpType {
        self.init.qp_type
    }

    /// What it sent and received since it was made.
    pub fn traffic(&self) -> QpTraffic {
        self.traffic
    }

    /// What put it into the error state, where it is.
    pub fn error(&self) -> Option<FlushReason> {
        (self.state == QpState::Err).then_some(self.flush_reason)
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// What it was made of.
    pub fn init(&self) -> &QpInit {
        &self.init
    }

    /// Its protection domain.
    pub fn pd(&self) -> PdId {
        self.init.pd
    }

    /// Where completions of sends go.
    pub fn send_cq(&self) -> CqId {
        self.init.send_cq
    }

    /// Where completions of receives go.
    pub fn recv_cq(&self) -> CqId {
        self.init.recv_cq
    }

    /// Its shared receive queue.
    pub fn srq(&self) -> Option<SrqId> {
        self.init.srq
    }

    /// Its attributes, the current state and PSNs included (`ibv_query_qp`, B47).
    pub fn attr(&self) -> QpAttr {
        QpAttr {
            state: self.state,
            cur_state: self.state,
            sq_draining: self.is_draining(),
            sq_psn: self.requester.next_new().get(),
            rq_psn: self.responder.expected().get(),
            ..self.attr
        }
    }

    /// True while SQD waits for requests that were begun before: what `ibv_query_qp` tells as
    /// `sq_draining`.
    pub fn is_draining(&self) -> bool {
        self.state == QpState::Sqd && self.send_queue.front().is_some_and(|wqe| wqe.numbered)
    }

    /// Send work requests that have not completed.
    pub fn send_queue_len(&self) -> usize {
        self.send_queue.len()
    }

    /// True while a request that was sent waits for its acknowledgement; UC and UD wait for none.
    pub fn awaits_acknowledgement(&self) -> bool {
        self.requester.in_flight()
    }

    /// Bytes, in packets of the path MTU, that are on their way and will be acknowledged, or be asked for
    /// again after a time. What waits for an acknowledgement without a timeout does not count, nor what the
    /// peer has been silent about in spite of all tail probes: that is no longer on its way.
    #[inline]
    pub fn bytes_in_flight(&self) -> u64 {
        let counts = self.init.qp_type.is_reliable()
            && matches!(self.state, QpState::Rts | QpState::Sqd)
            && self.attr.timeout != 0
            && !self.requester.tail_probe.is_exhausted();
        if !counts {
            return 0;
        }
        u64::from(self.requester.outstanding()) << self.mtu_shift()
    }

    /// The address of the peer, if it acknowledges what it gets.
    pub fn acknowledging_peer(&self) -> Option<IpAddr> {
        self.peer().filter(|_| self.init.qp_type.is_reliable())
    }

    /// The address of the peer, once it is known.
    fn peer(&self) -> Option<IpAddr> {
        self.attr.av.as_ref().map(|av| av.remote)
    }

    /// Lets the next request packet ask for an ACK, because the ones behind it have to wait. False if
    /// everything that is on its way is covered by an ACK that was asked for.
    pub fn ask_for_ack(&mut self) -> bool {
        let uncovered = self.requester.since_ack_request > 0;
        if uncovered {
            self.requester.since_ack_request = limits::MAX_WINDOW;
        }
        uncovered
    }

    /// The UDP source port that this QP would like (docs/wire.md).
    pub fn wanted_source_port(&self) -> u16 {
        match (self.init.qp_type, &self.attr.av) {
            (QpType::Ud, _) | (_, None) => port::from_qpn(self.init.qpn),
            (_, Some(av)) => port::from_path(av.flow_label, self.init.qpn, self.peer_qpn()),
        }
    }

    /// The UDP source port that packets of this QP really carry.
    pub fn source_port(&self) -> u16 {
        self.src_port
    }

    /// Sets the UDP source port that packets of this QP really carry.
    pub fn set_source_port(&mut self, port: u16) {
        self.src_port = port;
    }

    /// Queues a send work request (`ibv_post_send`, one of the list).
    pub fn post_send(
        &mut self,
        _now: Instant,
        wr: &SendWr<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), PostError> {
        self.check_send_state()?;
        self.check_destination(wr)?;
        self.send_queue.push(wr)?;
        if matches!(self.state, QpState::Err | QpState::Sqe) {
            self.flush_sends(cx);
        }
        self.wake();
        Ok(())
    }

    /// Whether [`post_send`](Self::post_send) would take a request behind `ahead` others of a list that is
    /// posted whole or not at all.
    pub fn check_send(&self, wr: &SendWr<'_>, ahead: usize) -> Result<(), PostError> {
        self.check_send_state()?;
        self.check_destination(wr)?;
        self.send_queue.check(wr, ahead)
    }

    #[inline]
    fn check_send_state(&self) -> Result<(), PostError> {
        match self.state {
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err => Ok(()),
            QpState::Reset | QpState::Init | QpState::Rtr => {
                let need = "move it to RTS before posting sends";
                Err(PostError::WrongState { state: self.state, need })
            }
        }
    }

    fn check_destination(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        match self.init.qp_type {
            QpType::Ud if wr.ud.is_none() && !wr.op.is_local() => {
                Err(PostError::MissingDestination)
            }
            QpType::XrcIni if wr.srqn.is_none() && !wr.op.is_local() => Err(PostError::MissingSrq),
            QpType::XrcTgt => Err(PostError::OnlyResponds),
            _ => Ok(()),
        }
    }

    /// Queues a receive work request (`ibv_post_recv`, one of the list).
    pub fn post_recv(&mut self, wr: &RecvWr<'_>, cx: &mut Context<'_>) -> Result<(), PostError> {
        if self.init.srq.is_some() {
            return Err(PostError::HasSrq);
        }
        if self.init.qp_type.is_xrc() {
            return Err(PostError::NoReceiveQueue);
        }
        if self.state == QpState::Reset {
            let need = "move it to INIT before posting receives";
            return Err(PostError::WrongState { state: self.state, need });
        }
        self.recv_queue.push(wr)?;
        if self.state == QpState::Err {
            self.flush_receives(cx);
        }
        Ok(())
    }

    /// Checks 6 to 8 of docs/wire.md: service, state, addresses, P_Key, Q_Key. Called before
    /// the ICRC is computed; nothing has changed when it refuses.
    pub fn admits(&self, arrival: &Arrival, packet: &Packet<'_>) -> Result<Admitted, DropReason> {
        match packet.info.service {
            Service::Cnp => {}
            other if other != self.service() => return Err(DropReason::ServiceMismatch),
            Service::Xrc => self.admits_direction(packet)?,
            Service::Rc | Service::Uc | Service::Ud => {}
        }
        if packet.bth.dest_qpn == Qpn::MULTICAST && self.init.qp_type != QpType::Ud {
            return Err(DropReason::MulticastNotUd);
        }
        self.admits_in_state(packet)?;
        if self.init.qp_type != QpType::Ud {
            let av = self.attr.av.as_ref().ok_or(DropReason::QpState)?;
            if arrival.src != av.remote {
                return Err(DropReason::WrongPeer);
            }
            if arrival.dst != av.local {
                return Err(DropReason::WrongDestination);
            }
        }
        // R6: the only P_Key is the default one; full or limited membership both match full.
        if packet.bth.pkey & 0x7fff != 0x7fff {
            return Err(DropReason::PkeyMismatch);
        }
        match packet.deth() {
            Some(deth) if deth.qkey != self.attr.qkey => Err(DropReason::QkeyMismatch),
            _ => Ok(Admitted(self.init.qpn)),
        }
    }

    /// X1: requests go to the target, responses to the initiator.
    fn admits_direction(&self, packet: &Packet<'_>) -> Result<(), DropReason> {
        let target = self.init.qp_type == QpType::XrcTgt;
        if packet.info.is_request() == target { Ok(()) } else { Err(DropReason::XrcDirection) }
    }

    fn admits_in_state(&self, packet: &Packet<'_>) -> Result<(), DropReason> {
        let responder = packet.info.is_request() || packet.info.operation == Operation::Cnp;
        match self.state {
            QpState::Err => Err(DropReason::ErrorState),
            QpState::Rts | QpState::Sqd | QpState::Sqe => Ok(()),
            QpState::Rtr if responder => Ok(()),
            QpState::Reset | QpState::Init | QpState::Rtr => Err(DropReason::QpState),
        }
    }

    fn service(&self) -> Service {
        self.init.qp_type.service()
    }

    /// Takes in a packet that [`QueuePair::admits`] let pass just before, and whose ICRC is right.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packet: &Packet<'_>,
        admitted: Admitted,
        cx: &mut Context<'_>,
    ) {
        debug_assert!(admitted.is_for(self.init.qpn), "admitted by another queue pair");
        cx.counters.rcvd_pkts += 1;
        let bytes = packet.covered().len() as u64 + 4;
        cx.counters.rcvd_bytes += bytes;
        self.traffic.rcvd_bytes += bytes;
        if self.run_small(arrival, packet, cx) {
            return self.settle(now, cx);
        }
        if packet.info.operation == Operation::Cnp {
            self.note_cnp(packet, cx);
            return;
        }
        if packet.info.operation != Operation::Acknowledge {
            self.note_congestion(now, arrival);
        }
        if packet.info.is_request() {
            self.note_established(cx);
            self.handle_request(now, arrival, packet, cx);
        } else {
            self.handle_response(now, packet, cx);
        }
        self.settle(now, cx);
    }

    /// R13: a CNP has 16 bytes behind the BTH, and no meaning for PSNs.
    fn note_cnp(&mut self, packet: &Packet<'_>, cx: &mut Context<'_>) {
        if packet.payload().len() == 16 {
            cx.counters.rcvd_cnp += 1;
        } else {
            cx.counters.drop(DropReason::BadLength);
        }
    }

    fn note_established(&mut self, cx: &mut Context<'_>) {
        if self.state == QpState::Rtr && !self.established {
            self.established = true;
            cx.events.push(AsyncEvent::CommEst(self.init.qpn));
        }
    }

    /// R66: a CQ that overflowed during this call takes the QP down.
    #[inline]
    fn settle(&mut self, now: Instant, cx: &mut Context<'_>) {
        if self.cq_broken || self.state == QpState::Sqd {
            self.settle_rare(now, cx);
        }
    }

    #[cold]
    fn settle_rare(&mut self, now: Instant, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.cq_broken) && self.state != QpState::Err {
            self.fail_queue_pair(now, FlushReason::CqOverflow, cx);
        }
        self.report_drained(cx);
    }

    /// Runs what is due at `now`: the local ACK timeout or the end of an RNR wait.
    pub fn handle_timeout(&mut self, now: Instant, cx: &mut Context<'_>) {
        self.run_timers(now, cx);
        self.settle(now, cx);
    }

    /// When [`QueuePair::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.requester.deadline()
    }

    /// True if [`QueuePair::poll_transmit`] may have a packet.
    pub fn wants_transmit(&self) -> bool {
        self.wants_request() || self.wants_answer()
    }

    /// True if there may be a request among them.
    pub fn wants_request(&self) -> bool {
        self.awake
    }

    /// True if there is an answer among them.
    pub fn wants_answer(&self) -> bool {
        self.responder.wants_transmit()
    }

    /// Something changed: the requester shall look again.
    fn wake(&mut self) {
        self.awake = true;
    }

    /// Puts the QP into the error state because its device lost its path or its CQ.
    pub fn handle_fatal(&mut self, now: Instant, cx: &mut Context<'_>) {
        if !matches!(self.state, QpState::Reset | QpState::Err) {
            self.fail_queue_pair(now, FlushReason::CqOverflow, cx);
        }
    }

    /// First PSN that was never sent.
    pub fn next_psn(&self) -> Psn {
        self.requester.next_new()
    }
}
