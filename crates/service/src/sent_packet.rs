//! What a client may send, and what another client of the address receives of it.

use std::net::{IpAddr, SocketAddr};

use uroce_datapath::{IpId, RxPacket};
use uroce_wire::{DropReason, Qpn, Slot};

use crate::head::SentHead;

/// The upper three bits of UD opcodes.
pub(crate) const UNRELIABLE_DATAGRAM: u8 = 0b011;

/// Where the QPN of the sender of a datagram stands.
pub(crate) const SOURCE_QPN: usize = 12 + 5;

/// The packet of one client as another one receives it.
pub(crate) fn arrived<'a>(local: SocketAddr, head: &SentHead, payload: &'a [u8]) -> RxPacket<'a> {
    RxPacket {
        src: SocketAddr::new(local.ip(), head.src_port),
        dst: SocketAddr::new(head.dst, local.port()),
        traffic_class: head.traffic_class,
        hop_limit: head.hop_limit,
        ip_id: if head.dst.is_ipv4() { IpId::Known(0) } else { IpId::NotPresent },
        // Bytes that never left this host, but for faults that a client asked for.
        icrc_checked: !head.sealed,
        following: None,
        fate: None,
        payload,
    }
}

/// A client may send to unicast and multicast addresses of the version of ours, from queue pairs of its own.
pub(crate) fn may_send(
    slot: Slot,
    local: IpAddr,
    head: &SentHead,
    payload: &[u8],
) -> Result<(), DropReason> {
    let broadcast = matches!(head.dst, IpAddr::V4(v4) if v4.is_broadcast());
    if head.dst.is_ipv4() != local.is_ipv4() || head.dst.is_unspecified() || broadcast {
        return Err(DropReason::WrongDestination);
    }
    if payload[0] >> 5 != UNRELIABLE_DATAGRAM {
        return Ok(());
    }
    let qpn = payload.get(SOURCE_QPN..).and_then(|rest| rest.first_chunk());
    let Some([high, middle, low]) = qpn else { return Err(DropReason::TooShort) };
    let qpn = Qpn::new(u32::from_be_bytes([0, *high, *middle, *low]));
    if qpn == Qpn::GSI || Slot::of(qpn) == Some(slot) {
        return Ok(());
    }
    Err(DropReason::WrongPeer)
}
