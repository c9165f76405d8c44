//! UC: no answers; a damaged message is dropped whole (R97, R98).

use uroce_wire::{DropReason, NakCode, Packet};

use crate::cause::{Cause, FlushReason};
use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::qp::responder::Responder;
use crate::wc::WcStatus;

use super::checks::Refusal;

impl Responder {
    pub(super) fn handle_unreliable(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        let distance = psn.since(self.expected);
        if distance < 0 && !packet.info.starts() {
            // The rest of a message that is over.
            cx.counters.duplicate_request += 1;
            cx.counters.drop(DropReason::UcOutOfSequence);
            return;
        }
        if distance != 0 {
            cx.counters.out_of_seq_request += 1;
            self.drop_rest = true;
        }
        if packet.info.starts() {
            // A new message, whatever its PSN (R97): nothing tells a repetition from one that was
            // overtaken. It ends the one that was cut short; its receive is used again.
            self.drop_rest = false;
            self.message = None;
        }
        self.expected = psn.add(1);
        if self.drop_rest {
            self.message = None;
            self.give_receive_back(cx);
            cx.counters.drop(DropReason::UcOutOfSequence);
            return;
        }
        if let Err(refusal) = self.run_request(config, packet, cx) {
            self.drop_message(config, psn.add(1), refusal, cx);
        }
    }

    fn drop_message(
        &mut self,
        config: &QpConfig,
        next: uroce_wire::Psn,
        refusal: Refusal,
        cx: &mut Context<'_>,
    ) {
        self.expected = next;
        self.message = None;
        self.drop_rest = true;
        match refusal {
            Refusal::NotReady => cx.counters.drop(DropReason::UcNoReceive),
            Refusal::Nak { code: NakCode::RemoteAccess, .. } => {
                cx.counters.drop(DropReason::UcAccess);
            }
            Refusal::Nak { code: NakCode::RemoteOperational, status, cause } => {
                cx.counters.drop(DropReason::UcAccess);
                self.fail_receive(config, status, cause, cx);
            }
            Refusal::Nak { .. } => cx.counters.drop(DropReason::UcInvalid),
        }
        self.give_receive_back(cx);
    }

    /// A receive work request of UC or UD that cannot be written to: its owner's mistake, which
    /// puts the QP into the error state (class A, R38).
    pub(super) fn fail_receive(
        &mut self,
        config: &QpConfig,
        status: WcStatus,
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        let Some(wr_id) = self.report_failed_receive(config, status, cause, cx) else {
            return;
        };
        self.fail(FlushReason::RecvFailed { wr_id, status }, cx);
    }
}
