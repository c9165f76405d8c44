//! Completions: one per work request, in order, and the flush when a queue pair fails.

use crate::cause::{Cause, FlushReason};
use crate::context::Context;
use crate::qp::completion;
use crate::qp::config::QpConfig;
use crate::qp::requester::Requester;
use crate::qp::requester::send_queue::Retired;
use crate::wc::{Wc, WcStatus};

impl Requester {
    /// R67: completes requests from the oldest on, as far as they are done.
    pub(crate) fn retire(&mut self, config: &QpConfig, cx: &mut Context<'_>) {
        while self.send_queue.front().is_some_and(|wqe| wqe.done) {
            self.retire_oldest(config, cx);
        }
        self.wake();
    }

    /// The oldest request is done, and leaves its queue.
    #[inline(always)]
    pub(crate) fn retire_oldest(&mut self, config: &QpConfig, cx: &mut Context<'_>) {
        let Some(wqe) = self.send_queue.front() else {
            return;
        };
        self.cursor = self.cursor.saturating_sub(1);
        self.sent_messages += 1;
        if !config.is_signaled(wqe.flags) {
            return self.send_queue.drop_front();
        }
        if let Some(sent) = self.send_queue.pop() {
            self.complete_send(config, &sent, WcStatus::Success, Cause::None, cx);
        }
    }

    fn complete_send(
        &mut self,
        config: &QpConfig,
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
            qpn: config.init.qpn.get(),
            cause,
            ..Wc::default()
        };
        let stored = completion::report(config.init.send_cq, wc, false, cx);
        // A failure of a reliable QP is the stronger reason: it has taken the QP down already.
        if !stored && (self.failure.is_none() || !config.init.qp_type.is_reliable()) {
            self.failure = Some(FlushReason::CqOverflow);
        }
    }

    /// The oldest send work request fails. RC and XRC go to ERR (R73, R83), UC and UD go to SQE.
    pub(crate) fn fail_oldest_send(
        &mut self,
        config: &QpConfig,
        status: WcStatus,
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        let Some(failed) = self.send_queue.pop() else {
            return;
        };
        self.cursor = self.cursor.saturating_sub(1);
        self.complete_send(config, &failed, status, cause, cx);
        let reason = FlushReason::SendFailed { wr_id: failed.wr_id, status };
        if config.init.qp_type.is_reliable() || self.failure.is_none() {
            self.failure = Some(reason);
        }
        self.flush(config, reason, cx);
    }

    /// R87, R88: every send that waits completes with a flush error, signalled or not, also a
    /// window that was bound ahead of its turn: after the first failure nothing succeeds.
    pub(crate) fn flush(&mut self, config: &QpConfig, reason: FlushReason, cx: &mut Context<'_>) {
        let cause = Cause::Flushed(reason);
        self.ack_deadline = None;
        self.rnr_until = None;
        while let Some(flushed) = self.send_queue.pop() {
            self.complete_send(config, &flushed, WcStatus::WrFlushErr, cause, cx);
        }
        self.send_queue.clear();
        let next = self.next_new;
        self.start(next);
    }
}
