//! The slow path of a requester: what goes out next, window, fence, read depth, and the bookkeeping behind a packet.

use uroce_memory::mutation::mutated;
use uroce_memory::{MemTable, MwBind};
use uroce_wire::{ICRC_LEN, Psn};

use super::emit::{Failure, RequestPacket};
use super::fast_path::Middle;
use super::segment::{Segment, takes_receive_only};
use super::send_queue::SendWqe;
use super::send_window::CongestionWindow;
use super::{ReadSlot, Requester};
use crate::attr::QpType;
use crate::cause::Cause;
use crate::context::{Context, Transmit};
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp_state::QpState;
use crate::time::Instant;
use crate::wc_status::WcStatus;
use crate::wr::{SendFlags, SendOp};

impl Requester {
    /// The next packet of whatever the fast path leaves.
    #[inline(never)]
    pub(super) fn poll_slow_path(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        // Each round passes one local operation, so the queue's length bounds the loop.
        for _ in 0..=self.send_queue.len() {
            if !matches!(config.state, QpState::Rts | QpState::Sqd) || self.rnr_wait.is_on() {
                return None;
            }
            if self.selective_repeat.is_under_way() {
                let again = self.poll_selective_repeat(config, now, out, cx);
                let again = again.or_else(|| self.poll_missing(config, now, out, cx));
                if again.is_some() || self.selective_repeat.holds_others() {
                    return again;
                }
            }
            let index = self.send_queue.cursor();
            let wqe = self.send_queue.get(index)?;
            // What is done stands between requests that were begun.
            if !wqe.numbered && !wqe.done && config.state == QpState::Sqd {
                return None;
            }
            if wqe.op.is_local() {
                if wqe.done {
                    // Met again after going back: it was done, and is not done twice.
                    self.send_queue.move_on();
                } else {
                    let wqe = *wqe;
                    self.run_local(config, index, &wqe, cx)?;
                }
                continue;
            }
            if let Err(failure) = check_possible(config, wqe) {
                return self.fail_if_oldest(config, index, failure, cx);
            }
            if !self.may_send(config, wqe) {
                return None;
            }
            return self.send_in_turn(config, now, index, out, cx);
        }
        None
    }

    /// Writes the next packet of the request at `index`.
    fn send_in_turn(
        &mut self,
        config: &QpConfig,
        now: Instant,
        index: usize,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let psn = self.psns.next();
        let split = self.window.read_split(config);
        self.send_queue.number(index, psn, config, split);
        let wqe = self.send_queue.get(index)?;
        let ends = Segment::of(wqe, psn, config.mtu()).ends();
        let spared = self.psns.sends_new() && self.ack_requests.spares(config, wqe);
        // R82: the end of a message, a share of the window, or the last packet before it closes.
        let ack_req = ends && !spared || self.wants_ack_within(1);
        match self.write_packet(config, wqe, psn, ack_req, out, cx) {
            Ok(transmit) => {
                self.note_sent(config, now, index, ack_req, cx);
                if mutated("unasked-completes") && ends && !ack_req {
                    self.acknowledge(config, now, psn, cx);
                }
                Some(transmit)
            }
            Err(failure) => self.fail_if_oldest(config, index, failure, cx),
        }
    }

    /// Writes the packet `psn` of `wqe`.
    pub(super) fn write_packet(
        &self,
        config: &QpConfig,
        wqe: &SendWqe,
        psn: Psn,
        ack_req: bool,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<Transmit, Failure> {
        let missing = &self.selective_repeat.responses;
        let read_last = missing.last_of_request(wqe, psn);
        let queue = &self.send_queue;
        let new = wqe.may_be_reordered() && psn == self.psns.next_new();
        let reserved7 = self.selective_repeat.announcement(psn, new);
        let packet = RequestPacket { config, queue, wqe, psn, ack_req, read_last, reserved7 };
        let written = packet.write(out, cx.mem)?;
        if mutated("resent-corrupted") && !self.psns.sends_new() {
            out[written.len - ICRC_LEN - 4] ^= 1;
        }
        Ok(written)
    }

    /// R83: a local error shows when all earlier requests have completed.
    pub(super) fn fail_if_oldest(
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

    /// Fence, read depth and window (R79, R80, R17).
    fn may_send(&self, config: &QpConfig, wqe: &SendWqe) -> bool {
        // A READ in several requests waits for others once, not for its own.
        let starts = !wqe.numbered || self.psns.next() == wqe.first_psn;
        let fenced = starts && wqe.flags.contains(SendFlags::FENCE);
        if fenced && !self.reads.is_empty() {
            return false;
        }
        if fenced
            && mutated("fence-hangs")
            && self.send_queue.front().is_some_and(|first| first.op.is_local())
        {
            return false;
        }
        if !config.init.qp_type.is_reliable() {
            return true;
        }
        if wqe.needs_response() && self.reads.len() >= usize::from(config.attr.max_rd_atomic) {
            return false;
        }
        let outstanding = self.psns.outstanding();
        if self.psns.must_resend() {
            return true;
        }
        if !wqe.op.is_read() {
            let new = self.psns.sends_new() && !wqe.needs_response();
            let asks = new
                && self.selective_repeat.may_ask_beyond_window()
                && self.window.reaches_beyond(outstanding);
            return asks || self.window.has_room(outstanding, 1);
        }
        // A request for many responses cannot be divided: one of them does not wait for losses to be forgotten.
        let split = if wqe.numbered { wqe.read_split } else { self.window.read_split(config) };
        let want = split.min(wqe.psns_needed(config.mtu()));
        let widest = CongestionWindow::of_short_path(config.mtu_shift());
        let alone = self.reads.is_empty();
        // A request is on its way for as long as its first response: it leaves before the others have all been answered.
        let ahead = widest + widest / limits::READ_AHEAD_SHARE;
        let early = self.window.packets() >= widest && outstanding + want <= ahead;
        early || self.window.has_room(outstanding, want) || alone && outstanding + want <= widest
    }

    /// Bookkeeping behind a packet of the request at `index`.
    fn note_sent(
        &mut self,
        config: &QpConfig,
        now: Instant,
        index: usize,
        asked: bool,
        cx: &mut Context<'_>,
    ) {
        let Some(wqe) = self.send_queue.get(index) else {
            return;
        };
        let psn = self.psns.next();
        let last = wqe.last_of_request(psn);
        let fresh = self.psns.sends_new();
        let finished = last == wqe.last_psn();
        if fresh && wqe.may_be_reordered() && self.selective_repeat.is_under_way() {
            let had_room = self.window.has_room(self.psns.outstanding(), 1);
            self.selective_repeat.note_new(had_room);
        }
        if !fresh {
            cx.counters.retransmit(1, self.retransmission);
        } else if psn == wqe.first_psn && !takes_receive_only(&wqe.op) {
            cx.counters.rdma_sends += 1;
        }
        self.middle =
            if finished { None } else { Middle::behind(config, &self.send_queue, wqe, psn) };
        if wqe.needs_response() {
            self.reads.push_back(ReadSlot { first: psn, last });
        }
        if asked && fresh && !self.selective_repeat.is_under_way() {
            self.tail_probe.note_asked(psn, now);
        }
        if self.ack_requests.note_in_turn(asked, self.psns.outstanding()) {
            self.tail_probe.wait_anew();
        }
        self.psns.note_sent(last.add(1));
        if finished {
            self.send_queue.move_on();
        }
        if config.init.qp_type.is_reliable() {
            self.arm_ack_timer(config, now);
        } else if finished {
            // UC and UD: a request is done when its last packet has left.
            self.psns.acknowledge(self.psns.next().sub(1));
            if let Some(wqe) = self.send_queue.get_mut(index) {
                wqe.done = true;
            }
            if self.send_queue.oldest_is_done() {
                self.retire(config, cx);
            }
        }
    }

    /// Does an operation that needs no packet. `None`: not yet, or the QP has failed.
    fn run_local(
        &mut self,
        config: &QpConfig,
        index: usize,
        wqe: &SendWqe,
        cx: &mut Context<'_>,
    ) -> Option<()> {
        let fenced = wqe.flags.contains(SendFlags::FENCE) && !self.reads.is_empty();
        // A local invalidate waits until every earlier request completed (R80, section 8.2).
        let invalidates = matches!(wqe.op, SendOp::LocalInvalidate(_));
        if fenced || (invalidates && index != 0) {
            return None;
        }
        if config.init.qp_type == QpType::Ud {
            let cause = Cause::NotOnThisQp { qp_type: config.init.qp_type.name() };
            self.fail_if_oldest(config, index, (WcStatus::LocQpOpErr, cause), cx);
            return None;
        }
        match execute_local(config, &wqe.op, cx.mem) {
            Ok(()) => {
                self.send_queue.move_on();
                self.send_queue.get_mut(index)?.done = true;
                let hangs = mutated("fence-hangs") && !config.is_signaled(wqe.flags);
                if self.send_queue.oldest_is_done() && !hangs {
                    self.retire(config, cx);
                }
                Some(())
            }
            Err(failure) => {
                self.fail_if_oldest(config, index, failure, cx);
                None
            }
        }
    }
}

/// Is this an operation that the QP can do at all (B35)?
fn check_possible(config: &QpConfig, wqe: &SendWqe) -> Result<(), Failure> {
    let qp_type = config.init.qp_type;
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
    if wqe.needs_response() && config.attr.max_rd_atomic == 0 {
        return Err((WcStatus::LocQpOpErr, Cause::NoReadDepth));
    }
    let max = config.init.port_mtu.bytes() as u64;
    if qp_type == QpType::Ud && wqe.length > max {
        // R84: rxe reports success and sends nothing; the user should know.
        return Err((WcStatus::LocLenErr, Cause::TooLong { length: wqe.length, max }));
    }
    Ok(())
}

fn execute_local(config: &QpConfig, op: &SendOp, mem: &mut MemTable) -> Result<(), Failure> {
    let qpn = config.init.qpn.get();
    match *op {
        SendOp::LocalInvalidate(rkey) => mem
            .invalidate(rkey, config.init.pd, qpn, false)
            .map_err(|e| (WcStatus::MwBindErr, Cause::Invalidate(e))),
        SendOp::BindMw { mw, new_rkey, mr, va, length, access } => mem
            .bind_mw(&MwBind { mw, mr, new_rkey, va, length, access, pd: config.init.pd, qpn })
            .map(|_| ())
            .map_err(|e| (WcStatus::MwBindErr, Cause::Bind(e))),
        _ => Ok(()),
    }
}
