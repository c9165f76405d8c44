//! The short way of a responder for small messages.
//!
//! A SEND that is whole in its packet needs a receive, one copy and one completion. Whatever else it is, or
//! when the copy fails, no more than the receive was taken, and the long way, `run_request`, decides.

use uroce_wire::{Opcode, Packet};

use crate::context::Context;
use crate::qp::QueuePair;
use crate::qp::piece::pad_of;

impl QueuePair {
    /// Executes the request with the expected PSN if it is such a message.
    #[inline]
    pub(super) fn run_small(&mut self, packet: &Packet<'_>, cx: &mut Context<'_>) -> bool {
        let data = packet.payload();
        let small = packet.bth.opcode == Opcode::RC_SEND_ONLY
            && self.responder.message.is_none()
            && usize::from(packet.bth.pad) == pad_of(data.len())
            && data.len() <= self.attr.path_mtu.bytes();
        if !small || !self.take_receive(cx) {
            return false;
        }
        let (recv, pd) = (&self.responder.recv, self.recv_pd(cx));
        let fits = data.len() as u64 <= recv.length;
        if !fits || cx.mem.scatter(pd, &recv.sges, 0, data).is_err() {
            return false;
        }
        self.responder.expected = packet.bth.psn.add(1);
        self.responder.msn = (self.responder.msn + 1) & 0xff_ffff;
        let peer = self.attr.av.as_ref().map(|av| av.remote);
        self.report_receive(packet, data.len() as u32, peer, cx);
        true
    }
}
