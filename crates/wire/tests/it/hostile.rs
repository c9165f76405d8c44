//! Anything may come from the wire; nothing panics, and errors name the field.

use proptest::prelude::*;
use uroce_wire::*;

use crate::samples::*;

/// B1, B2, B3: every opcode at every length, with every pad and version.
#[test]
fn b1_b2_b3_all_opcodes_lengths_pads_and_versions() {
    for opcode in (0..=255u8).step_by(OPCODE_STEP) {
        for length in (0..=128usize).step_by(LENGTH_STEP) {
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
