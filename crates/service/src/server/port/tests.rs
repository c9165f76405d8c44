//! What a client may send, and the ICRC of what it sends.

use std::net::IpAddr;

use proptest::prelude::*;
use uroce_datapath::IpId;
use uroce_wire::{DropReason, Qpn};

use super::*;
use crate::sent_packet::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

fn head(dst: &str, len: usize) -> SentHead {
    let (dst, src_port, hop_limit, traffic_class) = (ip(dst), 0xC123, 64, 0);
    SentHead { dst, src_port, hop_limit, traffic_class, starts_batch: false, sealed: false, len }
}

/// A datagram from that queue pair, of so many bytes.
fn datagram(from: Qpn, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(SOURCE_QPN + 3)];
    bytes[0] = UNRELIABLE_DATAGRAM << 5 | 4;
    bytes[SOURCE_QPN..SOURCE_QPN + 3].copy_from_slice(&from.get().to_be_bytes()[1..]);
    bytes.truncate(len);
    bytes
}

#[test]
fn destinations_are_hosts_and_groups_of_our_ip_version() {
    let may = |local: &str, dst: &str| may_send(slot(1), ip(local), &head(dst, 16), &[4; 16]);
    for (local, dst) in [
        ("10.0.0.1", "10.0.0.2"),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "239.1.1.1"),
        ("fd00::1", "fd00::2"),
        ("fd00::1", "ff12::1"),
    ] {
        assert_eq!(may(local, dst), Ok(()), "{dst}");
    }
    for (local, dst) in [
        ("10.0.0.1", "fd00::2"),
        ("fd00::1", "10.0.0.2"),
        ("10.0.0.1", "0.0.0.0"),
        ("fd00::1", "::"),
        ("10.0.0.1", "255.255.255.255"),
    ] {
        assert_eq!(may(local, dst), Err(DropReason::WrongDestination), "{dst}");
    }
}

#[test]
fn datagrams_come_from_queue_pairs_of_the_client() {
    let may = |from: Qpn, len: usize| {
        may_send(slot(7), ip("10.0.0.1"), &head("10.0.0.2", len), &datagram(from, len))
    };
    assert_eq!(may(slot(7).qpn(0), 40), Ok(()));
    assert_eq!(may(slot(7).qpn(u16::MAX), 40), Ok(()));
    assert_eq!(may(Qpn::GSI, 40), Ok(()));
    for forged in [slot(6).qpn(0), slot(8).qpn(3), Qpn::new(0), Qpn::new(2), Qpn::new(0xff_ffff)] {
        assert_eq!(may(forged, 40), Err(DropReason::WrongPeer), "{forged:?}");
    }
    for short in 16..SOURCE_QPN + 3 {
        assert_eq!(may(slot(7).qpn(0), short), Err(DropReason::TooShort), "{short} bytes");
    }
}

proptest! {
    /// The ICRC holds for the header that the service writes, whatever port the client has named.
    #[test]
    fn a_packet_leaves_with_a_right_icrc(
        payload in prop::collection::vec(any::<u8>(), 16..200), id: u16, asked: u16, real: u16, damage: u32,
    ) {
        let (src, dst) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let route = Route {
            src: SocketAddr::new(src, real),
            dst: SocketAddr::new(dst, 4791),
            hop_limit: 64,
            traffic_class: 0,
        };
        let flow = Flow { src, dst, src_port: real, dst_port: 4791 };
        let mut head = SentHead { src_port: asked, ..head("10.0.0.2", payload.len()) };
        let mut packet = payload.clone();
        seal(&mut FlowIcrc::default(), &head, &route, id, &mut packet);
        prop_assert!(uroce_wire::verify(&flow, id, &packet));
        prop_assert_eq!(&packet[..packet.len() - 4], &payload[..payload.len() - 4]);

        // One that the client has written is as right, or as wrong, as it was.
        head.sealed = true;
        let named = Flow { src_port: asked, ..flow };
        let end = payload.len() - 4;
        for damage in [0, damage] {
            let icrc = uroce_wire::icrc(&named, 0, &payload[..end]) ^ damage;
            packet[end..].copy_from_slice(&icrc.to_le_bytes());
            seal(&mut FlowIcrc::default(), &head, &route, id, &mut packet);
            prop_assert_eq!(uroce_wire::verify(&flow, id, &packet), damage == 0);
        }
    }
}

#[test]
fn a_packet_between_clients_looks_like_one_from_the_wire() {
    let local = SocketAddr::new(ip("10.0.0.1"), 4791);
    let payload = [7; 16];
    let rx = arrived(local, &head("10.0.0.1", 16), &payload);
    assert_eq!((rx.src, rx.dst), (SocketAddr::new(local.ip(), 0xC123), local));
    assert_eq!((rx.ip_id, rx.icrc_checked, rx.hop_limit), (IpId::Known(0), true, 64));
    let sealed = SentHead { sealed: true, ..head("fd00::1", 16) };
    let rx = arrived(SocketAddr::new(ip("fd00::1"), 4791), &sealed, &payload);
    assert_eq!((rx.ip_id, rx.icrc_checked), (IpId::NotPresent, false));
}

#[test]
fn an_interface_that_is_down_is_waited_for_and_other_errors_are_told() {
    let failed = |errno: Errno| is_blocked(Err(errno.into())).map_err(|error| error.raw_os_error());
    assert_eq!(failed(Errno::NETDOWN), Ok(true));
    assert_eq!(failed(Errno::BADF), Err(Some(Errno::BADF.raw_os_error())));
    for blocked in [false, true] {
        let flushed = Flush { blocked, ..Flush::default() };
        assert_eq!(is_blocked(Ok(flushed)).expect("no error"), blocked);
    }
}
