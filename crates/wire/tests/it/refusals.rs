//! Which bytes are refused as a packet, for which reason first, and in which words.

use uroce_wire::*;

use crate::samples::*;
use crate::spec::*;

/// Checks 1 to 4 of docs/wire.md, as slowly and plainly as they are written there.
fn by_the_book(bytes: &[u8]) -> Result<(), ParseError> {
    let got = bytes.len();
    if got < 16 {
        return Err(ParseError::TooShort { got, need: 16 });
    }
    let Some(row) = ROWS.iter().find(|row| row.0 == bytes[0]) else {
        return Err(ParseError::UnknownOpcode { opcode: bytes[0] });
    };
    let (pad, tver) = (bytes[1] >> 4 & 3, bytes[1] & 0x0f);
    let extensions: usize = row.2.split(' ').map(|name| header_bytes(name).len()).sum();
    let need = 12 + extensions + usize::from(pad) + 4;
    if got < need {
        return Err(ParseError::HeadersDoNotFit { name: row.1, got, need });
    }
    if pad > 0 && got == need {
        return Err(ParseError::BadPad { pad });
    }
    if tver != 0 { Err(ParseError::BadTransportVersion { tver }) } else { Ok(()) }
}

#[test]
fn r1_to_r11_each_opcode_length_pad_and_version_is_judged_by_the_book() {
    for opcode in (0..=255u8).step_by(OPCODE_STEP) {
        for flags in [0x00, 0x10, 0x20, 0x30, 0x01, 0x0f, 0x31, 0xc0, 0xff] {
            let mut bytes = [0x77; 64];
            (bytes[0], bytes[1]) = (opcode, flags);
            for length in (0..=bytes.len()).step_by(LENGTH_STEP) {
                let found = Packet::parse(&bytes[..length]).map(|_| ());
                assert_eq!(found, by_the_book(&bytes[..length]), "{opcode:#x} {flags:#x} {length}");
            }
        }
    }
}

/// What is wrong in several ways is refused for the first of them, so that a counter means one thing.
#[test]
fn of_several_errors_the_first_check_names_its_own() {
    // An unknown opcode, a bad version and pad, one byte short of a BTH and an ICRC.
    let mut bytes = vec![0xff; 15];
    let reason = |bytes: &[u8]| Packet::parse(bytes).unwrap_err().drop_reason();
    assert_eq!(reason(&bytes), DropReason::TooShort);
    bytes.push(0xff);
    assert_eq!(reason(&bytes), DropReason::UnknownOpcode);
    bytes[0] = Opcode::RC_WRITE_ONLY.0;
    assert_eq!(reason(&bytes), DropReason::BadLength);
    bytes.resize(12 + 16 + 3 + 4, 0);
    assert_eq!(reason(&bytes), DropReason::BadPad);
    bytes.push(0);
    assert_eq!(reason(&bytes), DropReason::BadTransportVersion);
    bytes[1] = 0xf0;
    assert!(Packet::parse(&bytes).is_ok(), "one byte of payload and three of pad");
}

#[test]
fn each_transport_version_but_0_is_refused_by_its_number() {
    for tver in 1..16u8 {
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (Opcode::RC_SEND_ONLY.0, tver);
        let error = Packet::parse(&bytes).unwrap_err();
        assert_eq!(error, ParseError::BadTransportVersion { tver });
        let text = format!("BTH offset 1: transport version {tver}, only 0 exists");
        assert_eq!(error.to_string(), text);
    }
}

/// What a receiver must not mind: reserved bits, congestion marks, MigReq, any P_Key, any credits (docs/wire.md).
#[test]
fn e1_fields_that_are_free_do_not_stop_a_packet() {
    let mut bytes = headers_of(&ROWS[17]);
    bytes.extend([0; ICRC_LEN]);
    for (at, mask) in [(1, 0xc0), (2, 0xff), (3, 0xff), (4, 0xff), (8, 0xff), (12, 0xff)] {
        for value in 0..=255u8 {
            let mut changed = bytes.clone();
            changed[at] ^= value & mask;
            let packet = Packet::parse(&changed).expect("nothing of it is checked here");
            assert_eq!(packet.bth.dest_qpn, Qpn::new(0xab_cdef));
            assert_eq!((packet.bth.psn, packet.bth.opcode), (Psn::new(0x12_3456), Opcode(0x11)));
        }
    }
}

#[test]
fn an_unknown_opcode_is_named_by_its_number_or_by_the_service_that_has_it() {
    let text = |opcode: u8| Packet::parse(&[opcode; 20]).unwrap_err().to_string();
    assert_eq!(text(0x15), "BTH offset 0: opcode 0x15 is not defined");
    assert_eq!(text(0x44), "BTH offset 0: opcode 0x44 (RD or DC SEND_ONLY) is not defined");
    assert_eq!(text(0x5f), "BTH offset 0: opcode 0x5f (RD or DC) is not defined");
    assert_eq!(text(0xff), "BTH offset 0: opcode 0xff is not defined");
}

#[test]
fn a_short_packet_is_told_how_many_bytes_its_own_headers_take() {
    for row in &ROWS {
        let mut bytes = headers_of(row);
        bytes[1] |= 0x20;
        let need = bytes.len() + 2 + ICRC_LEN;
        bytes.resize(need - 1, 0);
        let error = Packet::parse(&bytes).unwrap_err();
        let got = need - 1;
        assert_eq!(error, ParseError::HeadersDoNotFit { name: row.1, got, need });
        let text = format!("{}: {got} bytes, but headers, pad and ICRC take {need}", row.1);
        assert_eq!((error.to_string(), error.drop_reason()), (text, DropReason::BadLength));
    }
}

/// Counters of reasons are an interface: their names do not change by accident, and each explains itself.
#[test]
fn the_reasons_of_the_parser_have_these_counters() {
    let names = [
        (DropReason::TooShort, "too_short"),
        (DropReason::UnknownOpcode, "unknown_opcode"),
        (DropReason::BadLength, "bad_length"),
        (DropReason::BadPad, "bad_pad"),
        (DropReason::BadTransportVersion, "bad_transport_version"),
        (DropReason::NotRoce, "not_roce"),
        (DropReason::Fragment, "fragment"),
        (DropReason::IpOptions, "ip_options"),
        (DropReason::BadIcrc, "bad_icrc"),
    ];
    for (reason, name) in names {
        assert_eq!((reason.name(), reason.to_string()), (name, name.to_owned()));
        assert!(DropReason::ALL.contains(&reason));
    }
    assert_eq!(DropReason::ALL.len(), DropReason::COUNT);
}
