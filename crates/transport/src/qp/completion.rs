//! Completions: one per work request, in order, and the flush when a queue pair fails.

use uroce_wire::DropReason;

use crate::attr::QpState;
use crate::cause::{Cause, FlushReason};
use crate::context::Context;
use crate::cq::CompletionQueue;
use crate::event::AsyncEvent;
use crate::qp::QueuePair;
use crate::qp::send_queue::Retired;
use crate::recv_queue::RecvWqe;
use crate::time::Instant;
use crate::wc::{Wc, WcFlags, WcStatus};
use crate::wr::SendFlags;

impl QueuePair {
    /// R67: completes requests from the oldest on, as far as they are done.
    pub(crate) fn retire(&mut self, cx: &mut Context<'_>) {
        while self.send_queue.front().is_some_and(|wqe| wqe.done) {
            self.retire_oldest(cx);
        }
        self.wake();
    }

    /// The oldest request is done, and leaves its queue.
    #[inline(always)]
    pub(crate) fn retire_oldest(&mut self, cx: &mut Context<'_>) {
        let Some(wqe) = self.send_queue.front() else {
            return;
        };
        self.requester.cursor = self.requester.cursor.saturating_sub(1);
        self.traffic.sent_messages += 1;
        if !self.is_signaled(wqe.flags) {
            return self.send_queue.drop_front();
        }
        if let Some(sent) = self.send_queue.pop() {
            self.complete_send(&sent, WcStatus::Success, Cause::None, cx);
        }
    }

    /// The application wants to hear of the success of a request with these flags, too.
    #[inline]
    pub(crate) fn is_signaled(&self, flags: SendFlags) -> bool {
        self.init.signal_all || flags.contains(SendFlags::SIGNALED)
    }

    fn complete_send(
        &mut self,
        sent: &Retired,
        status: WcStatus,
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        let wc = Wc {
            wr_id: sent.wr_id,
            status,
            opcode: sent.opcode,
            vendor_err: cause.code(),
            byte_len: sent.length.min(u64::from(u32::MAX)) as u32,
            qpn: self.init.qpn.get(),
            cause,
            ..Wc::default()
        };
        if cx.cqs.push(self.init.send_cq, wc, false).is_err() {
            self.note_overflow(self.init.send_cq, cx);
        }
    }

    /// Reports a receive work request.
    #[inline]
    pub(crate) fn complete_recv(&mut self, wc: Wc, solicited: bool, cx: &mut Context<'_>) {
        let cq = self.responder.recv_cq();
        self.traffic.rcvd_messages += 1;
        if cx.cqs.push(cq, wc, solicited).is_err() {
            self.note_overflow(cq, cx);
        }
    }

    #[cold]
    fn note_overflow(&mut self, cq: crate::cq::CqId, cx: &mut Context<'_>) {
        cx.counters.lost_completions += 1;
        self.cq_broken = true;
        if cx.cqs.get_mut(cq).is_some_and(CompletionQueue::take_overflow) {
            cx.events.push(AsyncEvent::CqErr(cq));
        }
    }

    /// The oldest send work request fails. RC and XRC go to ERR (R73, R83), UC and UD go to SQE.
    pub(crate) fn fail_oldest_send(
        &mut self,
        now: Instant,
        status: WcStatus,
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        let Some(failed) = self.send_queue.pop() else {
            return;
        };
        self.requester.cursor = self.requester.cursor.saturating_sub(1);
        self.complete_send(&failed, status, cause, cx);
        let reason = FlushReason::SendFailed { wr_id: failed.wr_id, status };
        if self.init.qp_type.is_reliable() {
            self.fail_queue_pair(now, reason, cx);
        } else {
            self.state = QpState::Sqe;
            self.flush_reason = reason;
            self.flush_sends(cx);
        }
    }

    /// Puts the QP into the error state and flushes it (R87).
    pub(crate) fn fail_queue_pair(
        &mut self,
        now: Instant,
        reason: FlushReason,
        cx: &mut Context<'_>,
    ) {
        self.state = QpState::Err;
        self.flush_all(now, reason, cx);
    }

    /// Flushes both queues. A refused request still gets its NAK, and what was answered before it.
    pub(crate) fn flush_all(&mut self, _now: Instant, reason: FlushReason, cx: &mut Context<'_>) {
        self.flush_reason = reason;
        self.drop_reorder_buffer(cx);
        self.requester.ack_deadline = None;
        self.requester.rnr_until = None;
        if !matches!(reason, FlushReason::PeerViolation { .. } | FlushReason::RecvFailed { .. }) {
            self.responder.forget_answers();
        }
        self.flush_sends(cx);
        self.flush_receives(cx);
        self.report_last_wqe(cx);
    }

    /// R87, R88: every send that waits completes with a flush error, signalled or not, also a
    /// window that was bound ahead of its turn: after the first failure nothing succeeds.
    pub(crate) fn flush_sends(&mut self, cx: &mut Context<'_>) {
        let cause = Cause::Flushed(self.flush_reason);
        while let Some(flushed) = self.send_queue.pop() {
            self.complete_send(&flushed, WcStatus::WrFlushErr, cause, cx);
        }
        self.send_queue.clear();
        let next = self.requester.next_new;
        self.requester.start(next);
    }

    /// R87: every receive completes with a flush error; those of an SRQ stay there.
    pub(crate) fn flush_receives(&mut self, cx: &mut Context<'_>) {
        if let Some(wr_id) = self.responder.release_receive() {
            self.flush_receive(wr_id, cx);
        }
        let mut wqe = RecvWqe::default();
        while self.recv_queue.pop(&mut wqe) {
            self.flush_receive(wqe.wr_id, cx);
        }
    }

    fn flush_receive(&mut self, wr_id: u64, cx: &mut Context<'_>) {
        let cause = Cause::Flushed(self.flush_reason);
        let wc = Wc {
            wr_id,
            status: WcStatus::WrFlushErr,
            opcode: crate::wc::WcOpcode::Recv,
            vendor_err: cause.code(),
            qpn: self.init.qpn.get(),
            flags: WcFlags::empty(),
            cause,
            ..Wc::default()
        };
        self.complete_recv(wc, false, cx);
    }

    /// R89: with an SRQ the application learns once that no more receives will be taken.
    fn report_last_wqe(&mut self, cx: &mut Context<'_>) {
        if self.init.srq.is_some() && !self.last_wqe_reported {
            self.last_wqe_reported = true;
            cx.events.push(AsyncEvent::QpLastWqeReached(self.init.qpn));
        }
    }

    /// Before destroy: nothing of this QP may complete, answer or touch memory any more (R93).
    pub fn release(&mut self, cx: &mut Context<'_>) {
        if self.responder.wants_transmit() {
            cx.counters.drop(DropReason::QpState);
        }
        cx.events.forget_qp(self.init.qpn);
        self.drop_reorder_buffer(cx);
        self.give_receive_back(cx);
        *self = QueuePair::blank(&self.init);
    }
}
