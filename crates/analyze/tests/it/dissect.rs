//! Frames of every kind, taken apart.

use proptest::prelude::*;
use uroce_analyze::{
    CaptureReader, Direction, Dissector, DissectorConfig, Encapsulation, Frame, FrameKind,
    IcrcStatus, Iwarp, LinkType, Malformed, NotChecked, Packet, fields,
};
use uroce_wire::icrc_of_local;

use crate::capture::{
    DESTINATION, SOURCE, captured, covered, ethernet, every_header, frame, grh, ipv4, ipv4_headers,
    ipv6, sealed,
};

fn packets_of(frame: &Frame<'_>) -> (FrameKind, Vec<(Packet, Vec<u8>)>) {
    let mut packets = Vec::new();
    let mut dissector = Dissector::new(DissectorConfig::default());
    let kind = dissector.dissect(frame, &mut |packet, payload, _| {
        packets.push((*packet, payload.to_vec()));
    });
    (kind, packets)
}

/// The only packet of a frame.
fn one(data: &[u8], link_type: LinkType) -> Packet {
    let (kind, packets) = packets_of(&captured(data, link_type));
    assert_eq!((kind, packets.len()), (FrameKind::Roce { packets: 1 }, 1));
    packets[0].0
}

fn acknowledge() -> Vec<u8> {
    covered(0x11, 5, &[0x1f, 0, 0, 3])
}

#[test]
fn every_link_layer_leads_to_the_packet() {
    let ip = ipv4(7, &acknowledge());
    let tag = |tags: &[u8]| {
        let mut bytes = ethernet(0x0800, None, &ip);
        bytes.splice(12..12, tags.iter().copied());
        bytes
    };
    let cooked = [&[0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], &ip].concat();
    let cooked2 = [&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &ip].concat();
    let mut erf = vec![0; 18];
    erf[8] = 0x82;
    erf.splice(16..16, [0; 8]);
    let erf = [&erf[..], &ethernet(0x0800, None, &ip)].concat();
    let cases: [(LinkType, Vec<u8>); 9] = [
        (LinkType::Ethernet, ethernet(0x0800, None, &ip)),
        (LinkType::Ethernet, tag(&[0x81, 0, 0, 5])),
        (LinkType::Ethernet, tag(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6])),
        (LinkType::RawIp, ip.clone()),
        (LinkType::Null, [&[2, 0, 0, 0][..], &ip].concat()),
        (LinkType::Loop, [&[0, 0, 0, 2][..], &ip].concat()),
        (LinkType::LinuxSll, cooked),
        (LinkType::LinuxSll2, cooked2),
        (LinkType::Erf, erf),
    ];
    for (link_type, data) in cases {
        let packet = one(&data, link_type);
        assert_eq!(packet.icrc, IcrcStatus::Right, "{link_type:?}");
        assert_eq!(
            (packet.source_ip(), packet.destination_ip()),
            (SOURCE.into(), DESTINATION.into())
        );
        let is_cooked = matches!(link_type, LinkType::LinuxSll | LinkType::LinuxSll2);
        assert_eq!(packet.direction, is_cooked.then_some(Direction::Outbound));
    }
}

#[test]
fn padding_and_a_frame_check_sequence_are_no_part_of_the_packet() {
    let data = [frame(1, &acknowledge()), vec![0xee; 9]].concat();
    assert_eq!(one(&data, LinkType::Ethernet).icrc, IcrcStatus::Right);
}

#[test]
fn roce_v1_and_infiniband_have_their_own_icrc() {
    let packet = sealed(&grh(acknowledge().len()), false, &acknowledge());
    let v1 = one(&ethernet(0x8915, None, &packet), LinkType::Ethernet);
    assert_eq!((v1.encapsulation, v1.icrc), (Encapsulation::RoceV1, IcrcStatus::Right));

    let with_grh = [&[0, 3, 0, 9, 0, 17, 0, 8][..], &packet, &[0; 2]].concat();
    let global = one(&with_grh, LinkType::Infiniband);
    assert_eq!((global.encapsulation, global.icrc), (Encapsulation::Infiniband, IcrcStatus::Right));

    let lrh = [0, 2, 0, 9, 0, 7, 0, 8];
    let icrc = icrc_of_local(&lrh, &acknowledge()).to_le_bytes();
    let local = one(&[&lrh[..], &acknowledge(), &icrc, &[0; 2]].concat(), LinkType::Infiniband);
    assert_eq!(local.icrc, IcrcStatus::Right);
    assert_eq!(local.source_ip().to_string(), "::8");
}

#[test]
fn ipv6_with_extension_headers() {
    let packet = one(&ipv6(&acknowledge()), LinkType::RawIp);
    assert_eq!((packet.icrc, packet.ip_id), (IcrcStatus::Right, None));
    let mut data = ipv6(&acknowledge());
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    data.splice(40..40, options);
    data[6] = 0;
    data[5] += 8;
    assert_eq!(one(&data, LinkType::RawIp).aeth.expect("an AETH").msn, 3);
}

#[test]
fn ipv4_with_options() {
    let mut data = ipv4(1, &acknowledge());
    data.splice(20..20, [1, 1, 1, 0]);
    data[0] = 0x46;
    data[3] += 4;
    assert_eq!(one(&data, LinkType::RawIp).aeth.expect("an AETH").msn, 3);
}

#[test]
fn a_fragment_is_malformed_and_a_later_one_unknown() {
    let mut data = ipv4(1, &acknowledge());
    data[6] = 0x20;
    let malformed = FrameKind::RoceMalformed(Malformed::Fragment);
    assert_eq!(packets_of(&captured(&data, LinkType::RawIp)).0, malformed);
    data[7] = 9;
    assert_eq!(packets_of(&captured(&data, LinkType::RawIp)).0, FrameKind::Other);
}

#[test]
fn a_changed_identification_or_port_is_named() {
    let mut data = ipv4(0x1234, &acknowledge());
    data[4] = 0;
    assert_eq!(one(&data, LinkType::RawIp).icrc, IcrcStatus::RightWithIpId(0x1234));
    let mut data = ipv4(0x1234, &acknowledge());
    data[20] ^= 0x55;
    assert_eq!(one(&data, LinkType::RawIp).icrc, IcrcStatus::RightWithSourcePort(0xc123));
    data[12] ^= 1;
    assert!(matches!(one(&data, LinkType::RawIp).icrc, IcrcStatus::Wrong { .. }));
}

#[test]
fn a_cut_packet_shows_what_is_left() {
    let data = frame(1, &covered(0x06, 1, &[7; 116]));
    let of = |length: usize| {
        let cut = Frame {
            original_len: data.len() as u32,
            ..captured(&data[..length], LinkType::Ethernet)
        };
        packets_of(&cut)
    };
    let (_, packets) = of(80);
    let (packet, payload) = &packets[0];
    assert!(packet.is_cut && packet.reth.is_some());
    assert_eq!((packet.icrc, packet.payload_len), (IcrcStatus::NotChecked(NotChecked::Cut), 100));
    assert_eq!(payload.len(), 80 - 42 - 28);
    assert_eq!(of(60).1[0].0.reth, None);
    assert_eq!(of(50).0, FrameKind::RoceMalformed(Malformed::Cut));
    assert_eq!(of(37).0, FrameKind::Other);
}

#[test]
fn what_does_not_fit_is_malformed() {
    let kind = |covered: &[u8]| packets_of(&captured(&ipv4(1, covered), LinkType::RawIp)).0;
    let too_short = Malformed::TooShort { got: 12, need: 16 };
    assert_eq!(kind(&acknowledge()[..8]), FrameKind::RoceMalformed(too_short));
    let name = "RC_WRITE_FIRST";
    let no_room = Malformed::HeadersDoNotFit { name, got: 20, need: 32 };
    assert_eq!(kind(&covered(0x06, 1, &[0; 4])), FrameKind::RoceMalformed(no_room));
}

#[test]
fn unknown_opcodes_are_packets_without_a_table() {
    for opcode in [0x15, 0x46, 0xc0] {
        let packet = one(&ipv4(1, &covered(opcode, 1, &[0; 8])), LinkType::RawIp);
        assert!(packet.opcode_info.is_none() && packet.icrc == IcrcStatus::Right);
    }
}

/// A batch of `count` packets of `size` bytes of payload and a last one of `last`, behind the headers of
/// the first; identifications grow by `step`.
fn batch(count: u16, size: usize, last: usize, step: u16) -> Vec<u8> {
    let mut transport = Vec::new();
    for index in 0..count {
        let size = if index + 1 == count { last } else { size };
        let covered = covered(0x01, index.into(), &vec![index as u8; size]);
        transport.extend(&ipv4(0xfffe_u16.wrapping_add(index * step), &covered)[28..]);
    }
    let headers = ipv4_headers(0xfffe, transport.len() - 4);
    ethernet(0x0800, None, &[headers, transport].concat())
}

#[test]
fn a_batch_of_segmentation_offload_is_taken_apart() {
    for (count, size, last, step) in
        [(2, 1024, 1024, 1), (40, 1024, 12, 1), (15, 4096, 256, 1), (7, 64, 32, 0)]
    {
        let data = batch(count, size, last, step);
        let (kind, packets) = packets_of(&captured(&data, LinkType::Ethernet));
        assert_eq!(kind, FrameKind::Roce { packets: count });
        for (index, (packet, payload)) in packets.iter().enumerate() {
            assert_eq!((packet.segment, packet.bth.psn.get()), (index as u16, index as u32));
            assert_eq!(packet.icrc, IcrcStatus::Right, "{count} {size} {last} {step} {index}");
            assert_eq!(packet.ip_id.is_some(), index == 0, "those behind it get one on the way");
            let expected = if index + 1 == usize::from(count) { last } else { size };
            assert_eq!((payload.len(), packet.payload_len as usize), (expected, expected));
            assert_eq!(packet.wire_len as usize, 42 + 12 + expected + 4);
        }
    }
}

#[test]
fn a_batch_with_damage_in_it_is_taken_apart_all_the_same() {
    let mut data = batch(4, 1024, 1024, 1);
    data[42 + 1040 + 500] ^= 1;
    let (_, packets) = packets_of(&captured(&data, LinkType::Ethernet));
    let right: Vec<_> =
        packets.iter().map(|(packet, _)| packet.icrc == IcrcStatus::Right).collect();
    assert_eq!(right, [true, false, true, true]);
}

#[test]
fn a_batch_that_is_cut_ends_with_a_packet_that_is_cut() {
    let data = batch(4, 1024, 1024, 1);
    let cut =
        Frame { original_len: data.len() as u32, ..captured(&data[..2000], LinkType::Ethernet) };
    let (kind, packets) = packets_of(&cut);
    assert_eq!(kind, FrameKind::Roce { packets: 2 });
    assert_eq!(packets[1].0.icrc, IcrcStatus::NotChecked(NotChecked::Cut));
    let cut = Frame { data: &data[..100], ..cut };
    assert_eq!(packets_of(&cut).1[0].0.icrc, IcrcStatus::NotChecked(NotChecked::Cut));
}

fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut data = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let total = 40 + payload.len() as u16;
    data[2..4].copy_from_slice(&total.to_be_bytes());
    data.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
    data.extend(payload);
    data
}

#[test]
fn iwarp_is_named() {
    let kind = |payload: &[u8]| packets_of(&captured(&tcp(payload), LinkType::RawIp)).0;
    assert_eq!(kind(b"MPA ID Req Frame\x40\x01\0\0"), FrameKind::Iwarp(Iwarp::MpaRequest));
    assert_eq!(kind(b"MPA ID Rep Frame\x40\x01\0\0"), FrameKind::Iwarp(Iwarp::MpaReply));
    // A Send of 4 bytes: length 22, DDP and RDMAP in version 1, 4 bytes of CRC.
    let mut send = vec![0, 22, 0x41, 0x43];
    send.resize(28, 0);
    assert_eq!(kind(&send), FrameKind::Iwarp(Iwarp::Fpdu(3)));
    assert_eq!(kind(&[&send[..], &send].concat()), FrameKind::Iwarp(Iwarp::Fpdu(3)));
    assert_eq!(kind(&[&send[..], &[1; 9]].concat()), FrameKind::Other);
    assert_eq!(kind(b"GET / HTTP/1.1\r\n"), FrameKind::Other);
}

#[test]
fn another_port_is_asked_for() {
    let mut data = ipv4(1, &acknowledge());
    data[22..24].copy_from_slice(&9741_u16.to_be_bytes());
    assert_eq!(packets_of(&captured(&data, LinkType::RawIp)).0, FrameKind::Other);
    let mut dissector = Dissector::new(DissectorConfig { port: 9741 });
    let kind = dissector.dissect(&captured(&data, LinkType::RawIp), &mut |_, _, _| {});
    assert_eq!(kind, FrameKind::Roce { packets: 1 });
}

/// All frames with every header.
fn corpus() -> Vec<Vec<u8>> {
    let capture = every_header();
    let mut reader = CaptureReader::new(&capture[..]).expect("a capture");
    let mut frames = vec![batch(3, 64, 32, 1)];
    while let Some(frame) = reader.next_frame().expect("it is whole") {
        frames.push(frame.data.to_vec());
    }
    frames
}

const LINK_TYPES: [u32; 10] = [0, 1, 101, 108, 113, 197, 228, 247, 276, 999];

fn check(data: &[u8], link_type: u32, original_len: u32) {
    let frame = Frame { original_len, ..captured(data, LinkType::from_number(link_type)) };
    let (kind, packets) = packets_of(&frame);
    if let FrameKind::Roce { packets: count } = kind {
        assert_eq!(usize::from(count), packets.len());
    }
    for layer in fields(&frame, &DissectorConfig::default()) {
        assert!(layer.range.end <= data.len());
        layer.visit(&mut |field| assert!(field.range.end <= data.len(), "{}", field.name));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_frames_do_no_harm(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length: prop::sample::Index,
        is_cut: bool,
        link_type in prop::sample::select(&LINK_TYPES[..]),
    ) {
        let corpus = corpus();
        let mut data = which.get(&corpus).clone();
        for (at, value) in changes {
            let at = at.index(data.len().min(120));
            data[at] = value;
        }
        let original = data.len() as u32;
        if is_cut {
            data.truncate(length.index(data.len() + 1));
        }
        check(&data, 1, original);
        check(&data, link_type, original);
    }

    #[test]
    fn random_bytes_do_no_harm(
        data in prop::collection::vec(any::<u8>(), 0..300),
        original: u32,
        link_type in prop::sample::select(&LINK_TYPES[..]),
    ) {
        check(&data, link_type, original);
    }
}
