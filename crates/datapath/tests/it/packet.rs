//! Packets that arrive as one, routes and groups.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use uroce_datapath::{DatapathStats, IpId, Route, RxPacket, check_group, multicast_mac};

fn joined(ip_id: IpId, payload: &[u8]) -> RxPacket<'_> {
    RxPacket {
        src: ([10, 0, 0, 9], 0xC000).into(),
        dst: ([10, 0, 0, 1], 4791).into(),
        traffic_class: 2,
        hop_limit: 63,
        ip_id,
        icrc_checked: false,
        following: None,
        fate: None,
        payload,
    }
}

proptest! {
    #[test]
    fn what_arrives_as_one_is_handed_over_as_it_was_sent(
        count in 1usize..20, size in 1usize..30, last in 1usize..30, limit in 1usize..8,
        together in 0usize..6,
    ) {
        let last = last.min(size);
        let mut sent: Vec<Vec<u8>> = (1..count).map(|n| vec![n as u8; size]).collect();
        sent.push(vec![0xff; last]);
        let bytes = sent.concat();
        let all = joined(IpId::Hidden(0), &bytes);
        let (mut offset, mut stats, mut got) = (0, DatapathStats::default(), vec![]);
        loop {
            let before = got.len();
            let handed = all.hand_over(size, &mut offset, limit, &mut stats, &mut |packet| {
                got.push((packet.ip_id, packet.payload.to_vec()));
                let following = packet.following_packets().take(together);
                let taken: Vec<_> = following.map(|next| (next.ip_id, next.payload.to_vec())).collect();
                packet.take_following(taken.len());
                got.extend(taken);
            });
            prop_assert_eq!(handed, got.len() - before);
            prop_assert!(handed <= limit);
            if handed == 0 {
                break;
            }
        }
        let expected: Vec<_> =
            (0..).map(IpId::Hidden).zip(sent).collect();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(offset, bytes.len());
        prop_assert_eq!((stats.rx_packets, stats.rx_bytes), (count as u64, bytes.len() as u64));
    }
}

#[test]
fn an_identification_that_is_seen_is_that_of_every_packet() {
    for ip_id in [IpId::Known(7), IpId::NotPresent] {
        let mut ids = vec![];
        let mut stats = DatapathStats::default();
        joined(ip_id, &[0; 9]).hand_over(3, &mut 0, 9, &mut stats, &mut |packet| {
            ids.push(packet.ip_id);
        });
        assert_eq!(ids, [ip_id; 3]);
    }
}

#[test]
fn an_offset_behind_the_end_hands_over_nothing() {
    let mut stats = DatapathStats::default();
    for mut offset in [4, 5, usize::MAX] {
        let all = joined(IpId::Hidden(0), &[0; 4]);
        let none = all.hand_over(2, &mut offset, 9, &mut stats, &mut |packet| panic!("{packet:?}"));
        assert_eq!(none, 0);
    }
    assert_eq!(stats, DatapathStats::default());
}

#[test]
fn the_icrc_covers_zero_where_there_is_no_identification() {
    assert_eq!(IpId::Known(0xbeef).known_or_zero(), 0xbeef);
    assert_eq!(IpId::Hidden(3).known_or_zero(), 0);
    assert_eq!(IpId::NotPresent.known_or_zero(), 0);
}

#[test]
fn headers_of_a_route_are_those_of_its_ip_version() {
    let route = |dst: &str| {
        let dst: SocketAddr = dst.parse().expect("address");
        Route { src: dst, dst, hop_limit: 1, traffic_class: 0 }
    };
    assert_eq!(route("10.0.0.1:1").header_bytes(), 28);
    assert_eq!(route("[fd00::1]:1").header_bytes(), 48);
}

#[test]
fn only_a_group_of_the_same_ip_version_can_be_joined() {
    let check = |local: &str, group: &str| {
        let local = SocketAddr::new(local.parse().expect("address"), 4791);
        check_group(&local, &group.parse().expect("address"))
    };
    check("10.0.0.1", "239.1.2.3").expect("a group");
    check("10.0.0.1", "224.0.0.1").expect("a group");
    check("fd00::1", "ff12::1").expect("a group");
    for (local, group) in [
        ("10.0.0.1", "10.0.0.2"),
        ("10.0.0.1", "255.255.255.255"),
        ("10.0.0.1", "0.0.0.0"),
        ("10.0.0.1", "ff12::1"),
        ("fd00::1", "fd00::2"),
        ("fd00::1", "239.1.2.3"),
        ("fd00::1", "::ffff:239.1.2.3"),
    ] {
        let error = check(local, group).expect_err(group);
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains(group) && text.contains(local), "{text}");
    }
}

#[test]
fn groups_share_a_hardware_address_as_the_standards_say() {
    let mac = |group: [u8; 4]| multicast_mac(IpAddr::from(group)).expect("a group");
    // RFC 1112: 23 bits of 28.
    assert_eq!(mac([224, 1, 2, 3]), mac([239, 129, 2, 3]));
    assert_ne!(mac([224, 1, 2, 3]), mac([224, 65, 2, 3]));
    for group in [[224, 0, 0, 0], [239, 255, 255, 255]] {
        assert_eq!(mac(group)[..3], [1, 0, 0x5e]);
        assert!(mac(group)[3] < 0x80);
    }
    assert_eq!(multicast_mac([240, 0, 0, 1].into()), None);
}
