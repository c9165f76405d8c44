//! An end whose NIC is the model of rxe.

use uroce_device::transport::{QpState, Wc};
use uroce_device::wire::{Qpn, ack_timeout_ns};

use super::{CompletionsOf, End, Peer};
use crate::nic::Nic;
use crate::rxe::RxeLink;
use crate::scenario::PairPlan;

impl End {
    pub(super) fn create_rxe_qp(&self) -> Qpn {
        match &self.nic {
            Nic::Rxe(node) => node.borrow_mut().create_qp(self.arena.as_rxe_memory()),
            Nic::Uroce(_) => Qpn::new(0),
        }
    }

    pub(super) fn connect_rxe(&self, plan: &PairPlan, peer: &Peer, psns: [u32; 2]) {
        let Nic::Rxe(node) = &self.nic else { return };
        let link = RxeLink {
            peer: peer.address,
            dest: peer.responder,
            mtu: plan.mtu.bytes(),
            timeout_ns: ack_timeout_ns(plan.timeout),
            retry_cnt: plan.retry_cnt,
            rnr_retry: plan.rnr_retry,
            min_rnr_timer: plan.min_rnr_timer,
            rd_atomic: plan.rd_atomic,
            signal_all: plan.signal_all,
        };
        node.borrow_mut().connect(self.qpn, link, psns);
    }

    pub(super) fn leave_rxe(&self, state: QpState) {
        let Nic::Rxe(node) = &self.nic else { return };
        match state {
            QpState::Err => node.borrow_mut().fail_qp(self.qpn),
            _ => node.borrow_mut().reset_qp(self.qpn),
        }
    }

    pub(super) fn has_rxe_completions(&self, nic: &Nic, what: CompletionsOf) -> bool {
        let of_sends = what == CompletionsOf::Sends;
        matches!(nic, Nic::Rxe(node) if node.borrow().has_completions(self.qpn, of_sends))
    }

    pub(super) fn poll_rxe(&self, what: CompletionsOf, into: &mut Vec<Wc>) {
        let Nic::Rxe(node) = &self.nic else { return };
        into.extend(node.borrow_mut().poll(self.qpn, what == CompletionsOf::Sends));
    }
}

/// What a post to the model comes to.
pub(super) fn post_rxe(is_posted: bool) -> Result<(), String> {
    if is_posted { Ok(()) } else { Err("the queue pair is not connected".to_owned()) }
}
