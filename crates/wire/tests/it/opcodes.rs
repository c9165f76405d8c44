//! Each opcode against the table of the specification, and each header against its bytes (R23).

use uroce_wire::*;

use crate::spec::*;

/// Of payloads. The long ones take Miri minutes.
const LENGTHS: &[usize] =
    if cfg!(miri) { &[1, 2, 3, 4, 5, 8] } else { &[1, 2, 3, 4, 5, 8, 255, 256] };

fn info(row: &Row) -> &'static OpcodeInfo {
    Opcode(row.0).info().expect(row.1)
}

#[test]
fn r23_the_opcodes_are_those_of_the_specification() {
    for byte in 0..=255u8 {
        let row = ROWS.iter().find(|row| row.0 == byte);
        let found = Opcode(byte).info();
        assert_eq!(found.map(|info| info.name), row.map(|row| row.1), "{byte:#04x}");
        assert_eq!(found.map(|info| info.opcode.0), row.map(|row| row.0));
        if let Some(row) = row {
            assert_eq!(Opcode(byte).to_string(), row.1);
        }
    }
}

#[test]
fn the_upper_three_bits_are_the_service() {
    for row in &ROWS {
        let service = match row.0 >> 5 {
            0 => Service::Rc,
            1 => Service::Uc,
            3 => Service::Ud,
            4 => Service::Cnp,
            5 => Service::Xrc,
            _ => unreachable!("{}", row.1),
        };
        assert_eq!(info(row).service, service, "{}", row.1);
        assert_eq!(Opcode(row.0 & 0x1f).of_service(service), Opcode(row.0));
    }
}

#[test]
fn the_lower_five_bits_mean_the_same_in_every_service() {
    for row in ROWS.iter().filter(|row| row.0 != Opcode::CNP.0) {
        let (own, rc) = (info(row), info(&ROWS[rc_row(row)]));
        assert_eq!((own.operation, own.position), (rc.operation, rc.position), "{}", row.1);
        assert_eq!(own.payload, rc.payload, "{}", row.1);
    }
}

/// The row of the RC opcode with the same lower bits.
fn rc_row(row: &Row) -> usize {
    ROWS.iter().position(|rc| rc.0 == row.0 & 0x1f).expect("RC has all operations")
}

#[test]
fn messages_start_and_end_as_their_names_say() {
    for row in &ROWS {
        let info = info(row);
        assert_eq!(info.starts(), row.3.contains('S'), "{}", row.1);
        assert_eq!(info.ends(), row.3.contains('E'), "{}", row.1);
    }
}

#[test]
fn requests_and_responses_are_told_apart_and_a_cnp_is_neither() {
    for row in &ROWS {
        let info = info(row);
        let response = row.1.contains("RESPONSE") || row.1.contains("ACKNOWLEDGE");
        assert_eq!(info.is_response(), response, "{}", row.1);
        assert_eq!(info.is_request(), !response && row.1 != "CNP", "{}", row.1);
    }
}

#[test]
fn what_may_follow_the_headers_is_nothing_anything_or_so_many_bytes() {
    for row in &ROWS {
        let rule = match (row.1, row.2.contains("payload")) {
            ("CNP", _) => PayloadRule::Exact(16),
            ("RC_ATOMIC_WRITE" | "XRC_ATOMIC_WRITE", _) => PayloadRule::Exact(8),
            (_, true) => PayloadRule::Any,
            (_, false) => PayloadRule::None,
        };
        assert_eq!(info(row).payload, rule, "{}", row.1);
        assert_eq!(info(row).carries_payload(), row.2.contains("payload"), "{}", row.1);
    }
}

#[test]
fn immediate_data_and_invalidation_are_named_in_the_opcode() {
    for row in &ROWS {
        assert_eq!(info(row).has_imm(), row.1.ends_with("_IMM"), "{}", row.1);
        assert_eq!(info(row).has_invalidate(), row.1.ends_with("_INV"), "{}", row.1);
    }
}

/// Services, operations and positions that no opcode stands for.
#[test]
fn what_a_service_lacks_has_no_opcode() {
    use Position::{First, Last, Middle, Only};
    let none = |service, operation, position, imm, inv| {
        let found = opcode_for(service, operation, position, imm, inv);
        assert_eq!(found, None, "{service:?} {operation:?} {position:?} imm {imm} inv {inv}");
    };
    for operation in [
        Operation::ReadRequest,
        Operation::ReadResponse,
        Operation::Acknowledge,
        Operation::AtomicAcknowledge,
        Operation::CompareSwap,
        Operation::FetchAdd,
        Operation::Flush,
        Operation::AtomicWrite,
    ] {
        none(Service::Uc, operation, Only, false, false);
        none(Service::Ud, operation, Only, false, false);
    }
    none(Service::Uc, Operation::Send, Only, false, true);
    none(Service::Uc, Operation::Send, Last, false, true);
    for position in [First, Middle, Last] {
        none(Service::Ud, Operation::Send, position, false, false);
    }
    none(Service::Ud, Operation::Write, Only, false, false);
    for service in [Service::Rc, Service::Xrc] {
        for position in [First, Middle] {
            none(service, Operation::Send, position, true, false);
            none(service, Operation::Write, position, true, false);
            none(service, Operation::Send, position, false, true);
        }
        none(service, Operation::Send, Only, true, true);
        none(service, Operation::Write, Only, false, true);
        none(service, Operation::ReadRequest, First, false, false);
        none(service, Operation::ReadRequest, Only, true, false);
        none(service, Operation::Cnp, Only, false, false);
    }
    none(Service::Cnp, Operation::Send, Only, false, false);
    assert_eq!(opcode_for(Service::Cnp, Operation::Cnp, Only, false, false), Some(Opcode::CNP));
}

#[test]
fn the_bytes_of_each_opcode_are_read_as_the_specification_lays_them_out() {
    for row in &ROWS {
        let mut bytes = headers_of(row);
        assert_eq!(info(row).header_len, bytes.len(), "{}", row.1);
        bytes.extend([0xee; ICRC_LEN]);
        let packet = Packet::parse(&bytes).expect(row.1);
        let named = |name| row.2.split(' ').any(|header| header == name);
        assert_eq!(packet.xrceth(), named("XRCETH").then_some(XRCETH), "{}", row.1);
        assert_eq!(packet.deth(), named("DETH").then_some(DETH), "{}", row.1);
        assert_eq!(packet.feth(), named("FETH").then_some(FETH), "{}", row.1);
        assert_eq!(packet.reth(), named("RETH").then_some(RETH), "{}", row.1);
        assert_eq!(packet.atomic_eth(), named("AtomicETH").then_some(ATOMIC), "{}", row.1);
        assert_eq!(packet.aeth(), named("AETH").then_some(AETH), "{}", row.1);
        assert_eq!(packet.atomic_ack_eth(), named("AtomicAckETH").then_some(ATOMIC_ACK));
        assert_eq!(packet.immdt(), named("ImmDt").then_some(IMMDT), "{}", row.1);
        assert_eq!(packet.ieth(), named("IETH").then_some(IETH), "{}", row.1);
        assert_eq!((packet.payload(), packet.icrc()), (&[][..], 0xeeee_eeee));
        assert_eq!(packet.covered(), &bytes[..bytes.len() - ICRC_LEN]);
    }
}

#[test]
fn each_opcode_is_written_as_the_specification_lays_it_out() {
    for row in &ROWS {
        let wanted = headers_of(row);
        let mut out = vec![0x5a; wanted.len() + 1];
        let mut writer = HeaderWriter::new(&mut out);
        assert!(writer.is_empty());
        writer.put(&bth(row.0)).expect(row.1);
        for name in row.2.split(' ') {
            put(&mut writer, name).expect(row.1);
        }
        assert_eq!(writer.len(), wanted.len(), "{}", row.1);
        assert_eq!(out.split_last(), Some((&0x5a, &wanted[..])), "{}", row.1);
    }
}

/// The header that [`headers_of`] writes first.
fn bth(opcode: u8) -> Bth {
    Bth {
        solicited: true,
        pkey: 0x8123,
        ack_req: true,
        ..Bth::new(Opcode(opcode), Qpn::new(0xab_cdef), Psn::new(0x12_3456))
    }
}

fn put(writer: &mut HeaderWriter<'_>, name: &str) -> Option<()> {
    match name {
        "XRCETH" => writer.put(&XRCETH),
        "DETH" => writer.put(&DETH),
        "FETH" => writer.put(&FETH),
        "RETH" => writer.put(&RETH),
        "AtomicETH" => writer.put(&ATOMIC),
        "AETH" => writer.put(&AETH),
        "AtomicAckETH" => writer.put(&ATOMIC_ACK),
        "ImmDt" => writer.put(&ImmDt(IMMDT)),
        "IETH" => writer.put(&Ieth(IETH)),
        _ => Some(()),
    }
}

#[test]
fn a_header_that_does_not_fit_leaves_the_bytes_and_the_place_alone() {
    let mut out = [0x5a; 30];
    let mut writer = HeaderWriter::new(&mut out);
    writer.put(&bth(0x0a)).expect("12 of 30 bytes");
    writer.put(&RETH).expect("28 of 30 bytes");
    assert_eq!(writer.put(&AETH), None);
    assert_eq!(writer.put(&ImmDt(0)), None);
    assert_eq!((writer.len(), writer.is_empty()), (28, false));
    assert_eq!(out[28..], [0x5a; 2]);
}

#[test]
fn the_payload_of_each_opcode_lies_between_headers_and_pad() {
    for row in ROWS.iter().filter(|row| row.2.contains("payload")) {
        for &length in LENGTHS {
            let pad = length.next_multiple_of(4) - length;
            let mut bytes = headers_of(row);
            bytes[1] |= (pad as u8) << 4;
            let payload: Vec<u8> = (0..length).map(|i| i as u8 ^ 0x80).collect();
            bytes.extend(&payload);
            bytes.extend(vec![0; pad]);
            let covered = bytes.len();
            bytes.extend([1, 2, 3, 4]);
            let packet = Packet::parse(&bytes).expect(row.1);
            assert_eq!(packet.payload(), payload, "{} {length}", row.1);
            assert_eq!((packet.bth.pad as usize, packet.covered().len()), (pad, covered));
            assert_eq!((packet.icrc(), packet.bytes()), (0x0403_0201, &bytes[..]));
        }
    }
}

/// A new BTH says what docs/wire.md has under "What we send".
#[test]
fn a_bth_of_ours_has_migreq_the_full_pkey_and_zeros() {
    let mut bytes = [0xff; 12];
    let bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(0x01_0203), Psn::new(0x04_0506));
    bth.write(&mut bytes).expect("room");
    assert_eq!(bytes.to_vec(), hex("04 40 ffff 00 010203 00 040506"));
}

/// Numbers above 24 bits, and fields above theirs, do not reach their neighbours.
#[test]
fn values_too_large_for_their_field_are_cut_to_it() {
    let mut bytes = [0; 12];
    let zero = Bth { migreq: false, pkey: 0, ..Bth::new(Opcode(0), Qpn::new(0), Psn::new(0)) };
    let cases: [(Bth, &str); 6] = [
        (Bth { pad: 0xff, ..zero }, "00 30 0000 00 000000 00 000000"),
        (Bth { tver: 0xff, ..zero }, "00 0f 0000 00 000000 00 000000"),
        (Bth { reserved6: 0xff, ..zero }, "00 00 0000 3f 000000 00 000000"),
        (Bth { reserved7: 0xff, ..zero }, "00 00 0000 00 000000 7f 000000"),
        (Bth { dest_qpn: Qpn::new(u32::MAX), ..zero }, "00 00 0000 00 ffffff 00 000000"),
        (Bth { psn: Psn::new(u32::MAX), ..zero }, "00 00 0000 00 000000 00 ffffff"),
    ];
    for (bth, wanted) in cases {
        bth.write(&mut bytes).expect("room");
        assert_eq!(bytes.to_vec(), hex(wanted));
    }
    let four = |header: &dyn Fn(&mut [u8]) -> Option<()>| {
        let mut bytes = [0; 4];
        header(&mut bytes).expect("room");
        bytes
    };
    let aeth = Aeth { syndrome: Syndrome(0), msn: u32::MAX };
    assert_eq!(four(&|out| aeth.write(out)), [0, 0xff, 0xff, 0xff]);
    assert_eq!(four(&|out| XrcEth { srqn: u32::MAX }.write(out)), [0, 0xff, 0xff, 0xff]);
    assert_eq!(four(&|out| Rdeth { ee_context: u32::MAX }.write(out)), [0, 0xff, 0xff, 0xff]);
    let feth = Feth { placement: 0xff, selectivity: 0xff };
    assert_eq!(four(&|out| feth.write(out)), [0, 0, 0, 0x3f]);
}
