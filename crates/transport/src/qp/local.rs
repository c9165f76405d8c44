//! Operations that are done inside the device, without a packet.

use uroce_memory::MwBind;

use crate::attr::QpType;
use crate::cause::Cause;
use crate::context::Context;
use crate::qp::QueuePair;
use crate::qp::emit::Failure;
use crate::qp::send_queue::SendWqe;
use crate::time::Instant;
use crate::wc::WcStatus;
use crate::wr::{SendFlags, SendOp};

impl QueuePair {
    /// Does an operation that needs no packet. `None`: not yet, or the QP has failed.
    pub(crate) fn run_local(
        &mut self,
        now: Instant,
        index: usize,
        wqe: &SendWqe,
        cx: &mut Context<'_>,
    ) -> Option<()> {
        let fenced = wqe.flags.contains(SendFlags::FENCE) && !self.requester.reads.is_empty();
        // A local invalidate waits until every earlier request completed (R80, section 8.2).
        let invalidates = matches!(wqe.op, SendOp::LocalInvalidate(_));
        if fenced || (invalidates && index != 0) {
            return None;
        }
        if self.init.qp_type == QpType::Ud {
            let cause = Cause::NotOnThisQp { qp_type: self.init.qp_type.name() };
            self.fail_if_oldest(now, index, (WcStatus::LocQpOpErr, cause), cx);
            return None;
        }
        match self.execute_local(&wqe.op, cx) {
            Ok(()) => {
                self.requester.cursor = index + 1;
                self.send_queue.get_mut(index)?.done = true;
                self.retire(cx);
                Some(())
            }
            Err(failure) => {
                self.fail_if_oldest(now, index, failure, cx);
                None
            }
        }
    }

    fn execute_local(&self, op: &SendOp, cx: &mut Context<'_>) -> Result<(), Failure> {
        let qpn = self.init.qpn.get();
        match *op {
            SendOp::LocalInvalidate(rkey) => cx
                .mem
                .invalidate(rkey, self.init.pd, qpn, false)
                .map_err(|e| (WcStatus::MwBindErr, Cause::Invalidate(e))),
            SendOp::BindMw { mw, new_rkey, mr, va, length, access } => cx
                .mem
                .bind_mw(&MwBind { mw, mr, new_rkey, va, length, access, pd: self.init.pd, qpn })
                .map(|_| ())
                .map_err(|e| (WcStatus::MwBindErr, Cause::Bind(e))),
            _ => Ok(()),
        }
    }
}
