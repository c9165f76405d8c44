//! What goes out next: window, fence, read depth, and the bookkeeping behind a packet.

use uroce_wire::Psn;

use crate::attr::{QpState, QpType};
use crate::cause::Cause;
use crate::context::{Context, Transmit};
use crate::limits;
use crate::qp::QueuePair;
use crate::qp::emit::Failure;
use crate::qp::read_split::read_split;
use crate::qp::requester::ReadSlot;
use crate::qp::segment::{Segment, carries_payload, takes_receive_only};
use crate::qp::send_queue::SendWqe;
use crate::time::Instant;
use crate::wc::WcStatus;
use crate::wr::{SendFlags, SendOp};

impl QueuePair {
    /// Writes the next packet into `out`, which offers at least [`limits::MAX_PACKET`] bytes.
    /// `None`: nothing to send now. Answers leave before requests: a peer's application sees its request complete
    /// before it sees what was sent in reply, as with a NIC.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        self.poll(now, out, cx, true)
    }

    /// [`poll_transmit`](Self::poll_transmit), but a plain ACK that waits goes on waiting while there is no request:
    /// it may then leave together with what the application answers.
    pub fn poll_pressing(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let respond = self.awake || !self.responder.only_ack_waits();
        self.poll(now, out, cx, respond)
    }

    /// The answers of [`poll_transmit`](Self::poll_transmit) alone, while requests have to wait; with
    /// `patient`, a plain ACK also.
    pub fn poll_answer(
        &mut self,
        now: Instant,
        patient: bool,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let awake = std::mem::take(&mut self.awake);
        let respond = patient || !self.responder.only_ack_waits();
        let sent = self.poll(now, out, cx, respond);
        self.awake |= awake;
        sent
    }

    fn poll(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
        respond: bool,
    ) -> Option<Transmit> {
        if out.len() < limits::MAX_PACKET {
            return None;
        }
        let retransmitted = cx.counters.retransmitted_pkts;
        let answers = respond && self.responder.wants_transmit();
        let mut sent = if answers { self.poll_response(now, out, cx) } else { None };
        if sent.is_none() && self.awake {
            sent = self.poll_request(now, out, cx);
            self.awake = sent.is_some() || self.requester.selective_repeat.take_pause();
        }
        self.settle(now, cx);
        if let Some(transmit) = &sent {
            cx.counters.sent_pkts += 1;
            cx.counters.sent_bytes += transmit.len as u64;
            self.traffic.sent_bytes += transmit.len as u64;
            self.traffic.retransmitted_pkts += cx.counters.retransmitted_pkts - retransmitted;
        }
        sent
    }

    #[inline]
    fn poll_request(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        self.requester.suppresses_ack_requests =
            self.requester.tail_probe.may_suppress_ack_request(now);
        if let Some(sent) = self.poll_small(now, out, cx) {
            return Some(sent);
        }
        self.poll_any_request(now, out, cx)
    }

    #[inline(never)]
    fn poll_any_request(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        // Each round passes one local operation, so the queue's length bounds the loop.
        for _ in 0..=self.send_queue.len() {
            if !matches!(self.state, QpState::Rts | QpState::Sqd)
                || self.requester.rnr_until.is_some()
            {
                return None;
            }
            if self.requester.selective_repeat.is_under_way() {
                let again = self.poll_selective_repeat(now, out, cx);
                let again = again.or_else(|| self.poll_missing(now, out, cx));
                if again.is_some() || self.requester.selective_repeat.holds_others() {
                    return again;
                }
            }
            if let Some(sent) = self.poll_middle(now, out, cx) {
                return Some(sent);
            }
            let index = self.requester.cursor;
            let wqe = self.send_queue.get(index)?;
            if !wqe.numbered && self.state == QpState::Sqd {
                return None;
            }
            if wqe.op.is_local() {
                if wqe.done {
                    // Met again after going back: it was done, and is not done twice.
                    self.requester.cursor = index + 1;
                } else {
                    let wqe = *wqe;
                    self.run_local(now, index, &wqe, cx)?;
                }
                continue;
            }
            if let Err(failure) = self.check_possible(wqe) {
                return self.fail_if_oldest(now, index, failure, cx);
            }
            if !self.may_send(wqe) {
                return None;
            }
            self.number(index)?;
            return match self.emit_request(self.send_queue.get(index)?, out, cx) {
                Ok(transmit) => {
                    self.note_sent(now, index, cx);
                    Some(transmit)
                }
                Err(failure) => self.fail_if_oldest(now, index, failure, cx),
            };
        }
        None
    }

    /// R83: a local error shows when all earlier requests have completed.
    pub(crate) fn fail_if_oldest(
        &mut self,
        now: Instant,
        index: usize,
        failure: Failure,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if index == 0 {
            cx.counters.send_err += 1;
            self.fail_oldest_send(now, failure.0, failure.1, cx);
        }
        None
    }

    /// Is this an operation that the QP can do at all (B35)?
    fn check_possible(&self, wqe: &SendWqe) -> Result<(), Failure> {
        let qp_type = self.init.qp_type;
        let possible = match wqe.op {
            SendOp::Send | SendOp::SendWithImm(_) => true,
            SendOp::Write { .. } | SendOp::WriteWithImm { .. } => qp_type != QpType::Ud,
            _ => qp_type.is_reliable(),
        };
        if !possible {
            let cause = Cause::NotOnThisQp { qp_type: qp_type.name() };
            return Err((WcStatus::LocQpOpErr, cause));
        }
        let exactly_8 = wqe.op.is_atomic() || matches!(wqe.op, SendOp::AtomicWrite { .. });
        if exactly_8 && wqe.length != 8 {
            return Err((WcStatus::LocLenErr, Cause::AtomicLength { length: wqe.length }));
        }
        if wqe.needs_response() && self.attr.max_rd_atomic == 0 {
            return Err((WcStatus::LocQpOpErr, Cause::NoReadDepth));
        }
        let max = self.init.port_mtu.bytes() as u64;
        if qp_type == QpType::Ud && wqe.length > max {
            // R84: rxe reports success and sends nothing; the user should know.
            return Err((WcStatus::LocLenErr, Cause::TooLong { length: wqe.length, max }));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn mtu(&self) -> u64 {
        match self.init.qp_type {
            QpType::Ud => self.init.port_mtu.bytes() as u64,
            _ => self.attr.path_mtu.bytes() as u64,
        }
    }

    /// The path MTU as a power of two.
    pub(crate) fn mtu_shift(&self) -> u32 {
        self.mtu().trailing_zeros()
    }

    /// The last PSN of the READ REQUEST that `psn` of `wqe` belongs to. Pieces lie at fixed places
    /// of the work request, so that a READ sent again stays inside the one it repeats (R58).
    pub(crate) fn read_piece_last(&self, wqe: &SendWqe, psn: Psn) -> Psn {
        let index = psn.since(wqe.first_psn).max(0) as u32;
        let piece = read_split(self.attr.path_mtu);
        let last = index - index % piece + piece - 1;
        wqe.first_psn.add(last.min(wqe.psn_count.saturating_sub(1)))
    }

    /// Fence, read depth and window (R79, R80, R17).
    fn may_send(&self, wqe: &SendWqe) -> bool {
        // A READ in several requests waits for others once, not for its own.
        let starts = !wqe.numbered || self.requester.psn == wqe.first_psn;
        let fenced = starts && wqe.flags.contains(SendFlags::FENCE);
        if fenced && !self.requester.reads.is_empty() {
            return false;
        }
        if !self.init.qp_type.is_reliable() {
            return true;
        }
        if wqe.needs_response()
            && self.requester.reads.len() >= usize::from(self.attr.max_rd_atomic)
        {
            return false;
        }
        if !wqe.op.is_read() {
            return self.window_has_room(1);
        }
        // A request for many responses cannot be divided: one of them does not wait for losses to be forgotten.
        let want = read_split(self.attr.path_mtu).min(self.psns_of(wqe));
        let alone = self.requester.reads.is_empty();
        self.window_has_room(want)
            || alone && self.requester.outstanding() + want <= self.widest_window()
    }

    /// May a request with so many PSNs go out? One always may when nothing is in flight.
    #[inline]
    pub(crate) fn window_has_room(&self, want: u32) -> bool {
        let outstanding = self.requester.outstanding();
        outstanding == 0 || outstanding + want <= self.window()
    }

    /// How many more PSNs may go out while others are in flight.
    pub(crate) fn window_room(&self) -> u32 {
        self.window().saturating_sub(self.requester.outstanding())
    }

    #[inline]
    fn window(&self) -> u32 {
        let by_bytes = (limits::MAX_WINDOW_BYTES >> self.mtu_shift()) as u32;
        self.requester.window.min(by_bytes)
    }

    /// The window of a QP that loses nothing.
    fn widest_window(&self) -> u32 {
        limits::MAX_WINDOW.min((limits::MAX_WINDOW_BYTES >> self.mtu_shift()) as u32)
    }

    /// R18, R19: how many PSNs a request takes.
    fn psns_of(&self, wqe: &SendWqe) -> u32 {
        if wqe.op.is_atomic() || wqe.op.is_placement() {
            return 1;
        }
        wqe.length.div_ceil(self.mtu()).max(1) as u32
    }

    /// Gives the request at `index` its PSNs if it has none yet.
    fn number(&mut self, index: usize) -> Option<()> {
        let count = self.psns_of(self.send_queue.get(index)?);
        let first = self.requester.psn;
        let wqe = self.send_queue.get_mut(index)?;
        if !wqe.numbered {
            debug_assert!(self.requester.psn == self.requester.next_new, "numbered in order");
            wqe.numbered = true;
            wqe.first_psn = first;
            wqe.psn_count = count;
        }
        Some(())
    }

    /// R82: the end of a message, a share of the window, or the last packet before it closes.
    pub(crate) fn wants_ack(&self, wqe: &SendWqe, piece: &Segment) -> bool {
        piece.ends() && !self.spares_ack(wqe) || self.wants_ack_within()
    }

    /// Nobody waits for the completion of this message, and a later one will ask soon or a tail probe
    /// does (docs/adr/018-acks-nobody-waits-for.md).
    #[inline]
    pub(crate) fn spares_ack(&self, wqe: &SendWqe) -> bool {
        self.requester.suppresses_ack_requests
            && carries_payload(&wqe.op)
            && !self.is_signaled(wqe.flags)
            && self.requester.psn == self.requester.next_new
    }

    /// The same inside a message.
    #[inline]
    pub(crate) fn wants_ack_within(&self) -> bool {
        self.wants_ack_behind(1)
    }

    /// One of the next `packets` packets has to ask for an ACK; if they leave together, the last does.
    #[inline]
    pub(crate) fn wants_ack_behind(&self, packets: u32) -> bool {
        let window = self.window();
        self.requester.since_ack_request + packets >= (window / limits::ACKS_PER_WINDOW).max(1)
            || self.requester.outstanding() + packets >= window
    }

    /// Bookkeeping behind a packet of the request at `index`.
    fn note_sent(&mut self, now: Instant, index: usize, cx: &mut Context<'_>) {
        let Some(wqe) = self.send_queue.get(index) else {
            return;
        };
        let psn = self.requester.psn;
        let last = if wqe.op.is_read() { self.read_piece_last(wqe, psn) } else { psn };
        let fresh = psn == self.requester.next_new;
        let piece = Segment::of(wqe, psn, self.mtu());
        let asked = self.wants_ack(wqe, &piece);
        let middle = if piece.ends() { None } else { self.middle_behind(wqe, psn, &piece) };
        let (finished, answered) = (last == wqe.last_psn(), wqe.needs_response());
        if !fresh {
            cx.counters.retransmit(1, self.requester.retransmission);
        } else if psn == wqe.first_psn && !takes_receive_only(&wqe.op) {
            cx.counters.rdma_sends += 1;
        }
        let requester = &mut self.requester;
        requester.middle = middle;
        if answered {
            requester.reads.push_back(ReadSlot { first: psn, last });
        }
        if asked && fresh && !requester.selective_repeat.is_under_way() {
            requester.tail_probe.note_asked(psn, now);
        }
        requester.note_ack_request(asked);
        requester.psn = last.add(1);
        if requester.psn.since(requester.next_new) > 0 {
            requester.next_new = requester.psn;
        }
        if finished {
            requester.cursor = index + 1;
        }
        if self.init.qp_type.is_reliable() {
            self.arm_ack_timer(now);
        } else if finished {
            self.complete_unacknowledged(index, cx);
        }
    }

    /// UC and UD: a request is done when its last packet has left.
    fn complete_unacknowledged(&mut self, index: usize, cx: &mut Context<'_>) {
        self.requester.una = self.requester.psn;
        if let Some(wqe) = self.send_queue.get_mut(index) {
            wqe.done = true;
        }
        self.retire(cx);
    }
}
