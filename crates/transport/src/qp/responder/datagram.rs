//! UD: one packet, one receive, with the GRH area in front (R99).

use uroce_wire::{DropReason, Packet, ud_grh_area};

use crate::cause::Cause;
use crate::context::{Arrival, Context};
use crate::qp::config::QpConfig;
use crate::qp::config::pad_of;
use crate::qp::responder::Responder;
use crate::wc::WcStatus;

/// Bytes in front of the payload of a UD receive buffer.
const GRH_AREA: u64 = 40;

impl Responder {
    pub(super) fn handle_datagram(
        &mut self,
        config: &QpConfig,
        arrival: &Arrival,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let payload = packet.payload();
        if usize::from(packet.bth.pad) != pad_of(payload.len()) {
            cx.counters.drop(DropReason::BadPad);
            return;
        }
        if payload.len() > config.init.port_mtu.bytes() {
            cx.counters.drop(DropReason::UdTooLong);
            return;
        }
        if !self.take_receive(cx) {
            cx.counters.drop(DropReason::UdNoReceive);
            return;
        }
        let length = GRH_AREA + payload.len() as u64;
        if length > self.recv.length {
            // B9: the datagram is dropped; the receive serves the next one, of whichever queue pair.
            self.give_receive_back(cx);
            cx.counters.drop(DropReason::UdTooLong);
            return;
        }
        let grh = ud_grh_area(
            arrival.src,
            arrival.dst,
            arrival.ip_id,
            arrival.hop_limit,
            arrival.traffic_class,
            arrival.udp_len,
        );
        match self.scatter_datagram(config, &grh, payload, cx) {
            Ok(()) => self.report_receive(config, packet, length as u32, Some(arrival.src), cx),
            Err(cause) => {
                cx.counters.drop(DropReason::UdAccess);
                self.fail_receive(config, WcStatus::LocProtErr, cause, cx);
            }
        }
    }

    fn scatter_datagram(
        &self,
        config: &QpConfig,
        grh: &[u8],
        payload: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<(), Cause> {
        let pd = self.recv_pd(config, cx);
        let sges = &self.recv.sges;
        let explain = |error: uroce_memory::SgeError| Cause::LocalBuffer {
            index: error.index as u32,
            lkey: sges.get(error.index).map_or(0, |sge| sge.lkey.0),
            error: error.error,
        };
        cx.mem.scatter(pd, sges, 0, grh).map_err(explain)?;
        cx.mem.scatter(pd, sges, GRH_AREA, payload).map_err(explain)
    }
}
