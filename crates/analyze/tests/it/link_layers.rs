//! What stands in front of a packet, field by field and byte by byte.

use proptest::prelude::*;
use uroce_analyze::{
    Direction, Dissector, DissectorConfig, Frame, FrameKind, IcrcStatus, Iwarp, LinkType, Packet,
};
use uroce_wire::ROCE_V1_ETHERTYPE;

use crate::capture::{captured, covered, ethernet, grh, ipv4, ipv4_headers, ipv6, sealed};

fn dissect(data: &[u8], original_len: usize, link_type: LinkType) -> (FrameKind, Vec<Packet>) {
    let frame = Frame { original_len: original_len as u32, ..captured(data, link_type) };
    let mut packets = vec![];
    let mut dissector = Dissector::new(DissectorConfig::default());
    let kind = dissector.dissect(&frame, &mut |packet, _, _| packets.push(*packet));
    (kind, packets)
}

/// The only packet of a whole frame; `None` if the frame is something else.
fn packet(data: &[u8], link_type: LinkType) -> Option<Packet> {
    let (kind, packets) = dissect(data, data.len(), link_type);
    assert_eq!(kind == FrameKind::Other, packets.is_empty(), "{kind:?}");
    packets.first().copied()
}

fn acknowledge() -> Vec<u8> {
    covered(0x11, 5, &[0x1f, 0, 0, 3])
}

fn tagged(tags: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut data = ethernet(ethertype, None, packet);
    let bytes: Vec<u8> = tags.iter().flat_map(|tag| [tag.to_be_bytes(), [0, 5]].concat()).collect();
    data.splice(12..12, bytes);
    data
}

#[test]
fn every_mix_of_four_vlan_tags_is_followed_and_a_fifth_is_not() {
    let kinds = [0x8100, 0x88a8, 0x9100, 0x9200];
    let ip = ipv4(7, &acknowledge());
    for count in 0..=4 {
        for first in 0..kinds.len() {
            let tags: Vec<u16> = (0..count).map(|n| kinds[(first + n) % kinds.len()]).collect();
            let found = packet(&tagged(&tags, 0x0800, &ip), LinkType::Ethernet).expect("a packet");
            assert_eq!(found.icrc, IcrcStatus::Right, "{tags:x?}");
        }
    }
    assert!(packet(&tagged(&[0x8100; 5], 0x0800, &ip), LinkType::Ethernet).is_none());
    assert!(packet(&tagged(&[0x8847], 0x0800, &ip), LinkType::Ethernet).is_none(), "MPLS");
    let v1 = sealed(&grh(acknowledge().len()), false, &acknowledge());
    let found = packet(&tagged(&[0x8100], ROCE_V1_ETHERTYPE, &v1), LinkType::Ethernet);
    assert_eq!(found.expect("a packet").icrc, IcrcStatus::Right);
}

#[test]
fn a_cooked_frame_tells_its_way_by_its_type() {
    let ip = ipv4(7, &acknowledge());
    for kind in 0..=4u8 {
        let old = [&[0, kind, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], &ip].concat();
        let new =
            [&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, kind, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &ip].concat();
        let expected = if kind == 4 { Direction::Outbound } else { Direction::Inbound };
        for (data, link_type) in [(old, LinkType::LinuxSll), (new, LinkType::LinuxSll2)] {
            let found = packet(&data, link_type).expect("a packet");
            assert_eq!(found.direction, Some(expected), "{kind} of {link_type:?}");
        }
    }
}

#[test]
fn erf_records_of_every_kind() {
    let ip = ipv4(7, &acknowledge());
    let record = |kind: u8, extensions: &[u8], behind: &[u8]| {
        let mut data = vec![0; 16];
        data[8] = kind;
        for more in extensions {
            data.extend([*more, 0, 0, 0, 0, 0, 0, 0]);
        }
        [data, behind.to_vec()].concat()
    };
    let padded = [&[0, 0][..], &ethernet(0x0800, None, &ip)].concat();
    for kind in [2, 11, 16, 20] {
        assert!(packet(&record(kind, &[], &padded), LinkType::Erf).is_some(), "Ethernet {kind}");
        let extended = record(kind | 0x80, &[0x80, 0x80, 0], &padded);
        assert!(packet(&extended, LinkType::Erf).is_some(), "with extensions {kind}");
    }
    for kind in [22, 23] {
        assert!(packet(&record(kind, &[], &ip), LinkType::Erf).is_some(), "IP {kind}");
    }
    let with_lrh = [
        &[0, 3, 0, 9, 0, 17, 0, 8][..],
        &sealed(&grh(acknowledge().len()), false, &acknowledge()),
        &[0; 2],
    ];
    assert!(packet(&record(21, &[], &with_lrh.concat()), LinkType::Erf).is_some());
    for kind in [0, 1, 24, 48, 0x7f] {
        assert!(packet(&record(kind, &[], &padded), LinkType::Erf).is_none(), "{kind}");
    }
    // Extension headers without an end.
    assert!(packet(&record(0x82, &[0x80; 40], &padded), LinkType::Erf).is_none());
    assert!(packet(&[0; 8], LinkType::Erf).is_none());
}

/// An IPv6 packet with these extension headers: their numbers, and their bytes without the next header.
fn extended(chain: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut data = ipv6(&acknowledge());
    let mut bytes = vec![];
    for (n, (_, header)) in chain.iter().enumerate() {
        let next = chain.get(n + 1).map_or(17, |(number, _)| *number);
        bytes.push(next);
        bytes.extend(header);
    }
    data[6] = chain.first().map_or(17, |(number, _)| *number);
    let length = u16::from_be_bytes([data[4], data[5]]) + bytes.len() as u16;
    data[4..6].copy_from_slice(&length.to_be_bytes());
    data.splice(40..40, bytes);
    data
}

#[test]
fn extension_headers_of_ipv6_are_passed_by_their_lengths() {
    let options = |units: u8| [vec![units], vec![0; 6 + 8 * usize::from(units)]].concat();
    // The length of an authentication header counts words of 4 bytes, less two.
    let authentication = |words: u8| [vec![words], vec![0; 6 + 4 * usize::from(words)]].concat();
    let found = |chain: &[(u8, Vec<u8>)]| {
        packet(&extended(chain), LinkType::RawIp)
            .and_then(|packet| packet.aeth)
            .map(|aeth| aeth.msn)
    };
    for number in [0, 43, 60, 135] {
        for units in [0, 1, 5] {
            assert_eq!(found(&[(number, options(units))]), Some(3), "{number} {units}");
        }
    }
    for words in [0, 2, 4] {
        assert_eq!(found(&[(51, authentication(words))]), Some(3), "{words}");
    }
    assert_eq!(found(&[(0, options(0)), (43, options(2)), (51, authentication(4))]), Some(3));
    assert_eq!(found(&[(44, vec![0, 0, 0, 0, 0, 0, 1])]), Some(3), "a fragment that is whole");
    assert_eq!(found(&[(50, options(0))]), None, "what is encrypted is not known");
    assert_eq!(found(&vec![(60, options(0)); 8]), Some(3));
    assert_eq!(found(&vec![(60, options(0)); 9]), None, "more than anybody sends");
}

#[test]
fn lengths_that_offload_left_at_zero_are_those_of_the_frame() {
    for clear in [&[2usize, 3][..], &[24, 25], &[2, 3, 24, 25]] {
        let mut data = ipv4(7, &acknowledge());
        clear.iter().for_each(|&at| data[at] = 0);
        let found = packet(&data, LinkType::RawIp).expect("a packet");
        assert_eq!((found.payload_len, found.aeth.map(|aeth| aeth.msn)), (0, Some(3)), "{clear:?}");
    }
    let mut data = ipv6(&acknowledge());
    data[4..6].fill(0);
    assert!(packet(&data, LinkType::RawIp).is_some());
}

#[test]
fn the_shorter_of_two_lengths_counts() {
    let body = covered(0x04, 1, &[7; 40]);
    let whole = ipv4(7, &body);
    for (at, less) in [(3usize, 8u8), (25, 8)] {
        let mut data = whole.clone();
        data[at] -= less;
        let found = packet(&data, LinkType::RawIp).expect("a packet");
        assert_eq!(found.payload_len, 32, "{at}");
        assert!(found.icrc != IcrcStatus::Right);
    }
    // Longer than the frame: the packet was cut.
    let mut data = whole;
    data[3] += 8;
    data[25] += 8;
    assert!(packet(&data, LinkType::RawIp).expect("a packet").is_cut);
}

#[test]
fn what_is_no_ip_or_no_udp_is_something_else() {
    let good = ipv4(7, &acknowledge());
    for (at, value) in [(0, 0x55), (0, 0x44), (9, 1), (9, 47), (22, 0), (23, 0)] {
        let mut data = good.clone();
        data[at] = value;
        assert!(packet(&data, LinkType::RawIp).is_none(), "{value:#x} at {at}");
    }
    for ethertype in [0x0806, 0x86dd + 1, 0x8914, 0x88cc] {
        assert!(packet(&ethernet(ethertype, None, &good), LinkType::Ethernet).is_none());
    }
    assert!(packet(&good, LinkType::Other(9999)).is_none());
    let mut v1 = sealed(&grh(acknowledge().len()), false, &acknowledge());
    v1[6] = 17;
    assert!(packet(&ethernet(0x8915, None, &v1), LinkType::Ethernet).is_none(), "no IBA in it");
}

#[test]
fn iwarp_frames_of_every_opcode_and_none_that_is_odd() {
    let tcp = |payload: &[u8]| {
        let mut data = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        data[2..4].copy_from_slice(&(40 + payload.len() as u16).to_be_bytes());
        data.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
        data.extend(payload);
        dissect(&data, data.len(), LinkType::RawIp).0
    };
    let message = |ddp: u8, rdmap: u8, ulpdu: u8| {
        let mut bytes = vec![0, ulpdu, ddp, rdmap];
        bytes.resize((2 + usize::from(ulpdu)).next_multiple_of(4) + 4, 0);
        bytes
    };
    for opcode in 0..=11 {
        let is_tagged = matches!(opcode, 0 | 2);
        let (ddp, least) = if is_tagged { (0xc1, 14) } else { (0x41, 18) };
        let kind = FrameKind::Iwarp(Iwarp::Fpdu(opcode));
        assert_eq!(tcp(&message(ddp, 0x40 | opcode, least)), kind);
        assert_eq!(tcp(&message(ddp, 0x40 | opcode, least - 1)), FrameKind::Other, "too short");
        assert_eq!(
            tcp(&message(ddp ^ 0x80, 0x40 | opcode, 40)),
            FrameKind::Other,
            "the other kind"
        );
        assert_eq!(tcp(&message(ddp + 1, 0x40 | opcode, 40)), FrameKind::Other, "version 2");
        assert_eq!(tcp(&message(ddp, opcode, 40)), FrameKind::Other, "version 0");
    }
    assert_eq!(tcp(&message(0x41, 0x4c, 40)), FrameKind::Other, "an opcode that is not defined");
    assert_eq!(tcp(b"MPA ID Req Fram"), FrameKind::Other);
    assert_eq!(tcp(&[]), FrameKind::Other);
}

proptest! {
    /// Each packet of a batch is what it would be in a frame of its own.
    #[test]
    fn a_batch_is_the_packets_one_at_a_time(
        count in 2u16..12, words in 4usize..300, last in 1usize..300, first in any::<u16>(), step in 0u16..2,
    ) {
        let (size, last) = (words * 4, last.min(words) * 4);
        let bodies: Vec<Vec<u8>> = (0..count)
            .map(|n| covered(0x01, n.into(), &vec![n as u8; if n + 1 == count { last } else { size }]))
            .collect();
        let singles: Vec<Vec<u8>> = (0..count)
            .map(|n| ipv4(first.wrapping_add(n * step), &bodies[usize::from(n)]))
            .collect();
        let transport: Vec<u8> = singles.iter().flat_map(|single| single[28..].to_vec()).collect();
        let batch = [ipv4_headers(first, transport.len() - 4), transport].concat();
        let (kind, packets) = dissect(&batch, batch.len(), LinkType::RawIp);
        prop_assert_eq!(kind, FrameKind::Roce { packets: count });
        for (n, (found, single)) in packets.iter().zip(&singles).enumerate() {
            let alone = packet(single, LinkType::RawIp).expect("a packet");
            prop_assert_eq!((found.bth, found.payload_len), (alone.bth, alone.payload_len));
            prop_assert_eq!((found.icrc, found.segment), (IcrcStatus::Right, n as u16));
            prop_assert_eq!(found.wire_len as usize, single.len());
        }
    }

    /// A frame that is cut anywhere never shows more than it has.
    #[test]
    fn what_is_cut_off_is_not_invented(cut in 0usize..130, v6: bool) {
        let body = covered(0x06, 1, &[7; 64]);
        let data = if v6 { ipv6(&body) } else { ipv4(1, &body) };
        let left = &data[..cut.min(data.len())];
        let (kind, packets) = dissect(left, data.len(), LinkType::RawIp);
        let headers = if v6 { 48 } else { 28 };
        match packets.first() {
            Some(packet) => {
                prop_assert!(left.len() >= headers + 12);
                prop_assert_eq!(packet.reth.is_some(), left.len() >= headers + 28);
                prop_assert_eq!(packet.is_cut, left.len() < data.len());
                prop_assert_eq!(packet.payload_len, 64 - 16);
            }
            None => prop_assert!(left.len() < headers + 12, "{:?}", kind),
        }
    }
}

#[test]
fn a_frame_without_a_byte_is_no_packet_whatever_its_link_type() {
    for number in (0..300).chain([u32::MAX]) {
        assert!(packet(&[], LinkType::from_number(number)).is_none(), "link type {number}");
    }
}
