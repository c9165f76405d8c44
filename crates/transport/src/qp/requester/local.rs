//! Operations that are done inside the device, without a packet.

use uroce_memory::MwBind;

use crate::attr::QpType;
use crate::cause::Cause;
use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::qp::requester::Requester;
use crate::qp::requester::emit::Failure;
use crate::qp::requester::send_queue::SendWqe;
use crate::wc::WcStatus;
use crate::wr::{SendFlags, SendOp};

impl Requester {
    /// Does an operation that needs no packet. `None`: not yet, or the QP has failed.
    pub(crate) fn run_local(
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
        match self.execute_local(config, &wqe.op, cx) {
            Ok(()) => {
                self.cursor = index + 1;
                self.send_queue.get_mut(index)?.done = true;
                self.retire(config, cx);
                Some(())
            }
            Err(failure) => {
                self.fail_if_oldest(config, index, failure, cx);
                None
            }
        }
    }

    fn execute_local(
        &self,
        config: &QpConfig,
        op: &SendOp,
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        let qpn = config.init.qpn.get();
        match *op {
            SendOp::LocalInvalidate(rkey) => cx
                .mem
                .invalidate(rkey, config.init.pd, qpn, false)
                .map_err(|e| (WcStatus::MwBindErr, Cause::Invalidate(e))),
            SendOp::BindMw { mw, new_rkey, mr, va, length, access } => cx
                .mem
                .bind_mw(&MwBind { mw, mr, new_rkey, va, length, access, pd: config.init.pd, qpn })
                .map(|_| ())
                .map_err(|e| (WcStatus::MwBindErr, Cause::Bind(e))),
            _ => Ok(()),
        }
    }
}
