//! The responder: executes the peer's requests and answers them.
//!
//! A request walks through named steps, as rxe's does, each a small function: sequence, enabled,
//! resource, length, rkey, execute, complete, acknowledge. First execution and replay share them.

mod checks;
pub(crate) mod delayed_ack;
mod execute;
mod fast_path;
pub(crate) mod invariants;
mod message;
mod receives;
mod reliable;
mod replay;
mod responses;
pub(super) mod train;
mod unreliable;

use delayed_ack::DelayedAck;
use message::Message;
use receives::{Receives, Target};
use replay::ReplayCache;
use responses::{Response, Responses};
use uroce_wire::{DropReason, Packet, Psn, Syndrome};

use crate::attr::{QpInit, QpType};
use crate::cause::{Cause, FlushReason};
use crate::completion_counter::CountedOps;
use crate::context::{Arrival, Context, Transmit};
use crate::event::AsyncEvent;
use crate::id::SrqId;
use crate::limits;
use crate::qp::completion;
use crate::qp::config::{Features, QpConfig};
use crate::qp::trains::Repeats;
use crate::qp_state::QpState;
use crate::reorder_buffer::ReorderBuffer;
use crate::time::Instant;
use crate::wc::{Wc, WcOpcode};
use crate::wc_status::WcStatus;
use crate::wr::{PostError, RecvWr};

/// How many answers to duplicates and gaps may go out in a period (A26).
#[derive(Debug, Default)]
struct ReplyBudget {
    since: Instant,
    used: u32,
}

impl ReplyBudget {
    /// May one more answer go out in this period?
    fn spend(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= limits::REPLY_BUDGET_PERIOD_NS {
            *self = ReplyBudget { since: now, used: 0 };
        }
        self.used += 1;
        self.used <= limits::REPLY_BUDGET
    }
}

/// State of the responder of one QP.
#[derive(Debug)]
pub(crate) struct Responder {
    receives: Receives,
    /// What takes the QP down at the end of this call.
    failure: Option<FlushReason>,
    /// COMM_EST was raised.
    established: bool,
    rcvd_messages: u64,
    /// The PSN that the next request must have.
    expected: Psn,
    msn: u32,
    /// A NAK or RNR NAK for the expected PSN is out: silence until that PSN arrives (R53, R56).
    silent: bool,
    /// Requests behind a gap may wait in a reorder buffer.
    reorders: bool,
    /// The requests behind the gap that there is.
    reorder_buffer: Option<Box<ReorderBuffer>>,
    /// The requester at the other end takes gap lists (ADR 33).
    peer_takes_gap_lists: bool,
    /// The last packet of a message that was executed out of the reorder buffer, while no ACK or NAK tells of it.
    unsaid_end: Option<Psn>,
    /// The ACK that is left to what the requester is sending again.
    delayed_ack: DelayedAck,
    /// UC: the rest of a damaged message is dropped (R97).
    drop_rest: bool,
    /// The message of which some packets have arrived.
    message: Option<Message>,
    replay: ReplayCache,
    responses: Responses,
    repeats: Repeats,
    reply_budget: ReplyBudget,
}

impl Responder {
    pub(crate) fn new(init: &QpInit) -> Self {
        Responder {
            receives: Receives::new(init),
            failure: None,
            established: false,
            rcvd_messages: 0,
            expected: Psn::default(),
            msn: 0,
            silent: false,
            reorders: false,
            reorder_buffer: None,
            peer_takes_gap_lists: false,
            unsaid_end: None,
            delayed_ack: DelayedAck::default(),
            drop_rest: false,
            message: None,
            replay: ReplayCache::default(),
            responses: Responses::default(),
            repeats: Repeats::default(),
            reply_budget: ReplyBudget::default(),
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

    /// Sets the first expected PSN (R20).
    pub(crate) fn start(&mut self, psn: Psn) {
        self.expected = psn;
        self.peer_takes_gap_lists = false;
        self.unsaid_end = None;
        self.delayed_ack.clear();
    }

    /// The PSN that the next request must have.
    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    /// Changes how many READs and atomics are remembered; the newest survive (B32).
    pub(crate) fn set_depth(&mut self, depth: u8) {
        self.replay.set_depth(depth);
    }

    /// Switches features on or off, as the device says.
    pub(crate) fn set_features(&mut self, features: &Features) {
        self.reorders = features.reorder_buffer;
    }

    /// READ responses that are repeated had better travel singly.
    #[inline]
    pub(crate) fn doubts_trains(&self) -> bool {
        self.repeats.are_in_vain()
    }

    /// True once after single packets got through where trains did not.
    #[inline]
    pub(crate) fn take_lost_trains(&mut self) -> bool {
        self.repeats.take_lost()
    }

    /// Queues a receive work request.
    pub(crate) fn post(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.receives.post(wr)
    }

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
        if !arrival.is_congestion_marked() && self.take_usual(config, packet, cx) {
            return;
        }
        self.note_congestion(config, now, arrival);
        if config.state == QpState::Rtr && !self.established {
            // The first request of a peer shows that it is there.
            self.established = true;
            cx.events.push(AsyncEvent::CommEst(config.init.qpn));
        }
        match config.init.qp_type {
            QpType::Rc | QpType::XrcTgt => self.handle_reliable(config, now, packet, cx),
            QpType::Uc => self.handle_unreliable(config, packet, cx),
            QpType::Ud => self.handle_datagram(config, arrival, packet, cx),
            // `admits` lets no request pass.
            QpType::XrcIni => {}
        }
    }

    /// True if this is the expected PSN, no NAK is out, and nothing waits behind a gap.
    #[inline]
    fn is_next(&self, psn: Psn) -> bool {
        psn == self.expected && !self.silent && self.reorder_buffer.is_none()
    }

    /// R102: a packet marked by congestion on the way draws a CNP.
    pub(crate) fn note_congestion(&mut self, config: &QpConfig, now: Instant, arrival: &Arrival) {
        if arrival.is_congestion_marked() && config.init.qp_type != QpType::Ud {
            self.responses.note_congestion(now);
        }
    }

    /// R44, R45: acknowledges everything executed so far, a SEND or WRITE at last.
    fn acknowledge_request(&mut self, cx: &mut Context<'_>) {
        let psn = self.expected.sub(1);
        let syndrome = Syndrome::ack(Syndrome::ACK_UNLIMITED);
        if self.answer_now(psn, syndrome) {
            cx.counters.ack_deferred += 1;
        }
    }

    /// Queues an AETH with the current MSN, which tells of all that was executed; true if it took the place of an older ACK.
    fn answer_now(&mut self, psn: Psn, syndrome: Syndrome) -> bool {
        self.unsaid_end = None;
        self.delayed_ack.clear();
        let msn = self.msn;
        self.responses.queue_ack(Response::Ack { psn, syndrome, msn })
    }

    /// The answers that wait to be sent, to look at.
    #[inline]
    pub(crate) fn responses(&self) -> &Responses {
        &self.responses
    }

    /// Writes the next answer, if one waits.
    pub(crate) fn poll_response(
        &mut self,
        config: &QpConfig,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if self.responses.take_cnp() {
            return responses::write_congestion_notification(config, out);
        }
        loop {
            let answer = *self.responses.front()?;
            match answer {
                Response::Ack { .. } => {}
                Response::Atomic { psn, .. } | Response::Placement { psn, .. } => {
                    self.replay.note_answered(psn, psn);
                }
                Response::Read(train) => {
                    if let Some(sent) = responses::write_read_response(config, &train, out, cx.mem)
                    {
                        if train.next == train.last {
                            self.responses.pop();
                            self.replay.note_answered(train.base, train.last);
                        } else {
                            self.responses.move_read(1);
                        }
                        return Some(sent);
                    }
                    if train.repeats {
                        // R60: an answer that was given before is not given again.
                        cx.counters.drop(DropReason::DuplicateReadInvalid);
                        self.responses.pop();
                        continue;
                    }
                    cx.counters.drop(DropReason::TxFailed);
                    self.fail_read(config, train.next, cx);
                    let nak = self.responses.pop()?;
                    return responses::write_answer(config, &nak, None, out);
                }
            }
            self.responses.pop();
            let gaps = match &mut self.reorder_buffer {
                Some(buffer)
                    if self.peer_takes_gap_lists && answer.is_sequence_nak(self.expected) =>
                {
                    Some(buffer.tell_gaps(self.expected))
                }
                _ => None,
            };
            return responses::write_answer(config, &answer, gaps, out);
        }
    }

    /// So many packets of a READ response have arrived as a run.
    pub(crate) fn pass_run(&mut self, packets: u32) {
        self.responses.move_read(packets);
    }

    /// The QP fails at the end of this call (R87). Nothing that waits behind a gap is executed.
    fn fail(&mut self, reason: FlushReason, cx: &mut Context<'_>) {
        self.failure = Some(reason);
        self.drop_reorder_buffer(cx);
    }

    /// Reports a receive work request.
    #[inline]
    fn complete_recv<C: Copy + Into<Cause>>(
        &mut self,
        config: &QpConfig,
        wc: Wc<C>,
        solicited: bool,
        cx: &mut Context<'_>,
    ) {
        self.rcvd_messages += 1;
        let (success, bytes) = (wc.status == WcStatus::Success, u64::from(wc.byte_len));
        config.completion_counters.note(CountedOps::RECV, success, bytes);
        if !completion::report(self.receives.target().recv_cq, wc, solicited, cx) {
            self.failure.get_or_insert(FlushReason::CqOverflow);
        }
    }

    /// Reports a receive work request that failed.
    fn complete_failed_recv(
        &mut self,
        config: &QpConfig,
        wr_id: u64,
        status: WcStatus,
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        let wc = Wc {
            wr_id,
            status,
            opcode: WcOpcode::Recv,
            vendor_err: cause.code(),
            qpn: config.init.qpn.get(),
            cause,
            ..Wc::default()
        };
        self.complete_recv(config, wc, status != WcStatus::WrFlushErr, cx);
    }

    /// R87: every receive completes with a flush error; those of an SRQ stay there.
    pub(crate) fn flush(&mut self, config: &QpConfig, reason: FlushReason, cx: &mut Context<'_>) {
        self.message = None;
        self.drop_reorder_buffer(cx);
        // A refused request still gets its NAK, and what was executed before is answered. Where a completion was lost, the peer must
        // not take its message for delivered.
        if matches!(reason, FlushReason::ByModify | FlushReason::CqOverflow) {
            self.responses.clear();
            self.delayed_ack.clear();
        }
        delayed_ack::send(self, cx);
        // What is missing would not be taken any more.
        self.responses.retract_nak(self.expected, &self.replay);
        while let Some(wr_id) = self.receives.next_to_flush() {
            let cause = Cause::Flushed(reason);
            self.complete_failed_recv(config, wr_id, WcStatus::WrFlushErr, cause, cx);
        }
    }

    /// Gives back what was borrowed of the device, since the QP is reset, destroyed or has failed.
    pub(crate) fn release(&mut self, cx: &mut Context<'_>) {
        self.delayed_ack.clear();
        self.drop_reorder_buffer(cx);
        self.receives.give_back(cx);
    }

    /// The shared receive queue is being destroyed: a message that is on its way into it is cut short.
    pub(crate) fn forget_srq(&mut self, config: &QpConfig, id: SrqId) {
        if config.init.xrcd.is_some() && self.receives.target().srq == Some(id) {
            self.message = None;
            self.receives.release();
            self.receives.set_target(Target::of(&config.init));
        }
    }
}

/// Everything before `next` has been executed.
#[inline]
fn pass_to(responder: &mut Responder, next: Psn) {
    responder.replay.note_executed(responder.expected, next);
    responder.expected = next;
}
