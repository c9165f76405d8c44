//! How a queue pair fails: the error states, and the flush of both queues.

use uroce_wire::DropReason;

use crate::cause::FlushReason;
use crate::context::Context;
use crate::event::AsyncEvent;
use crate::qp::QueuePair;
use crate::qp_state::QpState;

impl QueuePair {
    /// Something failed in this call, or SQD waits for what was begun.
    #[cold]
    pub(super) fn settle_rare(&mut self, cx: &mut Context<'_>) {
        let failures = [self.requester.take_failure(), self.responder.take_failure()];
        for reason in failures.into_iter().flatten() {
            let sends_only = matches!(reason, FlushReason::SendFailed { .. })
                && !self.config.init.qp_type.is_reliable();
            match self.config.state {
                QpState::Err => {}
                _ if sends_only => {
                    // UC and UD; the requester has flushed its queue.
                    self.config.state = QpState::Sqe;
                    self.flush_reason = reason;
                }
                _ => self.fail(reason, cx),
            }
        }
        report_drained(self, cx);
    }

    /// Puts the QP into the error state and flushes it (R87).
    pub(super) fn fail(&mut self, reason: FlushReason, cx: &mut Context<'_>) {
        self.config.state = QpState::Err;
        self.flush(reason, cx);
    }

    /// Flushes both queues. What was executed is answered, and a refused request still gets its NAK.
    pub(super) fn flush(&mut self, reason: FlushReason, cx: &mut Context<'_>) {
        self.flush_reason = reason;
        self.requester.flush(&self.config, reason, cx);
        self.responder.flush(&self.config, reason, cx);
        if self.config.init.srq.is_some() && !self.last_wqe_reported {
            // R89: with an SRQ the application learns once that no more receives will be taken.
            self.last_wqe_reported = true;
            cx.events.push(AsyncEvent::QpLastWqeReached(self.config.init.qpn));
        }
    }

    /// Before destroy: nothing of this QP may complete, answer or touch memory any more (R93).
    pub fn release(&mut self, cx: &mut Context<'_>) {
        if !self.responder.responses().is_empty() {
            cx.counters.drop(DropReason::QpState);
        }
        cx.events.forget_qp(self.config.init.qpn);
        self.responder.release(cx);
        *self = super::blank(&self.config.init);
    }
}

/// Raises SQ_DRAINED once nothing that was begun is unfinished. Between the pieces of a long
/// request nothing may be in flight for a moment.
fn report_drained(qp: &mut QueuePair, cx: &mut Context<'_>) {
    if qp.config.state != QpState::Sqd || qp.drained_reported || qp.is_draining() {
        return;
    }
    qp.drained_reported = true;
    if qp.config.attr.en_sqd_async_notify {
        cx.events.push(AsyncEvent::SqDrained(qp.config.init.qpn));
    }
}
