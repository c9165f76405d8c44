//! Packets to and from QP 1.

use super::checks::check_icrc;
use super::transmit::commit;
use super::{Engine, Nic};
use crate::gsi::time;
use uroce_cm::{GSI_QKEY, MAD_LEN};
use uroce_datapath::RxPacket;
use uroce_transport::Instant;
use uroce_wire::{DropReason, FlowIcrc, Opcode, Packet, Qpn};

/// The low 15 bits of the only P_Key; the top one tells full from limited membership (R6).
const PKEY_BITS: u16 = 0x7fff;

impl Nic {
    /// Hands a MAD to the connection manager, or says why not.
    pub(super) fn deliver_to_gsi(
        &mut self,
        now: Instant,
        rx: &RxPacket<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), DropReason> {
        admits(packet)?;
        check_icrc(self.icrc_caps.rx, rx, &mut self.gsi.rx_icrc, &mut self.icrc)?;
        self.gsi.cm.handle_mad(time(now), rx.src.ip(), packet.payload())
    }
}

/// What can be a MAD: one whole datagram from another QP 1, under the right keys (A22).
fn admits(packet: &Packet<'_>) -> Result<(), DropReason> {
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
