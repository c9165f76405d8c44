//! A27: what is not exactly a RoCE frame is refused by field and offset, never misread.

use uroce_wire::*;

const PORTS: UdpPorts = UdpPorts { src: 0xc000, dst: ROCE_PORT };

/// Ethernet, IPv4, UDP and 20 bytes of transport packet, changed.
fn v4(change: impl FnOnce(&mut Vec<u8>)) -> Result<Option<u16>, FrameError> {
    let mut bytes = vec![0; 14 + 28 + 20];
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let ip = Ipv4 { src, dst, id: 7, ttl: 64, tos: 0x1a, df: true };
    assert_eq!(write_ethernet(&mut bytes, [2; 6], [4; 6], None, 0x0800), Some(14));
    assert_eq!(write_ipv4_udp(&mut bytes[14..], &ip, PORTS, 20), Some(28));
    assert_eq!(parse_ethernet(&bytes).unwrap().ip, Network::V4(ip));
    read(bytes, change)
}

/// The same with IPv6.
fn v6(change: impl FnOnce(&mut Vec<u8>)) -> Result<Option<u16>, FrameError> {
    let mut bytes = vec![0; 14 + 48 + 20];
    let (src, dst) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    let ip = Ipv6 { src, dst, hop_limit: 9, traffic_class: 0xb8, flow_label: 0xabcde };
    assert_eq!(write_ethernet(&mut bytes, [2; 6], [4; 6], None, 0x86dd), Some(14));
    assert_eq!(write_ipv6_udp(&mut bytes[14..], &ip, PORTS, 20), Some(48));
    assert_eq!(parse_ethernet(&bytes).unwrap().ip, Network::V6(ip));
    read(bytes, change)
}

fn read(mut bytes: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Result<Option<u16>, FrameError> {
    change(&mut bytes);
    parse_ethernet(&bytes).map(|frame| {
        assert_eq!(frame.transport.len(), 20);
        assert_eq!(frame.udp, Some(PORTS));
        frame.vlan
    })
}

fn tag(tags: &[u8], bytes: &mut Vec<u8>) {
    bytes.splice(12..12, tags.iter().copied());
}

#[test]
fn e1_a27_whole_frames_are_read() {
    assert_eq!(v4(|_| {}), Ok(None));
    assert_eq!(v6(|_| {}), Ok(None));
    // Ethernet padding behind the packet is no part of it.
    assert_eq!(v4(|b| b.extend([0; 9])), Ok(None));
    assert_eq!(v6(|b| b.extend([0; 9])), Ok(None));
    // A UDP checksum may hold anything.
    assert_eq!(v4(|b| b[40] = 0x77), Ok(None));
    // A reserved flag, DF cleared, an IPv4 checksum that the NIC would have filled in.
    assert_eq!(v4(|b| b[20] = 0), Ok(None));
    assert_eq!(v4(|b| b[24] ^= 0xff), Ok(None));
}

#[test]
fn e3_e4_a27_fragments_and_options() {
    let (field, offset) = ("IPv4 fragment offset", 20);
    assert_eq!(v4(|b| b[20] |= 0x20), Err(FrameError::Fragment { field, offset }));
    assert_eq!(v4(|b| b[21] = 1), Err(FrameError::Fragment { field, offset }));
    for ihl in (0..16u8).filter(|ihl| *ihl != 5) {
        let error = FrameError::IpOptions { field: "IPv4 IHL", offset: 14, found: ihl };
        assert_eq!(v4(|b| b[14] = 0x40 | ihl), Err(error));
    }
    let (field, offset) = ("IPv6 next header", 20);
    assert_eq!(v6(|b| b[20] = 44), Err(FrameError::Fragment { field, offset }));
    for found in [0, 43, 51, 60] {
        let error = FrameError::IpOptions { field, offset, found };
        let change = |b: &mut Vec<u8>| (b[20], b[54], b[55]) = (found, 17, 0);
        assert_eq!(v6(change), Err(error));
    }
}

#[test]
fn e5_a27_lengths_that_do_not_agree() {
    let wrong =
        |field, offset, found, room| Err(FrameError::LengthMismatch { field, offset, found, room });
    assert_eq!(v4(|b| b[39] -= 1), wrong("UDP length", 38, 27, 28));
    assert_eq!(v4(|b| b[39] += 1), wrong("UDP length", 38, 29, 28));
    assert_eq!(v4(|b| b[17] -= 1), wrong("UDP length", 38, 28, 27));
    assert_eq!(v4(|b| b[17] += 1), wrong("IPv4 total length", 16, 49, 48));
    assert_eq!(v6(|b| b[19] += 1), wrong("IPv6 payload length", 18, 69, 68));
    assert_eq!(v6(|b| b[58] = 1), wrong("UDP length", 58, 0x11c, 28));
    // A total length inside the IP header, and one inside the UDP header.
    let error = |got| Err(FrameError::Truncated { header: "UDP", offset: 34, got, need: 8 });
    assert_eq!(v4(|b| b[17] = 5), error(0));
    assert_eq!(v4(|b| b[17] = 27), error(7));
}

#[test]
fn e1_a27_other_traffic() {
    let other = |field, offset, found| Err(FrameError::NotRoce { field, offset, found });
    assert_eq!(v4(|b| b[37] = 0), other("UDP destination port", 36, 0x1200));
    assert_eq!(v4(|b| b[23] = 6), other("IPv4 protocol", 23, 6));
    assert_eq!(v6(|b| b[20] = 58), other("IPv6 next header", 20, 58));
    assert_eq!(v4(|b| b[13] = 6), other("Ethertype", 12, 0x806));
    // An Ethertype and an IP version that contradict each other.
    assert_eq!(v4(|b| b[14] = 0x65), Err(FrameError::BadVersion { offset: 14, found: 6 }));
    assert_eq!(v6(|b| b[14] = 0x45), Err(FrameError::BadVersion { offset: 14, found: 4 }));
    assert_eq!(parse_ip(&[0x55; 60]), Err(FrameError::BadVersion { offset: 0, found: 5 }));
}

#[test]
fn e2_a27_one_vlan_tag_is_read_and_stacked_ones_are_refused() {
    assert_eq!(v4(|b| tag(&[0x81, 0, 0x20, 5], b)), Ok(Some(5)));
    assert_eq!(v6(|b| tag(&[0x81, 0, 0xef, 0xff], b)), Ok(Some(0xfff)));
    let stacked = Err(FrameError::StackedVlan { offset: 12 });
    assert_eq!(v4(|b| tag(&[0x81, 0, 0, 5, 0x81, 0, 0, 6], b)), stacked);
    assert_eq!(v4(|b| tag(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], b)), stacked);
    assert_eq!(v4(|b| tag(&[0x88, 0xa8, 0, 5], b)), stacked);
    let mut out = [0; 18];
    assert_eq!(write_ethernet(&mut out, [2; 6], [4; 6], Some(5), 0x0800), Some(18));
    assert_eq!(out[12..], [0x81, 0, 0, 5, 8, 0]);
    assert_eq!(write_ethernet(&mut out, [2; 6], [4; 6], Some(4096), 0x0800), None);
}

/// Options and extension headers in front of something else than UDP, fragments of it: no RoCE at all.
#[test]
fn e40_other_traffic_with_options_is_not_roce() {
    let not_roce = |result: Result<Option<u16>, FrameError>| matches!(result, Err(error @ FrameError::NotRoce { .. }) if error.drop_reason() == DropReason::NotRoce);
    // IGMP with a router alert; a fragment of ICMP.
    assert!(not_roce(v4(|b| (b[14], b[23]) = (0x46, 2))));
    assert!(not_roce(v4(|b| (b[20], b[23]) = (0x20, 1))));
    // Multicast listener reports: ICMPv6 behind a hop-by-hop header of 8 bytes.
    assert!(not_roce(v6(|b| (b[20], b[54], b[55]) = (0, 58, 0))));
    let field = "IPv6 next header";
    let error = FrameError::NotRoce { field, offset: 62, found: 58 };
    let two = |b: &mut Vec<u8>| (b[20], b[54], b[55], b[62]) = (0, 60, 0, 58);
    assert_eq!(v6(two), Err(error));
    // UDP behind an authentication header, whose length counts words; one that leads out of the frame; a chain
    // without end.
    let options = |result| matches!(result, Err(FrameError::IpOptions { .. }));
    assert!(options(v6(|b| (b[20], b[54], b[55], b[66]) = (51, 60, 1, 17))));
    assert!(options(v6(|b| (b[20], b[54], b[55]) = (0, 60, 255))));
    assert!(options(v6(
        |b| (b[20], b[54], b[55], b[62], b[63], b[70], b[71]) = (0, 0, 0, 0, 0, 0, 0)
    )));
}

/// RoCE leaves the UDP checksum at 0, hardware may not, and offload leaves half of it: the ICRC decides.
#[test]
fn e6_a27_a_udp_checksum_right_wrong_or_absent_changes_nothing() {
    let mut bytes = vec![0; 14 + 28 + 20];
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let ip = Ipv4 { src, dst, id: 7, ttl: 64, tos: 0, df: true };
    write_ethernet(&mut bytes, [2; 6], [4; 6], None, 0x0800);
    write_ipv4_udp(&mut bytes[14..], &ip, PORTS, 20);
    bytes[42] = Opcode::RC_ACKNOWLEDGE.0;
    let icrc = parse_ethernet(&bytes).unwrap().expected_icrc().unwrap();
    bytes[58..].copy_from_slice(&icrc.to_le_bytes());
    let udp = etherparse::UdpHeader::from_slice(&bytes[34..]).unwrap().0;
    let right = udp.calc_checksum_ipv4_raw(src.octets(), dst.octets(), &bytes[42..]).unwrap();
    for checksum in [0, right, right ^ 1, 0xffff, 0x1234] {
        bytes[40..42].copy_from_slice(&checksum.to_be_bytes());
        let frame = parse_ethernet(&bytes).unwrap();
        assert!(frame.icrc_is_right() && Packet::parse(frame.transport).is_ok(), "{checksum:#x}");
    }
    bytes[43] ^= 1;
    let frame = parse_ethernet(&bytes).unwrap();
    assert!(!frame.icrc_is_right() && frame.expected_icrc().is_some_and(|right| right != icrc));
}

#[test]
fn the_expected_icrc_needs_room() {
    let short = v4(|b| {
        b.truncate(14 + 28 + 20);
        (b[17], b[39]) = (28 + 3, 8 + 3);
        assert_eq!(parse_ethernet(b).unwrap().expected_icrc(), None);
        (b[17], b[39]) = (28 + 20, 8 + 20);
    });
    assert_eq!(short, Ok(None));
}

#[test]
fn opcodes_of_services_that_roce_lacks_have_names() {
    let names = [0x46, 0x55, 0xc0].map(|code| Opcode(code).to_string());
    assert_eq!(
        names,
        ["opcode 0x46 (RD or DC WRITE_FIRST)", "opcode 0x55 (RD or DC)", "opcode 0xc0"]
    );
}

/// Cut anywhere, a frame is refused with the place where it was cut.
#[test]
fn e5_a27_truncation_at_every_length() {
    for length in 0..62 {
        let error = v4(|b| b.truncate(length)).unwrap_err();
        let wanted = match length {
            0..14 => FrameError::Truncated { header: "Ethernet", offset: 0, got: length, need: 14 },
            14..34 => {
                FrameError::Truncated { header: "IPv4", offset: 14, got: length - 14, need: 20 }
            }
            _ => FrameError::LengthMismatch {
                field: "IPv4 total length",
                offset: 16,
                found: 48,
                room: length - 14,
            },
        };
        assert_eq!(error, wanted);
    }
    for length in 0..82 {
        assert!(v6(|b| b.truncate(length)).is_err());
    }
}

#[test]
fn frame_errors_name_field_and_offset() {
    let text = |result: Result<Option<u16>, FrameError>| result.unwrap_err().to_string();
    assert_eq!(
        text(v4(|b| b[39] += 1)),
        "UDP length at offset 38 announces 29 bytes, but there are 28"
    );
    assert_eq!(text(v4(|b| b[23] = 6)), "IPv4 protocol at offset 23 is 0x0006: not a RoCE packet");
    assert_eq!(
        text(v4(|b| b.truncate(20))),
        "IPv4 header at offset 14: 20 bytes needed, 6 left; the frame was cut"
    );
}

#[test]
fn every_frame_error_has_its_counter() {
    let reason = |result: Result<Option<u16>, FrameError>| result.unwrap_err().drop_reason();
    assert_eq!(reason(v4(|b| b[21] = 1)), DropReason::Fragment);
    assert_eq!(reason(v4(|b| b[14] = 0x46)), DropReason::IpOptions);
    assert_eq!(reason(v4(|b| b[39] -= 1)), DropReason::BadLength);
    assert_eq!(reason(v4(|b| b.truncate(20))), DropReason::TooShort);
    assert_eq!(reason(v4(|b| b[23] = 6)), DropReason::NotRoce);
}

/// A RoCEv1 frame with a right ICRC.
fn v1() -> (Grh, Vec<u8>) {
    let grh = Grh {
        traffic_class: 3,
        flow_label: 9,
        payload_len: 20,
        next_header: Grh::IBA,
        hop_limit: 1,
        src: Gid::link_local([2; 6]),
        dst: Gid::link_local([4; 6]),
    };
    let mut bytes = vec![0; 14 + 40 + 20];
    write_ethernet(&mut bytes, [2; 6], [4; 6], None, ROCE_V1_ETHERTYPE).unwrap();
    grh.write(&mut bytes[14..]).unwrap();
    bytes[54] = Opcode::RC_ACKNOWLEDGE.0;
    let header: [u8; 40] = bytes[14..54].try_into().unwrap();
    let crc = icrc_v1(&header, &bytes[54..70]);
    bytes[70..].copy_from_slice(&crc.to_le_bytes());
    (grh, bytes)
}

#[test]
fn e14_roce_v1_frames_have_a_grh() {
    let (grh, mut bytes) = v1();
    let parsed = parse_ethernet(&bytes).unwrap();
    assert_eq!((parsed.ip, parsed.udp, parsed.flow()), (Network::Grh(grh), None, None));
    assert!(parsed.icrc_is_right());
    // Traffic class, flow label and hop limit are masked.
    for at in [15, 16, 17, 21] {
        bytes[at] ^= 0xff;
    }
    assert!(parse_ethernet(&bytes).unwrap().icrc_is_right());
    bytes[60] ^= 1;
    assert!(!parse_ethernet(&bytes).unwrap().icrc_is_right());
}

#[test]
fn e14_roce_v1_frames_that_are_none() {
    let read = |at: usize, value: u8| {
        let (_, mut bytes) = v1();
        bytes[at] = value;
        parse_ethernet(&bytes).map(|_| ()).unwrap_err()
    };
    let (offset, found) = (14, 4);
    assert_eq!(read(14, 0x40), FrameError::BadVersion { offset, found });
    let (field, offset, found) = ("GRH next header", 20, 17);
    assert_eq!(read(20, 17), FrameError::NotRoce { field, offset, found });
    let (field, offset, found, room) = ("GRH payload length", 18, 61, 60);
    assert_eq!(read(19, 21), FrameError::LengthMismatch { field, offset, found, room });
}

#[test]
fn e1_another_roce_port_is_read_where_it_is_asked_for() {
    let mut bytes = vec![0; 14 + 28 + 20];
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let ip = Ipv4 { src, dst, id: 7, ttl: 64, tos: 0, df: true };
    let ports = UdpPorts { src: 1, dst: 4800 };
    write_ethernet(&mut bytes, [2; 6], [4; 6], None, 0x0800);
    write_ipv4_udp(&mut bytes[14..], &ip, ports, 20);
    assert_eq!(parse_ethernet_on(&bytes, 4800).unwrap().udp, Some(ports));
    let (field, offset) = ("UDP destination port", 36);
    let refused = Err(FrameError::NotRoce { field, offset, found: 4800 });
    assert_eq!(parse_ethernet(&bytes), refused);
}
