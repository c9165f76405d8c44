//! Which packets a responder takes at all.

use uroce_wire::Opcode;

use super::check;
use crate::case::cases;
use crate::{Bench, Icrc, Outcome};

cases! {
    Must "rc.responder.send-only", "R43 R44 R50", [1, 80, 135], "A SEND at the expected PSN is acknowledged and delivered.", send_only;
    Must "rc.responder.icrc-wrong", "R9", [2, 3], "A packet with a wrong ICRC is dropped without an answer.", icrc_wrong;
    Must "rc.responder.transport-version", "R2", [7], "A packet of another transport version than 0 is dropped.", transport_version;
    Must "rc.responder.reserved-bits", "R1 C9-6", [8, 9, 10], "Reserved and congestion bits and MigReq do not matter.", reserved_bits;
    Must "rc.responder.limited-pkey", "R6", [11], "The P_Key of a limited member matches that of a full one.", limited_pkey;
    Must "rc.responder.foreign-pkey", "R6 C9-42", [12], "A packet with another P_Key is dropped.", foreign_pkey;
    Should "rc.responder.source-port", "E1", [15], "The UDP source port does not matter.", source_port;
    Must "rc.responder.other-service", "R3", [28, 35], "Opcodes of other services are dropped.", other_service;
    Free "rc.responder.reserved-opcodes", "R23", [29], "Opcodes that RC does not define draw an invalid request NAK, or nothing.", reserved_opcodes;
    Must "rc.responder.special-qpn", "R3 R14", [23, 24], "Requests of RC to QP 0, QP 1 and the multicast queue pair number are dropped.", special_qpn;
    Must "rc.responder.undefined-opcodes", "B1", [30], "Opcodes outside every service draw nothing, at any length.", undefined_opcodes;
    Must "rc.responder.runt", "R10 B2 B3", [31, 32], "A packet shorter than its headers is dropped.", runt;
    Should "rc.responder.pad-bytes", "R11", [33], "The value of pad bytes does not matter.", pad_bytes;
    Must "rc.responder.response-unasked", "R70", [34], "A response that nothing asked for is dropped.", response_unasked;
    Must "rc.responder.ack-fields", "R1", [145], "An ACK has reserved bits 0, the default P_Key, no pad and no AckReq.", ack_fields;
}

fn send_only(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for (index, length) in [16, 0, 1, 3, q.mtu() - 1, q.mtu()].into_iter().enumerate() {
        q.tx(&q.send(length).psn(index as i32))?;
        let aeth = q.ack(index as i32)?;
        check(aeth.msn == index as u32 + 1, || {
            format!("MSN {} after {} messages", aeth.msn, index + 1)
        })?;
        q.app.received(index as u32, length)?;
    }
    Ok(())
}

fn icrc_wrong(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for damage in [Icrc::BitFlipped, Icrc::Swapped, Icrc::Zero] {
        q.tx(&q.send(16).psn(0).icrc(damage))?;
    }
    q.ignored(0)?;
    q.app.no_completion()
}

fn transport_version(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for version in 1..=15 {
        q.tx(&q.send(16).psn(0).bth(|bth| bth.tver = version))?;
    }
    q.ignored(0)
}

fn reserved_bits(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).psn(0).bth(|bth| (bth.reserved6, bth.reserved7) = (0x3f, 0x7f)))?;
    q.ack(0)?;
    q.tx(&q.write(16).psn(1).bth(|bth| (bth.fecn, bth.becn) = (true, true)))?;
    q.ack(1)?;
    q.tx(&q.write(16).psn(2).bth(|bth| bth.migreq = false))?;
    q.ack(2).map(drop)
}

fn limited_pkey(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.send(16).psn(0).bth(|bth| bth.pkey = 0x7fff))?;
    q.ack(0).map(drop)
}

fn foreign_pkey(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for pkey in [0x1234, 0x9234, 0, 0x8000] {
        q.tx(&q.send(16).psn(0).bth(|bth| bth.pkey = pkey))?;
    }
    q.ignored(0)
}

fn source_port(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for index in 0..4u16 {
        q.tx(&q.write(16).psn(index.into()).source_port(0xd000 + index * 7))?;
        q.ack(index.into())?;
    }
    Ok(())
}

fn other_service(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for opcode in [0x24, 0x2a, 0x64, 0x65, 0x44, 0x46, 0x4a, 0x51] {
        q.tx(&q.exactly(Opcode(opcode), 32).psn(0))?;
    }
    q.ignored(0)?;
    q.app.no_completion()
}

fn reserved_opcodes(b: &Bench<'_>) -> Outcome {
    let mut naks = 0;
    for opcode in [0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f] {
        let q = b.rc().open()?;
        q.tx(&q.exactly(Opcode(opcode), 32).psn(0))?;
        match q.within(b.patience().silence)? {
            None => q.alive(0).map(drop)?,
            Some(came) if came.is_nak(uroce_wire::NakCode::InvalidRequest) && came.psn == 0 => {
                naks += 1
            }
            Some(came) => return super::unexpected("an invalid request NAK, or nothing", &came),
        }
    }
    b.tolerate(if naks == 0 { "it drops them" } else { "it answers with an invalid request NAK" });
    Ok(())
}

fn special_qpn(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let before = q.heard()?;
    for qpn in [0, 1, 0xff_ffff] {
        for packet in [q.send(16), q.write(16), q.read(16)] {
            q.tx(&packet.psn(0).bth(|bth| bth.dest_qpn = uroce_wire::Qpn::new(qpn)))?;
        }
    }
    q.unheard(before)?;
    q.alive(0)?;
    q.app.no_completion()?;
    q.app.untouched()
}

fn undefined_opcodes(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for opcode in (0xc0..=0xff).step_by(3) {
        for length in [0, 4, 32, 96] {
            q.tx(&q.exactly(Opcode(opcode), length).psn(0))?;
        }
    }
    q.ignored(0)
}

fn runt(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for short in [1, 4, 12, 16] {
        q.tx(&q.write(0).psn(0).cut(short))?;
        q.tx(&q.read(64).psn(0).cut(short))?;
        q.tx(&q.fetch_add(1).psn(0).cut(short))?;
    }
    for pad in 1..=3 {
        q.tx(&q.send(0).psn(0).pad(pad))?;
        q.tx(&q.write(0).psn(0).pad(pad))?;
    }
    q.ignored(0)?;
    q.app.untouched()
}

fn pad_bytes(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(17).psn(0).pad_byte(0xff))?;
    q.ack(0)?;
    q.app.written(&crate::pattern(1, 17))
}

fn response_unasked(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.acks(0, 1))?;
    q.tx(&q.response(Opcode::RC_READ_RESPONSE_ONLY, 0, &[1; 16], 1))?;
    q.tx(&q.originals(0, 7, 1))?;
    q.tx(&q.naks(0, uroce_wire::NakCode::RemoteAccess, 1))?;
    q.ignored(0)?;
    q.app.untouched()
}

fn ack_fields(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.send(16).psn(0))?;
    let came = q.next("an ACK")?;
    let bth = came.bth();
    let zeros = [bth.tver, bth.reserved6, bth.reserved7, bth.pad];
    check(zeros == [0; 4], || format!("version, reserved bits or pad are not 0: {zeros:?}"))?;
    check(bth.pkey == 0xffff, || format!("its P_Key is {:#06x}", bth.pkey))?;
    check(!bth.ack_req && !bth.solicited, || "it asks for an ACK or an event".to_owned())?;
    check(!bth.becn && !bth.fecn, || "it has congestion marks".to_owned())
}
