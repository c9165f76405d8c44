//! Steps 5 to 9 of the validation order (docs/wire.md) that concern no single queue pair: the
//! addressee of a packet, and its ICRC. No packet is answered here.

use std::net::IpAddr;

use uroce_datapath::{IcrcRx, IpId, RxPacket};
use uroce_transport::Arrival;
use uroce_wire::{DropReason, Flow, IcrcVerdict, Qpn, Slot};

use super::{IcrcFindings, Nic};
use crate::engine::rx_icrc::RxIcrc;

/// Bytes of the UDP header.
const UDP_HEADER: usize = 8;

/// The fields of the IP header that the transport uses. The identification is filled in once the
/// ICRC has confirmed its value.
pub(super) fn arrival(rx: &RxPacket<'_>) -> Arrival {
    Arrival {
        src: rx.src.ip(),
        dst: rx.dst.ip(),
        traffic_class: rx.traffic_class,
        hop_limit: rx.hop_limit,
        ip_id: 0,
        udp_len: u16::try_from(rx.payload.len() + UDP_HEADER).unwrap_or(u16::MAX),
    }
}

/// Why there is no queue pair with this number.
pub(super) fn no_such_qp(qpn: Qpn, own: Option<Slot>) -> DropReason {
    match own {
        _ if qpn == Qpn::SMI => DropReason::SmiQpn,
        Some(own) if Slot::of(qpn).is_some_and(|slot| slot != own) => DropReason::NoProcess,
        _ => DropReason::UnknownQpn,
    }
}

impl Nic {
    /// The address is ours; a multicast address only counts together with the multicast QPN.
    pub(super) fn is_ours(&self, dst: IpAddr) -> bool {
        dst == self.local.ip()
    }
}

/// Checks the ICRC and returns the IPv4 identification it was right with.
pub(super) fn check_icrc(
    caps: IcrcRx,
    rx: &RxPacket<'_>,
    peer: &mut RxIcrc,
    findings: &mut IcrcFindings,
) -> Result<u16, DropReason> {
    if caps == IcrcRx::Skip {
        return Ok(0);
    }
    let flow = Flow {
        src: rx.src.ip(),
        dst: rx.dst.ip(),
        src_port: rx.src.port(),
        dst_port: rx.dst.port(),
    };
    let known = match rx.ip_id {
        IpId::Known(id) => id,
        IpId::NotPresent => 0,
        IpId::Hidden(place) => return recover_id(&flow, rx.payload, place, peer, findings),
    };
    if !rx.icrc_checked && !peer.icrc.verify(&flow, known, rx.payload) {
        return Err(DropReason::BadIcrc);
    }
    findings.valid += 1;
    Ok(known)
}

/// A right guess is a full check; a solved ID leaves 16 bits of it (docs/wire.md). What stands behind
/// another packet is numbered after that one, whichever queue pair either is for.
fn recover_id(
    flow: &Flow,
    payload: &[u8],
    place: u16,
    peer: &mut RxIcrc,
    findings: &mut IcrcFindings,
) -> Result<u16, DropReason> {
    let guesses = match place {
        0 => peer.ids.guesses(),
        _ => findings.train.guesses(place),
    };
    let (id, guessed) = match peer.icrc.recover(flow, &guesses, payload) {
        IcrcVerdict::Valid => {
            findings.valid += 1;
            return Ok(0);
        }
        IcrcVerdict::Predicted(id) => {
            findings.predicted += 1;
            (id, true)
        }
        IcrcVerdict::Solved(id) => {
            findings.solved += 1;
            (id, false)
        }
        IcrcVerdict::Bad => return Err(DropReason::BadIcrc),
    };
    findings.train.learn(place, id, guessed);
    if place == 0 {
        peer.ids.learn(id);
    }
    Ok(id)
}
