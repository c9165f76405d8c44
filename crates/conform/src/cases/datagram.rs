//! UC and UD.

use uroce_wire::Opcode;

use super::check;
use crate::case::cases;
use crate::{Bench, Operation, Outcome, Qp, pattern, status};

cases! {
    Must "uc.responder.good", "R100 B23", [197], "SENDs and WRITEs of UC are executed without an answer, also if they ask for one.", uc_good;
    Must "uc.responder.gap", "R97", [198], "A gap costs the message that it is in; the next one arrives.", uc_gap;
    Must "uc.responder.errors", "R97 R98", [199], "Wrong keys, lengths, positions and opcodes cost their message only, without an answer.", uc_errors;
    Must "uc.responder.no-receive", "R97", [199], "A SEND without a receive is dropped without an answer.", uc_no_receive;
    Must "uc.requester.no-ack-request", "R100 B23", [], "UC messages ask for no ACK and complete without one.", uc_no_ack_request;
    Must "ud.responder.good", "R99", [200], "Datagrams arrive behind 40 bytes for the network header.", ud_good;
    Must "ud.responder.qkey", "R7", [201], "A datagram with another Q_Key is dropped.", ud_qkey;
    Must "ud.responder.too-long", "R99 B9", [202], "A datagram longer than its receive is dropped, and the next one arrives.", ud_too_long;
    Must "ud.responder.no-receive", "R99", [203], "A datagram without a receive is dropped.", ud_no_receive;
    Must "ud.responder.other-opcodes", "R3", [204], "Opcodes that UD does not have are dropped.", ud_other_opcodes;
    Must "ud.responder.any-psn", "R99", [205], "The PSN of a datagram does not matter.", ud_any_psn;
}

/// Bytes in front of a datagram.
const GRH: usize = 40;

fn uc_good(b: &Bench<'_>) -> Outcome {
    let q = b.uc().open()?;
    let length = 2 * q.mtu() + 5;
    q.tx_all(&q.message(Opcode::RC_SEND_ONLY, length, 0))?;
    q.app.received(0, length)?;
    q.tx_all(&q.message(Opcode::RC_WRITE_ONLY, length, 3))?;
    q.tx(&q.send(16).psn(6))?;
    q.app.received(1, 16)?;
    q.app.written(&pattern(1, length))?;
    q.silence()
}

fn uc_gap(b: &Bench<'_>) -> Outcome {
    let q = b.uc().open()?;
    let message = q.message(Opcode::RC_SEND_ONLY, 3 * q.mtu(), 0);
    q.tx_all(&[message[0].clone(), message[2].clone(), q.send(16).psn(3)])?;
    q.app.received(0, 16)?;
    q.app.no_completion()?;
    q.silence()
}

fn uc_errors(b: &Bench<'_>) -> Outcome {
    let q = b.uc().open()?;
    q.tx_all(&[
        q.write(16).rkey(0x0bad_0b00).psn(0),
        q.write(16).va(q.at(q.region_bytes())).psn(1),
        q.packet(Opcode::RC_SEND_MIDDLE, q.mtu()).psn(2),
        q.exactly(Opcode(0x2c), 16).psn(3),
        q.write(16).dma_length(12).psn(4),
        q.send(16).psn(5),
    ])?;
    q.app.received(0, 16)?;
    q.silence()?;
    q.app.untouched()
}

fn uc_no_receive(b: &Bench<'_>) -> Outcome {
    let q = b.uc().receives(0).open()?;
    q.tx(&q.send(16).psn(0))?;
    q.silence()?;
    q.app.post_receive(0)?;
    q.tx(&q.send(16).psn(1))?;
    q.app.received(0, 16)
}

fn uc_no_ack_request(b: &Bench<'_>) -> Outcome {
    let q = b.uc().open()?;
    for psn in 0..3 {
        let work = q.app.post(Operation::Send, 16)?;
        let came = q.request(psn, Opcode::RC_SEND_ONLY)?;
        check(!came.bth().ack_req, || format!("{came} asks for an ACK"))?;
        q.app.completes(work, status::SUCCESS)?;
    }
    Ok(())
}

/// Datagram of `length` bytes in receive `index`.
fn delivered(q: &Qp<'_, '_>, index: u32, length: usize) -> Outcome {
    let completion = q.app.completes(index.into(), status::SUCCESS)?;
    let got = completion.byte_len as usize;
    check(got == GRH + length, || format!("byte_len {got}, not {} and {length}", GRH))?;
    let from = completion.src_qp;
    check(from == q.own_qpn, || format!("source queue pair {from:#x}, not {:#x}", q.own_qpn))?;
    let bytes = q.app.inbox(index, GRH + length)?;
    check(bytes[GRH..] == pattern(1, length), || "wrong bytes behind the 40".to_owned())
}

fn ud_good(b: &Bench<'_>) -> Outcome {
    let q = b.ud().receive_bytes(8192).open()?;
    for (index, length) in (0..).zip([0, 1, 16, q.mtu()]) {
        q.tx(&q.send(length).psn(index))?;
        delivered(&q, index as u32, length)?;
    }
    q.tx(&q.packet(Opcode::RC_SEND_ONLY_IMM, 16).psn(4))?;
    let completion = q.app.completes(4, status::SUCCESS)?;
    check(completion.imm == Some(0x0102_0304), || format!("immediate data {:x?}", completion.imm))
}

/// What was sent is dropped: the next datagram is the first to arrive.
fn dropped(q: &Qp<'_, '_>) -> Outcome {
    q.tx(&q.send(16))?;
    delivered(q, 0, 16)?;
    q.silence()
}

fn ud_qkey(b: &Bench<'_>) -> Outcome {
    let q = b.ud().open()?;
    q.tx_all(&[q.send(32).qkey(0), q.send(32).qkey(0x1111_1110), q.send(32).qkey(0x8000_0000)])?;
    dropped(&q)
}

fn ud_too_long(b: &Bench<'_>) -> Outcome {
    let q = b.ud().receive_bytes(64 + GRH as u32).open()?;
    q.tx(&q.send(65))?;
    dropped(&q)
}

fn ud_no_receive(b: &Bench<'_>) -> Outcome {
    let q = b.ud().receives(0).open()?;
    q.tx(&q.send(32))?;
    q.silence()?;
    q.app.post_receive(0)?;
    dropped(&q)
}

fn ud_other_opcodes(b: &Bench<'_>) -> Outcome {
    let q = b.ud().open()?;
    for opcode in [0x60, 0x61, 0x62, 0x63, 0x66, 0x6a, 0x6c, 0x04, 0x24] {
        q.tx(&q.exactly(Opcode(opcode), 32))?;
    }
    dropped(&q)
}

fn ud_any_psn(b: &Bench<'_>) -> Outcome {
    let q = b.ud().open()?;
    for (index, psn) in (0..).zip([5, -1000, 5, 1 << 22]) {
        q.tx(&q.send(16).psn(psn))?;
        delivered(&q, index, 16)?;
    }
    Ok(())
}
