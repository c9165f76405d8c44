//! The short way of a responder for small messages.
//!
//! A SEND that is whole in its packet needs a receive, one copy and one completion; a WRITE needs one copy.
//! Whatever else it is, or when the copy is not allowed, nothing has changed, and the long way,
//! `handle_reliable`, decides.

use uroce_memory::Access;
use uroce_wire::{Opcode, Packet};

use crate::attr::{QpState, QpType};
use crate::context::{Arrival, Context};
use crate::qp::config::QpConfig;
use crate::qp::config::pad_of;
use crate::qp::responder::Responder;

impl Responder {
    /// Executes the request if it is such a message, the one that is expected, and nothing else is going
    /// on.
    #[inline]
    pub(crate) fn run_small(
        &mut self,
        config: &QpConfig,
        arrival: &Arrival,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        if !self.takes_small(config, arrival, packet) {
            return false;
        }
        let done = match packet.bth.opcode {
            Opcode::RC_SEND_ONLY => self.run_small_send(config, packet, cx),
            Opcode::RC_WRITE_ONLY => self.run_small_write(config, packet, cx),
            _ => false,
        };
        if !done {
            return false;
        }
        self.expected = packet.bth.psn.add(1);
        self.msn = (self.msn + 1) & 0xff_ffff;
        if packet.bth.ack_req {
            self.acknowledge_request(cx);
        }
        true
    }

    #[inline]
    fn takes_small(&self, config: &QpConfig, arrival: &Arrival, packet: &Packet<'_>) -> bool {
        let ready =
            config.state == QpState::Rts || config.state == QpState::Rtr && self.established;
        let length = packet.payload().len();
        config.init.qp_type == QpType::Rc
            && ready
            && self.goes_on_with(packet.bth.psn)
            && self.message.is_none()
            && arrival.traffic_class & 3 != 3
            && usize::from(packet.bth.pad) == pad_of(length)
            && (1..=config.attr.path_mtu.bytes()).contains(&length)
    }

    /// The receive is taken when the bytes have got there. A shared queue has its own ways.
    #[inline]
    fn run_small_send(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let data = packet.payload();
        if config.init.srq.is_some() || self.recv_taken {
            return false;
        }
        let Some((wr_id, sge)) = self.recv_queue.front_of_one() else {
            return false;
        };
        let sges = std::slice::from_ref(sge);
        if cx.mem.scatter(config.init.pd, sges, 0, data).is_err() {
            return false;
        }
        self.recv_queue.drop_front_of_one();
        let wc = self.received(config, wr_id, data.len() as u32, config.peer());
        self.complete_recv(wc, packet.bth.solicited, cx);
        true
    }

    #[inline]
    fn run_small_write(
        &self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let (data, need) = (packet.payload(), Access::REMOTE_WRITE);
        let Some(reth) = packet.reth().filter(|reth| reth.length as usize == data.len()) else {
            return false;
        };
        if !config.attr.access.contains(need) {
            return false;
        }
        let slice =
            cx.mem.check(reth.rkey, self.requirer(config), need, reth.va, data.len() as u64);
        if !slice.is_ok_and(|slice| slice.copy_in(0, data).is_ok()) {
            return false;
        }
        cx.counters.rdma_recvs += 1;
        true
    }
}
