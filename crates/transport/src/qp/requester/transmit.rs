//! What goes out next: window, fence, read depth, and the bookkeeping behind a packet.

use uroce_wire::Psn;

use crate::attr::{QpState, QpType};
use crate::cause::Cause;
use crate::context::{Context, Transmit};
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp::requester::ReadSlot;
use crate::qp::requester::Requester;
use crate::qp::requester::emit::Failure;
use crate::qp::requester::read_split::read_split;
use crate::qp::requester::segment::{Segment, carries_payload, takes_receive_only};
use crate::qp::requester::send_queue::SendWqe;
use crate::time::Instant;
use crate::wc::WcStatus;
use crate::wr::{SendFlags, SendOp};

impl Requester {
    #[inline]
    pub(crate) fn poll_request(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        self.suppresses_ack_requests = self.tail_probe.may_suppress_ack_request(now);
        if let Some(sent) = self.poll_small(config, now, out, cx) {
            return Some(sent);
        }
        self.poll_any_request(config, now, out, cx)
    }

    #[inline(never)]
    fn poll_any_request(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        // Each round passes one local operation, so the queue's length bounds the loop.
        for _ in 0..=self.send_queue.len() {
            if !matches!(config.state, QpState::Rts | QpState::Sqd) || self.rnr_until.is_some() {
                return None;
            }
            if self.selective_repeat.is_under_way() {
                let again = self.poll_selective_repeat(config, now, out, cx);
                let again = again.or_else(|| self.poll_missing(config, now, out, cx));
                if again.is_some() || self.selective_repeat.holds_others() {
                    return again;
                }
            }
            if let Some(sent) = self.poll_middle(config, now, out, cx) {
                return Some(sent);
            }
            let index = self.cursor;
            let wqe = self.send_queue.get(index)?;
            if !wqe.numbered && config.state == QpState::Sqd {
                return None;
            }
            if wqe.op.is_local() {
                if wqe.done {
                    // Met again after going back: it was done, and is not done twice.
                    self.cursor = index + 1;
                } else {
                    let wqe = *wqe;
                    self.run_local(config, index, &wqe, cx)?;
                }
                continue;
            }
            if let Err(failure) = config.check_possible(wqe) {
                return self.fail_if_oldest(config, index, failure, cx);
            }
            if !self.may_send(config, wqe) {
                return None;
            }
            self.number(config, index)?;
            return match self.emit_request(config, self.send_queue.get(index)?, out, cx) {
                Ok(transmit) => {
                    self.note_sent(config, now, index, cx);
                    Some(transmit)
                }
                Err(failure) => self.fail_if_oldest(config, index, failure, cx),
            };
        }
        None
    }

    /// R83: a local error shows when all earlier requests have completed.
    pub(crate) fn fail_if_oldest(
        &mut self,
        config: &QpConfig,
        index: usize,
        failure: Failure,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if index == 0 {
            cx.counters.send_err += 1;
            self.fail_oldest_send(config, failure.0, failure.1, cx);
        }
        None
    }

    /// The last PSN of the READ REQUEST that `psn` of `wqe` belongs to. Pieces lie at fixed places
    /// of the work request, so that a READ sent again stays inside the one it repeats (R58).
    pub(crate) fn read_piece_last(&self, config: &QpConfig, wqe: &SendWqe, psn: Psn) -> Psn {
        let index = psn.since(wqe.first_psn).max(0) as u32;
        let piece = read_split(config.attr.path_mtu);
        let last = index - index % piece + piece - 1;
        wqe.first_psn.add(last.min(wqe.psn_count.saturating_sub(1)))
    }

    /// Fence, read depth and window (R79, R80, R17).
    fn may_send(&self, config: &QpConfig, wqe: &SendWqe) -> bool {
        // A READ in several requests waits for others once, not for its own.
        let starts = !wqe.numbered || self.psn == wqe.first_psn;
        let fenced = starts && wqe.flags.contains(SendFlags::FENCE);
        if fenced && !self.reads.is_empty() {
            return false;
        }
        if !config.init.qp_type.is_reliable() {
            return true;
        }
        if wqe.needs_response() && self.reads.len() >= usize::from(config.attr.max_rd_atomic) {
            return false;
        }
        if !wqe.op.is_read() {
            return self.window_has_room(config, 1);
        }
        // A request for many responses cannot be divided: one of them does not wait for losses to be forgotten.
        let want = read_split(config.attr.path_mtu).min(self.psns_of(config, wqe));
        let alone = self.reads.is_empty();
        self.window_has_room(config, want)
            || alone && self.outstanding() + want <= self.widest_window(config)
    }

    /// May a request with so many PSNs go out? One always may when nothing is in flight.
    #[inline]
    pub(crate) fn window_has_room(&self, config: &QpConfig, want: u32) -> bool {
        let outstanding = self.outstanding();
        outstanding == 0 || outstanding + want <= self.window(config)
    }

    /// How many more PSNs may go out while others are in flight.
    pub(crate) fn window_room(&self, config: &QpConfig) -> u32 {
        self.window(config).saturating_sub(self.outstanding())
    }

    #[inline]
    fn window(&self, config: &QpConfig) -> u32 {
        let by_bytes = (limits::MAX_WINDOW_BYTES >> config.mtu_shift()) as u32;
        self.window.min(by_bytes)
    }

    /// The window of a QP that loses nothing.
    fn widest_window(&self, config: &QpConfig) -> u32 {
        limits::MAX_WINDOW.min((limits::MAX_WINDOW_BYTES >> config.mtu_shift()) as u32)
    }

    /// R18, R19: how many PSNs a request takes.
    fn psns_of(&self, config: &QpConfig, wqe: &SendWqe) -> u32 {
        if wqe.op.is_atomic() || wqe.op.is_placement() {
            return 1;
        }
        wqe.length.div_ceil(config.mtu()).max(1) as u32
    }

    /// Gives the request at `index` its PSNs if it has none yet.
    fn number(&mut self, config: &QpConfig, index: usize) -> Option<()> {
        let count = self.psns_of(config, self.send_queue.get(index)?);
        let first = self.psn;
        let wqe = self.send_queue.get_mut(index)?;
        if !wqe.numbered {
            debug_assert!(self.psn == self.next_new, "numbered in order");
            wqe.numbered = true;
            wqe.first_psn = first;
            wqe.psn_count = count;
        }
        Some(())
    }

    /// R82: the end of a message, a share of the window, or the last packet before it closes.
    pub(crate) fn wants_ack(&self, config: &QpConfig, wqe: &SendWqe, piece: &Segment) -> bool {
        piece.ends() && !self.spares_ack(config, wqe) || self.wants_ack_within(config)
    }

    /// Nobody waits for the completion of this message, and a later one will ask soon or a tail probe
    /// does (docs/adr/018-acks-nobody-waits-for.md).
    #[inline]
    pub(crate) fn spares_ack(&self, config: &QpConfig, wqe: &SendWqe) -> bool {
        self.suppresses_ack_requests
            && carries_payload(&wqe.op)
            && !config.is_signaled(wqe.flags)
            && self.psn == self.next_new
    }

    /// The same inside a message.
    #[inline]
    pub(crate) fn wants_ack_within(&self, config: &QpConfig) -> bool {
        self.wants_ack_behind(config, 1)
    }

    /// One of the next `packets` packets has to ask for an ACK; if they leave together, the last does.
    #[inline]
    pub(crate) fn wants_ack_behind(&self, config: &QpConfig, packets: u32) -> bool {
        let window = self.window(config);
        self.since_ack_request + packets >= (window / limits::ACKS_PER_WINDOW).max(1)
            || self.outstanding() + packets >= window
    }

    /// Bookkeeping behind a packet of the request at `index`.
    fn note_sent(&mut self, config: &QpConfig, now: Instant, index: usize, cx: &mut Context<'_>) {
        let Some(wqe) = self.send_queue.get(index) else {
            return;
        };
        let psn = self.psn;
        let last = if wqe.op.is_read() { self.read_piece_last(config, wqe, psn) } else { psn };
        let fresh = psn == self.next_new;
        let piece = Segment::of(wqe, psn, config.mtu());
        let asked = self.wants_ack(config, wqe, &piece);
        let middle = if piece.ends() { None } else { self.middle_behind(config, wqe, psn, &piece) };
        let (finished, answered) = (last == wqe.last_psn(), wqe.needs_response());
        if !fresh {
            cx.counters.retransmit(1, self.retransmission);
        } else if psn == wqe.first_psn && !takes_receive_only(&wqe.op) {
            cx.counters.rdma_sends += 1;
        }
        self.middle = middle;
        if answered {
            self.reads.push_back(ReadSlot { first: psn, last });
        }
        if asked && fresh && !self.selective_repeat.is_under_way() {
            self.tail_probe.note_asked(psn, now);
        }
        self.note_ack_request(asked);
        self.psn = last.add(1);
        if self.psn.since(self.next_new) > 0 {
            self.next_new = self.psn;
        }
        if finished {
            self.cursor = index + 1;
        }
        if config.init.qp_type.is_reliable() {
            self.arm_ack_timer(config, now);
        } else if finished {
            self.complete_unacknowledged(config, index, cx);
        }
    }

    /// UC and UD: a request is done when its last packet has left.
    fn complete_unacknowledged(&mut self, config: &QpConfig, index: usize, cx: &mut Context<'_>) {
        self.una = self.psn;
        if let Some(wqe) = self.send_queue.get_mut(index) {
            wqe.done = true;
        }
        self.retire(config, cx);
    }
}

impl QpConfig {
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
}
