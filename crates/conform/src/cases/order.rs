//! Positions and lengths of the packets of a message.

use uroce_wire::{NakCode, Opcode};

use super::keys::nak_of_atomic;
use super::unexpected;
use crate::case::cases;
use crate::{Bench, Outcome, Packet, Qp, pattern};

cases! {
    Must "rc.responder.middle-first", "R22", [67], "A MIDDLE without a FIRST is an invalid request.", middle_first;
    Must "rc.responder.last-first", "R22", [68], "A LAST without a FIRST is an invalid request.", last_first;
    Must "rc.responder.first-first", "R21", [69], "A FIRST behind a FIRST is an invalid request.", first_first;
    Must "rc.responder.first-only", "R21", [70], "An ONLY behind a FIRST is an invalid request.", first_only;
    Must "rc.responder.send-then-write", "R21", [71], "A WRITE MIDDLE in a SEND is an invalid request.", send_then_write;
    Must "rc.responder.write-then-send", "R21", [72], "A SEND LAST in a WRITE is an invalid request.", write_then_send;
    Must "rc.responder.read-inside", "R21", [73], "A READ in the middle of a message is an invalid request.", read_inside;
    Must "rc.responder.atomic-inside", "R21", [74], "An atomic in the middle of a message is an invalid request.", atomic_inside;
    Must "rc.responder.order-matrix", "R21", [75], "Behind FIRST and MIDDLE only MIDDLE and LAST of the same operation are valid.", order_matrix;
    Must "rc.responder.long-messages", "R21 R24", [], "SENDs and WRITEs of 1, 2, 3 and 5 packets arrive whole.", long_messages;
    Must "rc.responder.every-mtu", "R24", [], "A message of several packets arrives whole at every path MTU.", every_mtu;
    Must "rc.responder.first-short", "R24 C9-92", [76], "A FIRST shorter than the path MTU is an invalid request.", first_short;
    Free "rc.responder.first-long", "R24", [77], "A FIRST longer than the path MTU is an invalid request, or dropped.", first_long;
    Must "rc.responder.middle-short", "R24 B8", [78], "A MIDDLE shorter than the path MTU is an invalid request.", middle_short;
    Must "rc.responder.last-empty", "R24", [79], "A LAST without payload is an invalid request.", last_empty;
    Free "rc.responder.only-long", "R24", [81], "An ONLY longer than the path MTU is an invalid request, or dropped.", only_long;
    Free "rc.responder.pad-on-first", "R11", [82], "A FIRST with pad is an invalid request, or dropped.", pad_on_first;
    Free "rc.responder.dma-length-too-big", "R25 C9-94 A4", [83], "A DMA length above 2^31 is an invalid request, or a remote access error.", dma_length_too_big;
    Must "rc.responder.write-ends-early", "R26", [84], "A WRITE that ends before its DMA length is an invalid request.", write_ends_early;
    Must "rc.responder.write-too-long", "R26 A4", [85], "A WRITE that goes on beyond its DMA length is an invalid request, and writes nothing there.", write_too_long;
    Must "rc.responder.write-only-mismatch", "R26 B4", [86], "A WRITE ONLY whose payload is not its DMA length is an invalid request, and writes nothing.", write_only_mismatch;
    Free "rc.responder.read-with-payload", "R24", [87], "A READ request with payload is an invalid request, dropped, or answered.", read_with_payload;
}

/// Packets of which the last is an invalid request; their PSNs go on from 0.
fn refused(b: &Bench<'_>, packets: impl FnOnce(&Qp<'_, '_>) -> Vec<Packet>) -> Outcome {
    let q = b.rc().open()?;
    let packets = packets(&q);
    let last = packets.len() as i32 - 1;
    for (psn, packet) in packets.into_iter().enumerate() {
        q.tx(&packet.psn(psn as i32))?;
    }
    q.fatal(last, NakCode::InvalidRequest)
}

/// A packet that may be an invalid request, or be dropped.
fn refused_or_dropped(b: &Bench<'_>, packet: impl FnOnce(&Qp<'_, '_>) -> Packet) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&packet(&q).psn(0))?;
    match q.within(b.patience().silence)? {
        None => {
            q.alive(0)?;
            b.tolerate("it drops it");
        }
        Some(came) if came.is_nak(NakCode::InvalidRequest) && came.psn == 0 => {
            b.tolerate("it answers with an invalid request NAK");
        }
        Some(came) => return unexpected("an invalid request NAK, or nothing", &came),
    }
    q.app.untouched()
}

fn first(q: &Qp<'_, '_>, opcode: Opcode) -> Packet {
    q.packet(opcode, q.mtu()).dma_length(3 * q.mtu())
}

fn middle_first(b: &Bench<'_>) -> Outcome {
    refused(b, |q| vec![q.packet(Opcode::RC_SEND_MIDDLE, q.mtu()).ack_req()])?;
    refused(b, |q| vec![q.packet(Opcode::RC_WRITE_MIDDLE, q.mtu()).ack_req()])
}

fn last_first(b: &Bench<'_>) -> Outcome {
    refused(b, |q| vec![q.packet(Opcode::RC_WRITE_LAST, 16)])?;
    refused(b, |q| vec![q.packet(Opcode::RC_SEND_LAST, 16)])
}

fn first_first(b: &Bench<'_>) -> Outcome {
    let twice = |opcode| refused(b, move |q| vec![first(q, opcode), first(q, opcode)]);
    twice(Opcode::RC_SEND_FIRST)?;
    twice(Opcode::RC_WRITE_FIRST)
}

fn first_only(b: &Bench<'_>) -> Outcome {
    refused(b, |q| vec![first(q, Opcode::RC_SEND_FIRST), q.send(16)])?;
    refused(b, |q| vec![first(q, Opcode::RC_WRITE_FIRST), q.write(16)])
}

fn send_then_write(b: &Bench<'_>) -> Outcome {
    refused(b, |q| {
        vec![first(q, Opcode::RC_SEND_FIRST), q.packet(Opcode::RC_WRITE_MIDDLE, q.mtu())]
    })
}

fn write_then_send(b: &Bench<'_>) -> Outcome {
    refused(b, |q| vec![first(q, Opcode::RC_WRITE_FIRST), q.packet(Opcode::RC_SEND_LAST_IMM, 16)])
}

fn read_inside(b: &Bench<'_>) -> Outcome {
    refused(b, |q| vec![first(q, Opcode::RC_SEND_FIRST), q.read(16)])
}

fn atomic_inside(b: &Bench<'_>) -> Outcome {
    super::sequence::needs_atomics(b)?;
    let q = b.rc().open()?;
    q.tx_all(&[first(&q, Opcode::RC_WRITE_FIRST).psn(0), q.fetch_add(1).psn(1)])?;
    nak_of_atomic(&q, 1, NakCode::InvalidRequest).map(drop)
}

/// Every request that RC has had from the beginning.
const REQUESTS: [Opcode; 17] = [
    Opcode::RC_SEND_FIRST,
    Opcode::RC_SEND_MIDDLE,
    Opcode::RC_SEND_LAST,
    Opcode::RC_SEND_LAST_IMM,
    Opcode::RC_SEND_ONLY,
    Opcode::RC_SEND_ONLY_IMM,
    Opcode::RC_WRITE_FIRST,
    Opcode::RC_WRITE_MIDDLE,
    Opcode::RC_WRITE_LAST,
    Opcode::RC_WRITE_LAST_IMM,
    Opcode::RC_WRITE_ONLY,
    Opcode::RC_WRITE_ONLY_IMM,
    Opcode::RC_READ_REQUEST,
    Opcode::RC_COMPARE_SWAP,
    Opcode::RC_FETCH_ADD,
    Opcode::RC_SEND_LAST_INV,
    Opcode::RC_SEND_ONLY_INV,
];

fn order_matrix(b: &Bench<'_>) -> Outcome {
    let starts = [Opcode::RC_SEND_FIRST, Opcode::RC_WRITE_FIRST];
    for (start, behind) in starts.into_iter().flat_map(|s| REQUESTS.map(|request| (s, request))) {
        if continues(start, behind) {
            continue;
        }
        let q = b.rc().open()?;
        let next = if ends_short(behind) { 16 } else { q.mtu() };
        q.tx(&first(&q, start).psn(0))?;
        q.tx(&q.packet(behind, next).data(&pattern(1, payload(behind, next))).psn(1).ack_req())?;
        match behind {
            Opcode::RC_COMPARE_SWAP | Opcode::RC_FETCH_ADD => {
                nak_of_atomic(&q, 1, NakCode::InvalidRequest)?;
            }
            _ => drop(q.nak(1, NakCode::InvalidRequest)?),
        }
    }
    Ok(())
}

/// The packet may stand behind a FIRST.
fn continues(start: Opcode, behind: Opcode) -> bool {
    let (Some(start), Some(behind)) = (start.info(), behind.info()) else { return false };
    start.operation == behind.operation && !behind.starts()
}

fn ends_short(opcode: Opcode) -> bool {
    opcode.info().is_some_and(|info| info.ends())
}

/// Bytes that the packet may carry.
fn payload(opcode: Opcode, length: usize) -> usize {
    if opcode.info().is_some_and(|info| info.carries_payload()) { length } else { 0 }
}

fn long_messages(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receive_bytes(8192).open()?;
    let mtu = q.mtu();
    let (mut psn, mut index) = (0, 0);
    for length in [mtu, mtu + 1, 2 * mtu, 3 * mtu - 1, 5 * mtu] {
        for opcode in [Opcode::RC_SEND_ONLY, Opcode::RC_WRITE_ONLY] {
            let message = q.message(opcode, length, psn);
            q.tx_all(&message)?;
            psn += message.len() as i32;
            q.ack(psn - 1)?;
        }
        q.app.received(index, length)?;
        q.app.written(&pattern(1, length))?;
        index += 1;
    }
    Ok(())
}

fn every_mtu(b: &Bench<'_>) -> Outcome {
    for mtu in uroce_wire::Mtu::ALL.into_iter().filter(|mtu| mtu.code() <= b.card().mtu) {
        let q = b.rc().mtu(mtu).open()?;
        let length = 3 * q.mtu() - 7;
        q.tx_all(&q.message(Opcode::RC_WRITE_ONLY, length, 0))?;
        q.ack(2)?;
        q.app.written(&pattern(1, length))?;
    }
    Ok(())
}

fn first_short(b: &Bench<'_>) -> Outcome {
    for opcode in [Opcode::RC_SEND_FIRST, Opcode::RC_WRITE_FIRST] {
        refused(b, |q| vec![q.packet(opcode, q.mtu() - 4).dma_length(3 * q.mtu()).ack_req()])?;
    }
    Ok(())
}

fn first_long(b: &Bench<'_>) -> Outcome {
    refused_or_dropped(b, |q| {
        q.packet(Opcode::RC_WRITE_FIRST, q.mtu() + 4).dma_length(3 * q.mtu()).ack_req()
    })
}

fn middle_short(b: &Bench<'_>) -> Outcome {
    refused(b, |q| {
        let middle = q.packet(Opcode::RC_WRITE_MIDDLE, q.mtu() - 4);
        vec![first(q, Opcode::RC_WRITE_FIRST), middle.ack_req()]
    })
}

fn last_empty(b: &Bench<'_>) -> Outcome {
    refused(b, |q| vec![first(q, Opcode::RC_SEND_FIRST), q.packet(Opcode::RC_SEND_LAST, 0)])
}

fn only_long(b: &Bench<'_>) -> Outcome {
    refused_or_dropped(b, |q| q.write(q.mtu() + 1))
}

fn pad_on_first(b: &Bench<'_>) -> Outcome {
    refused_or_dropped(b, |q| {
        q.packet(Opcode::RC_WRITE_FIRST, q.mtu()).dma_length(3 * q.mtu()).pad(1).ack_req()
    })
}

fn dma_length_too_big(b: &Bench<'_>) -> Outcome {
    for length in [(1usize << 31) + 1, 0xffff_ffff] {
        let q = b.rc().open()?;
        q.tx(&q.packet(Opcode::RC_WRITE_FIRST, q.mtu()).dma_length(length).psn(0).ack_req())?;
        let came = q.next("an invalid request or remote access NAK")?;
        match [NakCode::InvalidRequest, NakCode::RemoteAccess].map(|code| came.is_nak(code)) {
            [true, _] => b.tolerate("invalid request"),
            [_, true] => b.tolerate("remote access error: it looks at the key first"),
            _ => return unexpected("an invalid request or remote access NAK", &came),
        }
        q.dead(0)?;
        q.app.untouched()?;
    }
    Ok(())
}

fn write_ends_early(b: &Bench<'_>) -> Outcome {
    refused(b, |q| vec![first(q, Opcode::RC_WRITE_FIRST), q.packet(Opcode::RC_WRITE_LAST, 16)])
}

fn write_too_long(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let mtu = q.mtu();
    let start = q.packet(Opcode::RC_WRITE_FIRST, mtu).dma_length(mtu + 8);
    q.tx(&start.psn(0))?;
    q.tx(&q.packet(Opcode::RC_WRITE_LAST, 16).psn(1))?;
    q.fatal(1, NakCode::InvalidRequest)?;
    let beyond = q.app.memory(mtu + 8, 64)?;
    let same = beyond == pattern(0, mtu + 72)[mtu + 8..];
    super::check(same, || "it wrote behind the DMA length".to_owned())
}

fn write_only_mismatch(b: &Bench<'_>) -> Outcome {
    for (payload, length) in [(16, 12), (16, 20), (0, 8), (8, 0)] {
        let q = b.rc().open()?;
        q.tx(&q.write(payload).dma_length(length).psn(0))?;
        q.fatal(0, NakCode::InvalidRequest)?;
        q.app.untouched()?;
    }
    Ok(())
}

fn read_with_payload(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.read(16).data(&[1; 4]).psn(0))?;
    match q.within(b.patience().silence)? {
        None => {
            q.alive(0)?;
            b.tolerate("it drops it");
        }
        Some(came) if came.is_nak(NakCode::InvalidRequest) => b.tolerate("invalid request"),
        Some(came) if came.opcode() == Opcode::RC_READ_RESPONSE_ONLY => b.tolerate("it answers"),
        Some(came) => return unexpected("a NAK, a response, or nothing", &came),
    }
    Ok(())
}
