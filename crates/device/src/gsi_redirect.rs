//! Which of the processes on an address a packet to QP 1 is for.

use uroce_cm::addressee;
use uroce_datapath::{IpId, RedirectTarget, RxPacket};
use uroce_wire::{Flow, IcrcVerdict, Packet};

use crate::engine::admits_mad;

/// A message of a connection goes to the process that chose its communication ID, a REQ or SIDR REQ
/// to the process that listens on its service ID. A message with neither stays here, but for the
/// REJ of a peer that has timed out: each process looks for its connection. Anything that is no
/// valid MAD stays too: it is dropped here and causes no work in other processes.
#[must_use]
pub fn gsi_redirect(rx: &RxPacket<'_>) -> RedirectTarget {
    let Ok(packet) = Packet::parse(rx.payload) else { return RedirectTarget::Here };
    if admits_mad(&packet).is_err() {
        return RedirectTarget::Here;
    }
    let found = match addressee(packet.payload()) {
        Some(uroce_cm::Addressee::Id(id)) => {
            id.slot().map_or(RedirectTarget::Here, RedirectTarget::Slot)
        }
        Some(uroce_cm::Addressee::Service(service)) => RedirectTarget::Service(service.0),
        Some(uroce_cm::Addressee::Unknown) => RedirectTarget::Everyone,
        None => RedirectTarget::Here,
    };
    if found == RedirectTarget::Here || icrc_is_right(rx) { found } else { RedirectTarget::Here }
}

/// As far as that can be told without a memory of the sender's identifications.
fn icrc_is_right(rx: &RxPacket<'_>) -> bool {
    let flow = Flow {
        src: rx.src.ip(),
        dst: rx.dst.ip(),
        src_port: rx.src.port(),
        dst_port: rx.dst.port(),
    };
    match rx.ip_id {
        _ if rx.icrc_checked => true,
        IpId::Known(id) => uroce_wire::verify(&flow, id, rx.payload),
        IpId::NotPresent => uroce_wire::verify(&flow, 0, rx.payload),
        IpId::Hidden(_) => !matches!(uroce_wire::recover(&flow, &[], rx.payload), IcrcVerdict::Bad),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use uroce_cm::{Call, Cm, CmLimits, Identity, PortSpace, ServiceId};
    use uroce_wire::{Psn, Qpn};

    use super::*;

    /// Bytes of BTH and DETH.
    const HEADERS: [u8; 20] =
        [0x64, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0x80, 1, 0, 0, 0, 0, 0, 1];

    #[test]
    fn a41_only_what_is_undamaged_and_a_message_is_for_others() {
        let (home, away) = (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 0, 9).into());
        let service = ServiceId::new(PortSpace::Tcp, 7174);
        let us = Identity { address: away, guid: 1, ack_delay: 15, active_mtu: 3, slot: None };
        let mut caller = Cm::new(us, CmLimits::default(), [1; 32]);
        let call = Call::new(home, service, Qpn::new(0x0002_0011), Psn::new(1));
        caller.connect(std::time::Duration::ZERO, &call).expect("a call");
        let req = caller.poll_transmit().expect("a REQ");
        let flow = Flow { src: away, dst: home, src_port: 0xd872, dst_port: 4791 };
        let check = |headers: [u8; 20], id: u16, ip_id: IpId, damaged: bool| {
            let mut bytes = [&headers[..], &req.bytes].concat();
            let icrc = uroce_wire::icrc(&flow, id, &bytes) ^ u32::from(damaged);
            bytes.extend(icrc.to_le_bytes());
            gsi_redirect(&RxPacket {
                src: (away, 0xd872).into(),
                dst: (home, 4791).into(),
                traffic_class: 0,
                hop_limit: 64,
                ip_id,
                icrc_checked: false,
                following: None,
                fate: None,
                payload: &bytes,
            })
        };
        let theirs = RedirectTarget::Service(service.0);
        assert_eq!(check(HEADERS, 7, IpId::Known(7), false), theirs);
        assert_eq!(check(HEADERS, 7, IpId::Hidden(0), false), theirs);
        assert_eq!(check(HEADERS, 7, IpId::Known(7), true), RedirectTarget::Here);
        assert_eq!(check(HEADERS, 7, IpId::Known(8), false), RedirectTarget::Here);
        let mut other_key = HEADERS;
        other_key[15] ^= 1;
        assert_eq!(check(other_key, 7, IpId::Known(7), false), RedirectTarget::Here);
    }
}
