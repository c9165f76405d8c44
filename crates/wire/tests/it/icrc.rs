//! What the ICRC covers, what it does not, and what damage it sees.

use uroce_wire::*;

fn flow() -> Flow {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    Flow { src, dst, src_port: 0xc001, dst_port: 4791 }
}

fn flow6() -> Flow {
    Flow { src: "fd00::1".parse().unwrap(), dst: "fd00::2".parse().unwrap(), ..flow() }
}

/// BTH to ICRC, with a payload of `payload` bytes.
fn sealed(flow: &Flow, id: u16, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(0x11), Psn::new(0x1a2b)).write(&mut bytes).unwrap();
    bytes.extend((0..payload).map(|i| (i * 7) as u8));
    let crc = icrc(flow, id, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn e10_addresses_ports_identification_and_length_are_covered() {
    let packet = sealed(&flow(), 7, 32);
    assert!(verify(&flow(), 7, &packet));
    assert!(!verify(&flow(), 8, &packet));
    assert!(!verify(&Flow { src: [10, 0, 0, 3].into(), ..flow() }, 7, &packet));
    assert!(!verify(&Flow { dst: [10, 0, 0, 3].into(), ..flow() }, 7, &packet));
    assert!(!verify(&Flow { src_port: 0xc002, ..flow() }, 7, &packet));
    assert!(!verify(&Flow { dst_port: 4792, ..flow() }, 7, &packet));
    for cut in 0..packet.len() {
        assert!(!verify(&flow(), 7, &packet[..cut]), "cut to {cut}");
    }
    let v6 = sealed(&flow6(), 7, 32);
    assert!(verify(&flow6(), 8, &v6), "IPv6 has no identification");
    assert!(!verify(&flow(), 7, &v6));
}

/// A2: one wrong bit anywhere, except where the network may write.
#[test]
fn a2_one_wrong_bit_at_every_position() {
    for flow in [flow(), flow6()] {
        let packet = sealed(&flow, 7, 64);
        for bit in 0..packet.len() * 8 {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verify(&flow, 7, &damaged), bit / 8 == 4, "bit {bit}");
        }
    }
}

/// B28: the sum over a packet does not depend on how it lies in memory.
#[test]
fn b28_alignment_and_byte_order_do_not_matter() {
    let packet = sealed(&flow(), 7, 100);
    for shift in 0..16 {
        let mut moved = vec![0; shift];
        moved.extend_from_slice(&packet);
        assert!(verify(&flow(), 7, &moved[shift..]), "moved by {shift}");
    }
    assert_eq!(packet[112..], icrc_bitwise(&flow(), 7, &packet[..112]).to_le_bytes());
}

#[test]
fn e11_identifications_are_recovered_at_every_length() {
    let step = if cfg!(miri) { 377 } else { 13 };
    for payload in (0..4200).step_by(step) {
        let packet = sealed(&flow(), 0xbeef, payload);
        assert_eq!(recover(&flow(), &[0, 1], &packet), IcrcVerdict::Solved(0xbeef));
        assert_eq!(recover(&flow(), &[0xbeef], &packet), IcrcVerdict::Predicted(0xbeef));
    }
    let zero = sealed(&flow(), 0, 16);
    assert_eq!(recover(&flow(), &[0], &zero), IcrcVerdict::Predicted(0));
    assert_eq!(recover(&flow(), &[], &zero), IcrcVerdict::Solved(0));
    let v6 = sealed(&flow6(), 0, 16);
    assert_eq!(recover(&flow6(), &[], &v6), IcrcVerdict::Valid);
    assert_eq!(recover(&flow6(), &[], &v6[1..]), IcrcVerdict::Bad);
    assert_eq!(recover(&flow(), &[], &[1, 2, 3]), IcrcVerdict::Bad);
}

/// With a hidden identification 16 bits of check remain: about 1 of 65536 damaged packets passes.
#[test]
#[cfg_attr(miri, ignore = "statistics need a large sample")]
fn solved_packets_have_a_16_bit_check() {
    let packet = sealed(&flow(), 0x1234, 40);
    let mut passed = 0;
    for noise in 1..=65_535u32 {
        let mut damaged = packet.clone();
        damaged[20..24].copy_from_slice(&noise.wrapping_mul(0x9e37_79b1).to_be_bytes());
        passed += u32::from(recover(&flow(), &[0], &damaged) != IcrcVerdict::Bad);
    }
    assert!(passed <= 8, "{passed} of 65535 random damages passed");
}
