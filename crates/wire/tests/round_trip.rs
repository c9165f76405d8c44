//! Each header reads back what was written.

use proptest::prelude::*;
use uroce_wire::*;

fn back<H: Header + PartialEq + std::fmt::Debug>(header: H) -> Result<(), TestCaseError> {
    let mut bytes = vec![0; H::LEN];
    prop_assert_eq!(header.write(&mut bytes), Some(()), "{}", H::NAME);
    prop_assert_eq!(H::read(&bytes), Some(header));
    bytes.pop();
    prop_assert_eq!(H::read(&bytes), None);
    prop_assert_eq!(header.write(&mut bytes), None);
    Ok(())
}

prop_compose! {
    fn bth()(
        opcode: u8, flags: [bool; 5], pad in 0u8..4, tver in 0u8..16, pkey: u16,
        reserved6 in 0u8..64, reserved7 in 0u8..128, qpn: u32, psn: u32,
    ) -> Bth {
        let [solicited, migreq, fecn, becn, ack_req] = flags;
        let (dest_qpn, psn) = (Qpn::new(qpn), Psn::new(psn));
        let opcode = Opcode(opcode);
        Bth { opcode, solicited, migreq, pad, tver, pkey, fecn, becn, reserved6, dest_qpn, ack_req, reserved7, psn }
    }
}

proptest! {
    #[test]
    fn bth_round_trip(bth in bth()) { back(bth)?; }

    #[test]
    fn extension_headers_round_trip(a: u32, b: u32, x: u64, y: u64, z: u64, s: u8) {
        back(Deth { qkey: a, src_qpn: Qpn::new(b) })?;
        back(Reth { va: x, rkey: a, length: b })?;
        back(Aeth { syndrome: Syndrome(s), msn: b & 0xff_ffff })?;
        back(AtomicEth { va: x, rkey: a, swap_add: y, compare: z })?;
        back(AtomicAckEth { original: x })?;
        back(ImmDt(a))?;
        back(Ieth(b))?;
        back(XrcEth { srqn: a & 0xff_ffff })?;
        back(Rdeth { ee_context: b & 0xff_ffff })?;
        back(Feth { placement: s & 15, selectivity: s >> 6 })?;
    }

    #[test]
    fn grh_round_trip(tc: u8, label in 0u32..1 << 20, len: u16, nh: u8, hop: u8, s: [u8; 16], d: [u8; 16]) {
        back(Grh {
            traffic_class: tc, flow_label: label, payload_len: len, next_header: nh, hop_limit: hop,
            src: Gid::new(s), dst: Gid::new(d),
        })?;
    }

    /// Every defined opcode: emit, close with an ICRC, parse, compare.
    #[test]
    fn packet_round_trip(byte: u8, payload in prop::collection::vec(any::<u8>(), 0..64), id: u16) {
        let Some(info) = Opcode(byte).info() else { return Ok(()) };
        let payload = if info.carries_payload() { &payload[..] } else { &[] };
        let mut bth = Bth::new(info.opcode, Qpn::new(5), Psn::new(6));
        bth.pad = (payload.len().wrapping_neg() & 3) as u8;
        let mut bytes = vec![0x5a; info.header_len];
        bth.write(&mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len() + usize::from(bth.pad), 0);
        let flow = Flow { src: [1, 2, 3, 4].into(), dst: [5, 6, 7, 8].into(), src_port: 1, dst_port: 4791 };
        let crc = icrc(&flow, id, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(packet.bth, bth);
        prop_assert_eq!(packet.payload(), payload);
        prop_assert_eq!(packet.icrc(), crc);
        prop_assert!(verify(&flow, id, packet.bytes()));
    }
}
