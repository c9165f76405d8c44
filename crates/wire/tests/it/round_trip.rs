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

/// Every header that the table names, in the order of docs/wire.md.
#[test]
fn each_opcode_gives_back_its_headers_in_order() {
    for info in (0..=255u8).filter_map(|byte| Opcode(byte).info()) {
        let mut bytes = [0; 128];
        let end = info.header_len + ICRC_LEN;
        write_all(info, &mut bytes[..info.header_len]).expect(info.name);
        let packet = Packet::parse(&bytes[..end]).unwrap();
        let has = |set| info.headers.contains(set);
        assert_eq!(packet.xrceth(), has(HeaderSet::XRCETH).then_some(XRCETH), "{}", info.name);
        assert_eq!(packet.deth(), has(HeaderSet::DETH).then_some(DETH), "{}", info.name);
        assert_eq!(packet.feth(), has(HeaderSet::FETH).then_some(FETH), "{}", info.name);
        assert_eq!(packet.reth(), has(HeaderSet::RETH).then_some(RETH), "{}", info.name);
        assert_eq!(packet.atomic_eth(), has(HeaderSet::ATOMIC_ETH).then_some(ATOMIC));
        assert_eq!(packet.aeth(), has(HeaderSet::AETH).then_some(AETH), "{}", info.name);
        assert_eq!(packet.atomic_ack_eth(), has(HeaderSet::ATOMIC_ACK_ETH).then_some(ATOMIC_ACK));
        assert_eq!(packet.immdt(), info.has_imm().then_some(7), "{}", info.name);
        assert_eq!(packet.ieth(), info.has_invalidate().then_some(8), "{}", info.name);
    }
}

const XRCETH: XrcEth = XrcEth { srqn: 0x11_2233 };
const DETH: Deth = Deth { qkey: 0x4455_6677, src_qpn: Qpn::new(0x88_99aa) };
const FETH: Feth = Feth { placement: 3, selectivity: 1 };
const RETH: Reth = Reth { va: 0x0102_0304_0506_0708, rkey: 0x1112_1314, length: 0x2122_2324 };
const ATOMIC: AtomicEth = AtomicEth { va: 0x3132, rkey: 0x4142, swap_add: !0, compare: 0x5152 };
const AETH: Aeth = Aeth { syndrome: Syndrome::ack(31), msn: 0x61_6263 };
const ATOMIC_ACK: AtomicAckEth = AtomicAckEth { original: 0x7172_7374_7576_7778 };

/// Fills `out` exactly; `None` if the headers do not fit.
fn write_all(info: &OpcodeInfo, out: &mut [u8]) -> Option<()> {
    let whole = out.len();
    let mut writer = HeaderWriter::new(out);
    writer.put(&Bth::new(info.opcode, Qpn::new(5), Psn::new(6)))?;
    let has = |set| info.headers.contains(set);
    if has(HeaderSet::XRCETH) {
        writer.put(&XRCETH)?;
    }
    if has(HeaderSet::DETH) {
        writer.put(&DETH)?;
    }
    if has(HeaderSet::FETH) {
        writer.put(&FETH)?;
    }
    if has(HeaderSet::RETH) {
        writer.put(&RETH)?;
    }
    if has(HeaderSet::ATOMIC_ETH) {
        writer.put(&ATOMIC)?;
    }
    if has(HeaderSet::AETH) {
        writer.put(&AETH)?;
    }
    if has(HeaderSet::ATOMIC_ACK_ETH) {
        writer.put(&ATOMIC_ACK)?;
    }
    if has(HeaderSet::IMMDT) {
        writer.put(&ImmDt(7))?;
    }
    if has(HeaderSet::IETH) {
        writer.put(&Ieth(8))?;
    }
    assert_eq!((writer.len(), writer.put(&ImmDt(9))), (whole, None), "{}", info.name);
    Some(())
}
