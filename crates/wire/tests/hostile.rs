//! Anything may come from the wire; nothing panics, and errors name the field.

use proptest::prelude::*;
use uroce_wire::*;

/// B1, B2, B3: every opcode at every length, with every pad and version.
#[test]
fn b1_b2_b3_all_opcodes_lengths_pads_and_versions() {
    for opcode in 0..=255u8 {
        for length in 0..=128usize {
            for flags in (0..4u8).map(|pad| pad << 4).chain(1..16) {
                let mut bytes = vec![0xa5; length];
                if length >= 2 {
                    (bytes[0], bytes[1]) = (opcode, flags);
                }
                check(&bytes);
            }
        }
    }
}

/// A packet that parses has all that its opcode promises.
fn check(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    let pad = usize::from(packet.bth.pad);
    assert_eq!(packet.info.header_len + packet.payload().len() + pad + 4, bytes.len());
    let has = |set| packet.info.headers.contains(set);
    assert_eq!(packet.deth().is_some(), has(HeaderSet::DETH));
    assert_eq!(packet.reth().is_some(), has(HeaderSet::RETH));
    assert_eq!(packet.aeth().is_some(), has(HeaderSet::AETH));
    assert_eq!(packet.atomic_eth().is_some(), has(HeaderSet::ATOMIC_ETH));
    assert_eq!(packet.atomic_ack_eth().is_some(), has(HeaderSet::ATOMIC_ACK_ETH));
    assert_eq!(packet.immdt().is_some(), has(HeaderSet::IMMDT));
    assert_eq!(packet.ieth().is_some(), has(HeaderSet::IETH));
    assert_eq!(packet.feth().is_some(), has(HeaderSet::FETH));
    assert_eq!(packet.xrceth().is_some(), has(HeaderSet::XRCETH));
    assert_eq!(packet.bth.tver, 0);
}

/// Exact edges: one byte less than the headers need is refused.
#[test]
fn b3_one_byte_short_is_refused_for_every_opcode() {
    for opcode in (0..=255u8).map(Opcode) {
        let Some(info) = opcode.info() else {
            let error = Packet::parse(&[opcode.0; 64]).unwrap_err();
            assert_eq!(error, ParseError::UnknownOpcode { opcode: opcode.0 });
            continue;
        };
        let mut bytes = vec![0; info.header_len + ICRC_LEN];
        bytes[0] = opcode.0;
        assert!(Packet::parse(&bytes).is_ok(), "{}", info.name);
        bytes.pop();
        let error = Packet::parse(&bytes).unwrap_err();
        assert!(matches!(error.drop_reason(), DropReason::BadLength | DropReason::TooShort));
    }
}

#[test]
fn errors_name_field_and_offset() {
    let text = |bytes: &[u8]| Packet::parse(bytes).unwrap_err().to_string();
    assert_eq!(text(&[0; 15]), "15 bytes behind UDP, but BTH and ICRC take 16");
    assert_eq!(text(&[0xff; 48]), "BTH offset 0: opcode 0xff is not defined");
    let mut packet = [0; 20];
    packet[0] = 0x0a;
    assert_eq!(text(&packet), "RC_WRITE_ONLY: 20 bytes, but headers, pad and ICRC take 32");
    let mut packet = [0; 16];
    (packet[0], packet[1]) = (4, 3);
    assert_eq!(text(&packet), "BTH offset 1: transport version 3, only 0 exists");
    let mut packet = [0; 19];
    (packet[0], packet[1]) = (4, 0x30);
    assert_eq!(text(&packet), "BTH offset 1: 3 pad bytes where there is no payload");
}

fn frame(change: impl FnOnce(&mut Vec<u8>)) -> Result<(), FrameError> {
    let ip = |last| std::net::Ipv4Addr::new(10, 0, 0, last);
    let mut bytes = vec![0; 14 + 28 + 20];
    write_ethernet([2; 6], [4; 6], 0x0800, &mut bytes).unwrap();
    write_ipv4_udp((ip(1), 0xc000), (ip(2), 4791), 7, 64, 0, 20, &mut bytes[14..]).unwrap();
    change(&mut bytes);
    parse_ethernet(&bytes).map(|_| ())
}

/// A27: what is not exactly a RoCE frame is refused, never misread.
#[test]
fn a27_fragments_options_lengths_and_other_traffic() {
    assert_eq!(frame(|_| {}), Ok(()));
    assert_eq!(frame(|b| b[14] = 0x46), Err(FrameError::IpOptions { offset: 0 }));
    assert_eq!(frame(|b| b[20] |= 0x20), Err(FrameError::Fragment { offset: 6 }));
    assert_eq!(frame(|b| b[21] = 1), Err(FrameError::Fragment { offset: 6 }));
    assert_eq!(frame(|b| b[39] -= 1), Err(FrameError::LengthMismatch { udp: 27, ip: 28 }));
    assert_eq!(
        frame(|b| b[37] = 0),
        Err(FrameError::NotRoce { field: "UDP destination port", value: 0x1200 })
    );
    assert_eq!(frame(|b| b[23] = 6), Err(FrameError::NotRoce { field: "IP protocol", value: 6 }));
    assert_eq!(
        frame(|b| b.truncate(40)),
        Err(FrameError::TooShort { layer: "IPv4", got: 26, need: 48 })
    );
    assert_eq!(frame(|b| b[13] = 6), Err(FrameError::NotRoce { field: "Ethertype", value: 0x806 }));
    // Ethernet padding behind the packet is no part of it.
    assert_eq!(frame(|b| b.extend([0; 9])), Ok(()));
}

#[test]
fn a27_one_vlan_tag_is_read_and_two_are_refused() {
    let tagged = |tags: &[u8], bytes: &mut Vec<u8>| {
        let rest = bytes.split_off(12);
        bytes.extend_from_slice(tags);
        bytes.extend_from_slice(&rest);
    };
    assert_eq!(frame(|b| tagged(&[0x81, 0, 0x20, 5], b)), Ok(()));
    let twice = frame(|b| tagged(&[0x81, 0, 0x20, 5, 0x81, 0, 0, 6], b));
    assert_eq!(twice, Err(FrameError::NotRoce { field: "Ethertype", value: 0x8100 }));
}

#[test]
fn roce_v1_frames_have_a_grh() {
    let (src, dst) = (Gid::link_local([2; 6]), Gid::link_local([4; 6]));
    let next_header = Grh::IBA;
    let grh = Grh {
        traffic_class: 3,
        flow_label: 9,
        payload_len: 20,
        next_header,
        hop_limit: 1,
        src,
        dst,
    };
    let mut bytes = vec![0; 14 + 40 + 20];
    write_ethernet([2; 6], [4; 6], ROCE_V1_ETHERTYPE, &mut bytes).unwrap();
    grh.write(&mut bytes[14..]).unwrap();
    bytes[54] = Opcode::RC_ACKNOWLEDGE.0;
    let header: [u8; 40] = bytes[14..54].try_into().unwrap();
    let crc = icrc_v1(&header, &bytes[54..70]);
    bytes[70..].copy_from_slice(&crc.to_le_bytes());
    let parsed = parse_ethernet(&bytes).unwrap();
    assert_eq!(parsed.network, Network::Grh(grh));
    assert!(parsed.icrc_is_right());
    bytes[60] ^= 1;
    assert!(!parse_ethernet(&bytes).unwrap().icrc_is_right());
}

proptest! {
    #[test]
    fn any_bytes_are_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
        for parsed in [parse_ethernet(&bytes), parse_ip(&bytes)].into_iter().flatten() {
            parsed.icrc_is_right();
            check(parsed.transport);
        }
        let flow = Flow { src: [1, 2, 3, 4].into(), dst: [5, 6, 7, 8].into(), src_port: 1, dst_port: 2 };
        recover(&flow, &[0], &bytes);
        verify(&flow, 0, &bytes);
    }

    #[test]
    fn fast_icrc_equals_one_bit_at_a_time(
        id: u16,
        covered in prop::collection::vec(any::<u8>(), 0..200),
        v6: bool,
    ) {
        let flow = if v6 {
            Flow { src: "fd00::1".parse().unwrap(), dst: "fd00::2".parse().unwrap(), src_port: 3, dst_port: 4791 }
        } else {
            Flow { src: [1, 2, 3, 4].into(), dst: [5, 6, 7, 8].into(), src_port: 3, dst_port: 4791 }
        };
        prop_assert_eq!(icrc(&flow, id, &covered), icrc_bitwise(&flow, id, &covered));
    }
}
