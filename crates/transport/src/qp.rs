//! Queue pairs: requester, responder and completer of one connection or datagram endpoint.

mod completion;
mod config;
mod failure;
mod port;
mod requester;
mod responder;
mod run;
mod state;
mod traffic;
mod train;
mod trains;

use std::net::IpAddr;
use std::sync::Arc;

use requester::{Requester, may_have_request, next_is_short_write};
use responder::{Responder, delayed_ack};
pub use run::Run;
pub use state::ModifyQpError;
pub use traffic::{QpTraffic, Window};
pub use train::ArrivedTrain;
use uroce_wire::{Bth, DropReason, HeaderWriter, ICRC_LEN, Opcode, Operation, Packet, Psn, Qpn};

use crate::attr::{CreateQpError, QpAttr, QpInit, QpType};
use crate::cause::FlushReason;
use crate::completion_counter::{AttachCounterError, CompletionCounter, CountedOps};
use crate::context::{Arrival, Context, Step, Transmit};
use crate::id::CqId;
use crate::id::SrqId;
use crate::limits;
pub use crate::qp::config::Features;
use crate::qp::config::QpConfig;
use crate::qp_state::QpState;
use crate::time::Instant;
use crate::wr::{PostError, RecvWr, SendWr};

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
    config: QpConfig,
    requester: Requester,
    responder: Responder,
    /// What the first error was; work requests posted later are flushed with it.
    flush_reason: FlushReason,
    /// SQ_DRAINED was considered for this stay in SQD.
    drained_reported: bool,
    /// LAST_WQE_REACHED was raised (R89).
    last_wqe_reported: bool,
    /// Packets and bytes; messages are counted by requester and responder.
    traffic: QpTraffic,
    /// A WRITE has left before the ACK that waits.
    ack_was_passed: bool,
}

impl QueuePair {
    /// A queue pair in RESET (R85).
    pub fn new(init: &QpInit) -> Result<Self, CreateQpError> {
        init.caps.check()?;
        Ok(blank(init))
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.config.init.qpn
    }

    /// Its transport service.
    pub fn qp_type(&self) -> QpType {
        self.config.init.qp_type
    }

    /// What it sent and received since it was made.
    pub fn traffic(&self) -> QpTraffic {
        let (sent_messages, rcvd_rnr_naks) = self.requester.counts();
        let (window, path) =
            (self.requester.window.packets(), self.requester.window.path_packets());
        QpTraffic {
            window: Window {
                packets: window,
                outstanding: self.requester.psns().outstanding(),
                path,
            },
            sent_messages,
            rcvd_rnr_naks,
            rcvd_messages: self.responder.rcvd_messages(),
            ..self.traffic
        }
    }

    /// What put it into the error state, where it is.
    pub fn error(&self) -> Option<FlushReason> {
        (self.config.state == QpState::Err).then_some(self.flush_reason)
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.config.state
    }

    /// What it was made of.
    pub fn init(&self) -> &QpInit {
        &self.config.init
    }

    /// Where completions of sends go.
    pub fn send_cq(&self) -> CqId {
        self.config.init.send_cq
    }

    /// Where completions of receives go.
    pub fn recv_cq(&self) -> CqId {
        self.config.init.recv_cq
    }

    /// Its shared receive queue.
    pub fn srq(&self) -> Option<SrqId> {
        self.config.init.srq
    }

    /// Its attributes, the current state and PSNs included (`ibv_query_qp`, B47).
    pub fn attr(&self) -> QpAttr {
        QpAttr {
            state: self.config.state,
            cur_state: self.config.state,
            sq_draining: self.is_draining(),
            sq_psn: self.requester.psns().next_new().get(),
            rq_psn: self.responder.expected().get(),
            ..self.config.attr
        }
    }

    /// Send work requests that have not completed.
    pub fn send_queue_len(&self) -> usize {
        self.requester.send_queue().len()
    }

    /// True while a request that was sent waits for its acknowledgement; UC and UD wait for none.
    pub fn awaits_acknowledgement(&self) -> bool {
        self.requester.psns().in_flight()
    }

    /// True if a request packet with this PSN was sent and is not acknowledged, also while it is about to be sent again.
    pub fn is_unacknowledged(&self, psn: Psn) -> bool {
        self.requester.psns().is_outstanding(psn)
    }

    /// Bytes, in packets of the path MTU, that are on their way and will be acknowledged, or be asked for
    /// again after a time, beyond what a long path holds by itself (ADR 32). What waits for an acknowledgement without a timeout does not count, nor what the
    /// peer has been silent about in spite of all tail probes: that is no longer on its way.
    #[inline]
    pub fn bytes_in_flight(&self) -> u64 {
        if !counts_in_flight(self) {
            return 0;
        }
        let outstanding = self.requester.psns().outstanding();
        let beyond = outstanding.saturating_sub(self.requester.window.path_packets());
        u64::from(beyond) << self.config.mtu_shift()
    }

    /// The address of the peer, if it acknowledges what it gets.
    pub fn acknowledging_peer(&self) -> Option<IpAddr> {
        self.config.peer().filter(|_| self.config.init.qp_type.is_reliable())
    }

    /// Lets the next request packet ask for an ACK, because the ones behind it have to wait. False if
    /// everything that is on its way is covered by an ACK that was asked for.
    pub fn ask_for_ack(&mut self) -> bool {
        self.requester.ask_for_ack()
    }

    /// The UDP source port that this QP would like (docs/wire.md).
    pub fn wanted_source_port(&self) -> u16 {
        self.config.wanted_source_port()
    }

    /// The UDP source port that packets of this QP really carry.
    pub fn source_port(&self) -> u16 {
        self.config.src_port
    }

    /// Sets the UDP source port that packets of this QP really carry.
    pub fn set_source_port(&mut self, port: u16) {
        self.config.src_port = port;
    }

    /// Lets a counter count completions of these operations until the queue pair is destroyed (`ibv_qp_attach_comp_cntr`).
    pub fn attach_counter(
        &mut self,
        ops: CountedOps,
        counter: &Arc<CompletionCounter>,
    ) -> Result<(), AttachCounterError> {
        match self.config.state {
            QpState::Reset | QpState::Init => self.config.completion_counters.attach(ops, counter),
            other => Err(AttachCounterError::WrongState(other)),
        }
    }

    /// Queues a send work request (`ibv_post_send`, one of the list).
    pub fn post_send(
        &mut self,
        _now: Instant,
        wr: &SendWr<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), PostError> {
        self.config.check_send_state()?;
        self.config.check_destination(wr)?;
        self.requester.post(wr)?;
        if matches!(self.config.state, QpState::Err | QpState::Sqe) {
            self.requester.flush(&self.config, self.flush_reason, cx);
        }
        Ok(())
    }

    /// Whether [`post_send`](Self::post_send) would take a request behind `ahead` others of a list that is
    /// posted whole or not at all.
    pub fn check_send(&self, wr: &SendWr<'_>, ahead: usize) -> Result<(), PostError> {
        self.config.check_send_state()?;
        self.config.check_destination(wr)?;
        self.requester.send_queue().check(wr, ahead)
    }

    /// Queues a receive work request (`ibv_post_recv`, one of the list).
    pub fn post_recv(&mut self, wr: &RecvWr<'_>, cx: &mut Context<'_>) -> Result<(), PostError> {
        if self.config.init.srq.is_some() {
            return Err(PostError::HasSrq);
        }
        if self.config.init.qp_type.is_xrc() {
            return Err(PostError::NoReceiveQueue);
        }
        if self.config.state == QpState::Reset {
            let need = "move it to INIT before posting receives";
            return Err(PostError::WrongState { state: self.config.state, need });
        }
        self.responder.post(wr)?;
        if self.config.state == QpState::Err {
            self.responder.flush(&self.config, self.flush_reason, cx);
        }
        Ok(())
    }

    /// Checks 6 to 8 of docs/wire.md: service, state, addresses, P_Key, Q_Key. Called before
    /// the ICRC is computed; nothing has changed when it refuses.
    pub fn admits(&self, arrival: &Arrival, packet: &Packet<'_>) -> Result<Admitted, DropReason> {
        self.config.admits(arrival, packet)
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
        debug_assert!(admitted.is_for(self.config.init.qpn), "admitted by another queue pair");
        cx.counters.rcvd_pkts += 1;
        let bytes = packet.bytes().len() as u64;
        cx.counters.rcvd_bytes += bytes;
        self.traffic.rcvd_bytes += bytes;
        if packet.info.is_request() {
            self.responder.handle_request(&self.config, now, arrival, packet, cx);
        } else if packet.info.operation == Operation::Cnp {
            if is_cnp(packet, cx) {
                self.requester.window.note_congestion(now, self.config.mtu_shift());
            }
            return;
        } else {
            if packet.info.operation != Operation::Acknowledge {
                self.responder.note_congestion(&self.config, now, arrival);
            }
            self.requester.handle_response(&self.config, now, packet, cx);
        }
        self.settle(cx);
    }

    /// The end of each call: an error of the requester or the responder takes the QP down.
    #[inline]
    fn settle(&mut self, cx: &mut Context<'_>) {
        let failed = self.requester.has_failed() || self.responder.has_failed();
        if failed || self.config.state == QpState::Sqd {
            self.settle_rare(cx);
        }
        if cfg!(debug_assertions) {
            requester::invariants::assert_invariants(&self.requester, &self.config);
            responder::invariants::assert_invariants(&self.responder, &self.config);
        }
    }

    /// Runs what is due at `now`: the local ACK timeout, the end of an RNR wait, an ACK that was delayed.
    pub fn handle_timeout(&mut self, now: Instant, cx: &mut Context<'_>) {
        self.requester.run_timers(&self.config, now, cx);
        delayed_ack::run_timer(&mut self.responder, now, cx);
        self.settle(cx);
    }

    /// When [`QueuePair::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let acknowledgement = delayed_ack::deadline(&self.responder);
        self.requester.deadline().into_iter().chain(acknowledgement).min()
    }

    /// Queues the ACK that waits for what the requester sends again: no request will be taken any more.
    pub fn send_delayed_ack(&mut self, cx: &mut Context<'_>) {
        delayed_ack::send(&mut self.responder, cx);
    }

    /// True if [`QueuePair::poll_transmit`] may have a request.
    pub fn wants_request(&self) -> bool {
        self.requester.wants_transmit()
    }

    /// True if it has an answer.
    pub fn wants_answer(&self) -> bool {
        !self.responder.responses().is_empty()
    }

    /// Puts the QP into the error state because its device lost its path or its CQ.
    pub fn handle_fatal(&mut self, _now: Instant, cx: &mut Context<'_>) {
        if !matches!(self.config.state, QpState::Reset | QpState::Err) {
            self.fail(FlushReason::CqOverflow, cx);
        }
    }

    /// First PSN that was never sent.
    pub fn next_psn(&self) -> Psn {
        self.requester.psns().next_new()
    }

    /// What this queue pair does beyond the specification.
    pub fn features(&self) -> Features {
        self.config.features
    }

    /// Switches on and off what this queue pair does beyond the specification; on others than RC and XRC nothing of it can
    /// be on. Messages that have begun end as they began.
    pub fn set_features(&mut self, features: Features) {
        let reliable = self.config.init.qp_type.is_reliable();
        self.config.features = if reliable { features } else { Features::default() };
        self.requester.set_features(&self.config.features);
        self.responder.set_features(&self.config.features);
    }

    /// True if packets of this QP had better travel singly: what was sent in trains did not arrive.
    #[inline]
    pub fn doubts_trains(&self) -> bool {
        self.requester.doubts_trains() || self.responder.doubts_trains()
    }

    /// True once after single packets brought the progress that trains did not bring.
    #[inline]
    pub fn take_lost_trains(&mut self) -> bool {
        self.requester.take_lost_trains() || self.responder.take_lost_trains()
    }

    /// Writes a packet by which an idle peer shows that it is alive: an empty SEND with the PSN before the
    /// oldest one that is not acknowledged. The peer has had that PSN, so the packet is a duplicate, which
    /// does nothing but draw an ACK (C9-105). `None`: what is in flight asks already, or the queue pair
    /// is not one that sends and is answered.
    pub fn write_liveness_probe(&self, out: &mut [u8]) -> Option<Transmit> {
        let psns = self.requester.psns();
        let sends = self.config.init.qp_type == QpType::Rc && self.config.state == QpState::Rts;
        if !sends || psns.in_flight() {
            return None;
        }
        let mut bth = Bth::new(Opcode::RC_SEND_ONLY, self.config.peer_qpn(), psns.una().sub(1));
        bth.ack_req = true;
        let mut headers = HeaderWriter::new(out);
        headers.put(&bth)?;
        let len = headers.len() + ICRC_LEN;
        Some(Transmit { len, path: self.config.path(), step: Step::Ends })
    }

    /// True if something lost is to be sent or asked for again, before all else, or the last packet as a probe. It is
    /// on its way already as far as others on this path are concerned.
    pub fn wants_repair(&self) -> bool {
        self.requester.wants_repair()
    }

    /// The shared receive queue is being destroyed: a message that is on its way into it is cut short,
    /// and the rest of it refused. Its receive goes with the queue.
    pub fn forget_srq(&mut self, id: SrqId) {
        self.responder.forget_srq(&self.config, id);
    }

    /// True while SQD waits for requests that were begun before: what `ibv_query_qp` tells as
    /// `sq_draining`.
    pub fn is_draining(&self) -> bool {
        self.config.state == QpState::Sqd
            && self.requester.send_queue().front().is_some_and(|wqe| wqe.numbered)
    }

    /// Writes the next packet into `out`, which offers at least [`limits::MAX_PACKET`] bytes.
    /// `None`: nothing to send now. Answers leave before requests: a peer's application sees its request complete
    /// before it sees what was sent in reply, as with a NIC. One short WRITE may leave before an ACK: it completes nothing
    /// there, and the ACK, which is not longer, can follow in the same GSO batch.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        self.poll(now, true, true, out, cx)
    }

    /// [`poll_transmit`](Self::poll_transmit), but a plain ACK that waits goes on waiting while there is no request:
    /// it may then leave together with what the application answers.
    pub fn poll_pressing(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let answers = !self.responder.responses().is_one_ack()
            || may_have_request(&self.requester, &self.config);
        self.poll(now, answers, true, out, cx)
    }

    /// The answers of [`poll_transmit`](Self::poll_transmit) alone, while requests have to wait; a plain ACK
    /// only if `acks_too`.
    pub fn poll_answer(
        &mut self,
        now: Instant,
        acks_too: bool,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let answers = acks_too || !self.responder.responses().is_one_ack();
        self.poll(now, answers, false, out, cx)
    }

    fn poll(
        &mut self,
        now: Instant,
        answers: bool,
        requests: bool,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if out.len() < limits::MAX_PACKET {
            return None;
        }
        let retransmitted = cx.counters.retransmitted_pkts;
        let answers = answers && !self.responder.responses().is_empty();
        // A short WRITE is tried first where it may pass the ACK that waits.
        let mut passes = answers && requests && may_pass_ack(self);
        let sent = loop {
            let mut sent = None;
            if answers && !passes {
                sent = self.responder.poll_response(&self.config, out, cx);
            }
            if sent.is_none() && requests && self.requester.wants_transmit() {
                sent = self.requester.poll_request(&self.config, now, out, cx);
            }
            if sent.is_some() {
                self.ack_was_passed = passes;
                break sent;
            }
            if !std::mem::take(&mut passes) {
                break None;
            }
        };
        self.settle(cx);
        if let Some(transmit) = &sent {
            note_sent(&mut self.traffic, 1, transmit.len, cx);
            self.traffic.retransmitted_pkts += cx.counters.retransmitted_pkts - retransmitted;
        }
        sent
    }
}

/// A queue pair in RESET, of what was checked.
fn blank(init: &QpInit) -> QueuePair {
    QueuePair {
        config: QpConfig::new(init),
        requester: Requester::new(&init.caps),
        responder: Responder::new(init),
        flush_reason: FlushReason::ByModify,
        drained_reported: false,
        last_wqe_reported: false,
        traffic: QpTraffic::default(),
        ack_was_passed: false,
    }
}

/// One plain ACK waits, nothing has passed it, and a WRITE that may leave before it is next (ADR 35).
#[inline(never)]
fn may_pass_ack(qp: &QueuePair) -> bool {
    !qp.ack_was_passed
        && qp.responder.responses().is_one_ack()
        && qp.requester.wants_transmit()
        && next_is_short_write(&qp.requester, &qp.config)
}

/// What the queue pair has in flight counts: it will be acknowledged, or be asked for again after a time.
#[inline]
fn counts_in_flight(qp: &QueuePair) -> bool {
    qp.config.init.qp_type.is_reliable()
        && matches!(qp.config.state, QpState::Rts | QpState::Sqd)
        && qp.config.attr.timeout != 0
        && !qp.requester.has_given_up_probing()
}

/// Counts packets of `len` bytes that have left.
#[inline]
fn note_sent(traffic: &mut QpTraffic, packets: usize, len: usize, cx: &mut Context<'_>) {
    let bytes = (packets * len) as u64;
    cx.counters.sent_pkts += packets as u64;
    cx.counters.sent_bytes += bytes;
    traffic.sent_bytes += bytes;
}

/// R13: a CNP has 16 bytes behind the BTH, and no meaning for PSNs. True if it is one.
fn is_cnp(packet: &Packet<'_>, cx: &mut Context<'_>) -> bool {
    let is_one = packet.payload().len() == 16;
    match is_one {
        true => cx.counters.rcvd_cnp += 1,
        false => cx.counters.drop(DropReason::BadLength),
    }
    is_one
}
