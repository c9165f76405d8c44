//! The completer: responses and acknowledgements come in, work requests complete.

use uroce_wire::{DropReason, NakCode, Operation, Packet, Position, Psn, SyndromeKind};

use crate::cause::Cause;
use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::qp::requester::Requester;
use crate::qp::requester::emit::Failure;
use crate::qp::requester::send_queue::SendWqe;
use crate::time::Instant;
use crate::wc::WcStatus;

/// Why a response was not placed.
pub(crate) enum Misplaced {
    /// Nothing of its kind was asked for.
    Unexpected,
    /// It is not what was asked for.
    Bad(&'static str),
    /// The buffer cannot be written.
    Local(Failure),
}

impl Requester {
    /// Takes in a response of the peer.
    pub(crate) fn handle_response(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        if !self.is_outstanding(psn) {
            return self.drop_outside_window(packet, cx);
        }
        self.any_response = true;
        match packet.info.operation {
            Operation::ReadResponse => self.take_response(config, now, packet, cx),
            Operation::AtomicAcknowledge => self.handle_atomic_response(config, now, packet, cx),
            _ => self.handle_acknowledge(config, now, packet, cx),
        }
        if self.selective_repeat.is_under_way() {
            self.settle_early(config, now, cx);
        }
        self.wake();
    }

    /// R70, R72, A13: a response to nothing that is outstanding changes nothing.
    fn drop_outside_window(&mut self, packet: &Packet<'_>, cx: &mut Context<'_>) {
        let late = packet.bth.psn.since(self.una) < 0;
        let kind = packet.aeth().map(|aeth| aeth.syndrome.kind());
        cx.counters.drop(match (packet.info.operation, kind) {
            (Operation::Acknowledge, Some(SyndromeKind::Nak(_) | SyndromeKind::Rnr { .. })) => {
                DropReason::NakOutsideWindow
            }
            (Operation::Acknowledge, _) if late => DropReason::GhostAck,
            (Operation::ReadResponse | Operation::AtomicAcknowledge, _) if late => {
                DropReason::StaleResponse
            }
            _ => DropReason::UnexpectedResponse,
        });
    }

    fn handle_acknowledge(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        let Some(aeth) = packet.aeth() else { return };
        match aeth.syndrome.kind() {
            SyndromeKind::Ack { .. } => self.handle_ack(config, now, psn, cx),
            SyndromeKind::Rnr { timer } => {
                self.acknowledge_before(config, now, psn, cx);
                self.handle_rnr_nak(config, now, psn, timer, cx);
            }
            SyndromeKind::Nak(NakCode::PsnSequence) => {
                self.acknowledge_before(config, now, psn, cx);
                self.handle_sequence_nak(config, now, psn, cx);
            }
            SyndromeKind::Nak(code) => self.handle_fatal_nak(config, now, psn, code, cx),
            // R51, R74: reserved codes are ignored and counted.
            SyndromeKind::ReservedNak(_) | SyndromeKind::Reserved(_) => {
                cx.counters.drop(DropReason::ReservedSyndrome);
            }
        }
    }

    fn handle_ack(&mut self, config: &QpConfig, now: Instant, psn: Psn, cx: &mut Context<'_>) {
        if let Some(missing) = self.acknowledge(config, now, psn, cx) {
            let placement = self.send_queue.front().is_some_and(|wqe| wqe.op.is_placement());
            if placement && missing == psn {
                // A peer may answer ATOMIC WRITE and FLUSH with a plain ACK.
                return self.finish_response(config, now, psn, cx);
            }
            self.handle_implied_nak(config, now, psn.add(1));
        } else if self.selective_repeat.is_under_way() {
            self.check_selective_repeat(now, cx);
        }
    }

    /// Acknowledges what lies before `psn`. A missing response on the way is asked for again.
    fn acknowledge_before(
        &mut self,
        config: &QpConfig,
        now: Instant,
        psn: Psn,
        cx: &mut Context<'_>,
    ) {
        if psn != self.una && self.acknowledge(config, now, psn.sub(1), cx).is_some() {
            self.handle_implied_nak(config, now, psn);
        }
    }

    /// R46, R68: completes SENDs and WRITEs up to `upto`. Stops at a READ or atomic whose response
    /// has not arrived, and returns the PSN that is missing.
    pub(crate) fn acknowledge(
        &mut self,
        config: &QpConfig,
        now: Instant,
        upto: Psn,
        cx: &mut Context<'_>,
    ) -> Option<Psn> {
        let start = self.una;
        let mut missing = None;
        // Each round finishes one work request or reaches `upto`.
        while upto.since(self.una) >= 0 {
            let Some(wqe) = self.send_queue.front() else {
                break;
            };
            debug_assert!(wqe.numbered, "only what was sent is acknowledged");
            if wqe.needs_response() {
                missing = Some(self.una);
                break;
            }
            let last = wqe.last_psn();
            if upto.since(last) < 0 {
                self.una = upto.add(1);
                break;
            }
            self.una = last.add(1);
            self.finish_oldest(config, cx);
        }
        self.note_acknowledged(config, now, start);
        missing
    }

    /// Retires the oldest request, and those behind it that were done before.
    #[inline]
    fn finish_oldest(&mut self, config: &QpConfig, cx: &mut Context<'_>) {
        self.retire_oldest(config, cx);
        if self.send_queue.front().is_some_and(|wqe| wqe.done) {
            self.retire(config, cx);
        }
        self.wake();
    }

    /// Bookkeeping when the oldest unacknowledged PSN may have moved on from `start`.
    fn note_acknowledged(&mut self, config: &QpConfig, now: Instant, start: Psn) {
        let count = self.una.since(start).max(0) as u32;
        if count == 0 {
            return;
        }
        self.doubts.note_progress(self.una, count, self.next_new, now);
        self.note_progress(count);
        self.selective_repeat.note_progress(self.una, now);
        self.tail_probe.note_progress(self.una, now);
        self.skip_acknowledged();
        self.restart_ack_timer(config, now);
        if self.in_flight() {
            self.arm_tail_probe(config, now);
        } else {
            self.tail_probe.wait_anew();
        }
    }

    /// A request that was about to be sent again may have been acknowledged meanwhile.
    fn skip_acknowledged(&mut self) {
        let una = self.una;
        if self.psn.since(una) < 0 {
            self.point_at(una);
        }
    }

    /// A response that brings something: it is taken in if it is the oldest one that is missing, and
    /// placed if it comes before that.
    fn take_response(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        if psn != self.una && self.acknowledge(config, now, psn.sub(1), cx).is_some() {
            return self.take_early(config, now, packet, cx);
        }
        let Some(wqe) = self.send_queue.front() else {
            return;
        };
        match self.place_response(config, wqe, packet, cx) {
            Ok(()) => self.finish_response(config, now, psn, cx),
            Err(Misplaced::Unexpected) => cx.counters.drop(DropReason::UnexpectedResponse),
            Err(Misplaced::Bad(what)) => {
                let cause = Cause::BadResponse { psn, what };
                self.fail_oldest_send(config, WcStatus::BadRespErr, cause, cx);
            }
            Err(Misplaced::Local((status, cause))) => {
                self.fail_oldest_send(config, status, cause, cx)
            }
        }
    }

    /// Brings what a response carries to its place in the buffers of `wqe`. All checks come first.
    // Once for each packet of a READ: a call of its own costs as much as its checks.
    #[inline(always)]
    pub(crate) fn place_response(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Misplaced> {
        let atomic = packet.info.operation == Operation::AtomicAcknowledge;
        if !wqe.needs_response() || wqe.op.is_atomic() != atomic {
            return Err(Misplaced::Unexpected);
        }
        if atomic {
            let answer = packet.atomic_ack_eth().ok_or(Misplaced::Unexpected)?;
            // R34: big-endian on the wire, native in memory.
            let original = answer.original.to_ne_bytes();
            return self.scatter_response(config, wqe, 0, &original, cx).map_err(Misplaced::Local);
        }
        self.check_read_response(config, wqe, packet).map_err(Misplaced::Bad)?;
        let index = packet.bth.psn.since(wqe.first_psn).max(0) as u64;
        let offset = index * config.attr.path_mtu.bytes() as u64;
        self.scatter_response(config, wqe, offset, packet.payload(), cx).map_err(Misplaced::Local)
    }

    /// R48, R69: exactly the bytes asked for, in the right kind of packet.
    fn check_read_response(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        packet: &Packet<'_>,
    ) -> Result<(), &'static str> {
        let psn = packet.bth.psn;
        if wqe.op.is_placement() {
            let empty_only = packet.info.position == Position::Only && packet.payload().is_empty();
            return if empty_only { Ok(()) } else { Err("an empty READ RESPONSE ONLY was due") };
        }
        let mtu = config.attr.path_mtu.bytes() as u64;
        let offset = psn.since(wqe.first_psn).max(0) as u64 * mtu;
        let due = wqe.length.saturating_sub(offset).min(mtu);
        if packet.payload().len() as u64 != due {
            return Err("it does not have the length that was asked for");
        }
        let ends = self.read_piece_last(config, wqe, psn) == psn;
        if packet.info.ends() == ends {
            return Ok(());
        }
        // What is asked for again may end anywhere.
        if packet.info.ends() && self.selective_repeat.responses.may_be_asked_again(psn) {
            return Ok(());
        }
        Err("FIRST, MIDDLE and LAST are out of order")
    }

    fn handle_atomic_response(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        // B22: some responders send a NAK to an atomic under this opcode.
        let kind = packet.aeth().map(|aeth| aeth.syndrome.kind());
        if !matches!(kind, Some(SyndromeKind::Ack { .. })) {
            return self.handle_acknowledge(config, now, packet, cx);
        }
        self.take_response(config, now, packet, cx);
    }

    /// The response with PSN `psn`, the oldest outstanding one, has been taken in.
    fn finish_response(&mut self, config: &QpConfig, now: Instant, psn: Psn, cx: &mut Context<'_>) {
        debug_assert!(psn == self.una, "responses are taken in order");
        self.finish_responses(config, now, psn, cx);
    }

    /// The oldest outstanding responses up to `psn` have been taken in, all of one request.
    pub(crate) fn finish_responses(
        &mut self,
        config: &QpConfig,
        now: Instant,
        psn: Psn,
        cx: &mut Context<'_>,
    ) {
        let start = self.una;
        self.una = psn.add(1);
        while self.reads.front().is_some_and(|read| psn.since(read.last) >= 0) {
            self.reads.pop_front();
        }
        if self.send_queue.front().is_some_and(|wqe| wqe.last_psn() == psn) {
            self.finish_oldest(config, cx);
        }
        self.note_acknowledged(config, now, start);
    }

    /// R73: the request with this PSN failed for good.
    fn handle_fatal_nak(
        &mut self,
        config: &QpConfig,
        now: Instant,
        psn: Psn,
        code: NakCode,
        cx: &mut Context<'_>,
    ) {
        if psn != self.una && self.acknowledge(config, now, psn.sub(1), cx).is_some() {
            let oldest = self.send_queue.front();
            if oldest.is_none_or(|wqe| wqe.last_psn().since(psn) < 0) {
                return self.handle_implied_nak(config, now, psn);
            }
        }
        cx.counters.rcvd_fatal_nak += 1;
        let status = match code {
            NakCode::InvalidRequest | NakCode::InvalidRdRequest => WcStatus::RemInvReqErr,
            NakCode::RemoteAccess => WcStatus::RemAccessErr,
            NakCode::RemoteOperational | NakCode::PsnSequence => WcStatus::RemOpErr,
        };
        let peer = config.peer();
        self.fail_oldest_send(config, status, Cause::Refused { peer, psn, code }, cx);
    }
}
