//! Packets to and from QP 1.

use std::net::IpAddr;

use uroce_cm::{AgentRequest, GSI_QKEY, MAD_LEN};
use uroce_datapath::RxPacket;
use uroce_transport::Instant;
use uroce_wire::{DropReason, FlowIcrc, Opcode, Packet, Qpn};

use super::checks::check_icrc;
use super::transmit::commit;
use super::{Engine, Nic};
use crate::counters::port_counters;
use crate::engine::gsi::{Gsi, time};

/// The low 15 bits of the only P_Key; the top one tells full from limited membership (R6).
const PKEY_BITS: u16 = 0x7fff;

impl Nic {
    /// Hands a MAD to the connection manager or a management agent, or says why not.
    pub(super) fn deliver_to_gsi(
        &mut self,
        now: Instant,
        rx: &RxPacket<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), DropReason> {
        admits_mad(packet)?;
        check_icrc(self.icrc_caps.rx, rx, &mut self.gsi.rx_icrc, &mut self.icrc)?;
        match AgentRequest::parse(packet.payload()) {
            Some(request) => self.note_request(now, rx.src.ip(), request),
            None => self.gsi.cm.handle_mad(time(now), rx.src.ip(), packet.payload()),
        }
    }

    /// The response waits for the end of the batch: the datapath's counters cannot be read within it.
    fn note_request(
        &mut self,
        now: Instant,
        peer: IpAddr,
        request: AgentRequest,
    ) -> Result<(), DropReason> {
        if !self.gsi.cm.may_answer(time(now), peer) {
            return Err(DropReason::CmRateLimit);
        }
        self.gsi.asked.push((peer, request));
        Ok(())
    }
}

/// Checks that a packet can be a MAD: one whole datagram from another QP 1, with the well-known
/// Q_Key and a valid P_Key (A22).
pub(crate) fn admits_mad(packet: &Packet<'_>) -> Result<(), DropReason> {
    if packet.bth.opcode != Opcode::UD_SEND_ONLY {
        return Err(DropReason::GsiQpn);
    }
    if packet.bth.pkey & PKEY_BITS != PKEY_BITS {
        return Err(DropReason::PkeyMismatch);
    }
    let deth = packet.deth().ok_or(DropReason::BadLength)?;
    if deth.qkey != GSI_QKEY {
        return Err(DropReason::QkeyMismatch);
    }
    if deth.src_qpn != Qpn::GSI {
        return Err(DropReason::GsiQpn);
    }
    if packet.payload().len() != MAD_LEN {
        return Err(DropReason::MadLength);
    }
    Ok(())
}

impl Engine {
    /// Answers the requests to the management agents of the last batch (C60).
    #[cold]
    pub(super) fn respond_to_requests(&mut self) {
        let counters = port_counters(self);
        let Gsi { asked, cm, .. } = &mut self.nic.gsi;
        for (peer, request) in asked.drain(..) {
            cm.send_response(peer, request.respond(&counters));
        }
    }

    /// Asks the peer of a queue pair for a sign of life, unless what is in flight does so.
    pub(super) fn send_liveness_probe(&mut self, qpn: Qpn) {
        let now = self.clock.now();
        let Engine { nic, datapath, .. } = self;
        let Some(entry) = nic.qps.get_mut(qpn) else { return };
        // A datapath without room loses it, as the network may; it is sent again.
        let Some(space) = datapath.tx_space() else { return };
        let Some(out) = entry.qp.write_liveness_probe(space) else { return };
        commit(&mut **datapath, &out, nic.local, nic.icrc_caps.tx, &mut entry.tx_icrc);
        self.flush(now);
    }

    /// Sends what the connection manager has to say, up to `budget` packets. Returns how many.
    pub(super) fn send_mads(&mut self, budget: usize, now: Instant) -> usize {
        for sent in 0..budget {
            if !self.nic.gsi.wants_transmit() {
                return sent;
            }
            if self.datapath.tx_space().is_none() {
                self.flush(now);
            }
            let Some(space) = self.datapath.tx_space() else { return sent };
            let Some(out) = self.nic.gsi.poll_transmit(space) else { return sent };
            let (local, icrc_tx) = (self.nic.local, self.nic.icrc_caps.tx);
            commit(&mut *self.datapath, &out, local, icrc_tx, &mut FlowIcrc::default());
        }
        budget
    }
}
