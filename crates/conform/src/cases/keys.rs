//! Keys, rights, ranges, and what happens to memory.

use uroce_wire::{NakCode, Opcode};

use super::sequence::needs_atomics;
use super::{check, unexpected};
use crate::case::cases;
use crate::{Access, Bench, Outcome, Packet, Qp, pattern};

cases! {
    Must "rc.responder.key-unknown", "R28 C10-56", [93], "WRITE, READ and atomic with a key that nobody gave are remote access errors.", key_unknown;
    Must "rc.responder.key-variant", "R28", [94], "A key that differs from the right one in its low byte gives no access.", key_variant;
    Must "rc.responder.key-zero", "R28", [95], "Key 0 gives no access.", key_zero;
    Must "rc.responder.range-edges", "R28", [96], "The last byte of a region can be reached, and no byte outside.", range_edges;
    Must "rc.responder.range-wrap", "R32 B5 A3", [97], "A range that ends at 2^64 or wraps there gives no access.", range_wrap;
    Must "rc.responder.write-checked-whole", "R31", [98], "A WRITE whose DMA length reaches outside is refused at its FIRST, before any byte.", write_checked_whole;
    Must "rc.responder.right-missing", "R28 R34 R36", [99], "A region without the right gives no access.", right_missing;
    Must "rc.responder.qp-right-missing", "R36", [100], "A queue pair without the right refuses, as invalid request or as remote access error.", qp_right_missing;
    Must "rc.responder.other-domain", "R28 C10-57", [101], "A key of another protection domain gives no access.", other_domain;
    Must "rc.responder.empty-write-key", "R29 C9-88", [102], "The key of an empty WRITE is not looked at.", empty_write_key;
    Must "rc.responder.empty-write-imm-key", "R29", [103], "An empty WRITE with immediate data completes a receive, whatever its key.", empty_write_imm_key;
    Must "rc.responder.empty-read-key", "R29 B10", [104], "An empty READ is answered without payload, whatever its key, also when it comes again.", empty_read_key;
    Must "rc.responder.atomic-misaligned", "R33", [108], "An atomic that is not aligned to 8 bytes is an invalid request.", atomic_misaligned;
    Must "rc.responder.atomic-result", "R34", [109], "Atomics answer with the original value, and swap only on a hit.", atomic_result;
    Must "rc.responder.key-after-deregister", "A7 C10-68", [111], "A key gives no access once its region is deregistered.", key_after_deregister;
    Free "rc.responder.atomic-nak-opcode", "B22", [144], "The NAK of an atomic is an ACK or an ATOMIC ACK.", atomic_nak_opcode;
    Must "rc.responder.unknown-invalidate", "R41", [116], "A SEND that invalidates a key that nobody gave fails the queue pair.", unknown_invalidate;
}

fn refused(q: &Qp<'_, '_>, packet: &Packet, code: NakCode) -> Outcome {
    q.tx(packet)?;
    q.fatal(0, code)?;
    q.app.untouched()
}

fn no_access(q: &Qp<'_, '_>, packet: &Packet) -> Outcome {
    refused(q, packet, NakCode::RemoteAccess)
}

fn key_unknown(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    no_access(&q, &q.write(16).rkey(q.rkey() ^ 0x5a5a_5a00).psn(0))?;
    let q = b.rc().open()?;
    no_access(&q, &q.read(16).rkey(q.rkey() ^ 0x5a5a_5a00).psn(0))?;
    if !b.card().atomics {
        return Ok(());
    }
    let q = b.rc().open()?;
    let packet = q.fetch_add(1).rkey(q.rkey() ^ 0x5a5a_5a00).psn(0);
    q.tx(&packet)?;
    nak_of_atomic(&q, 0, NakCode::RemoteAccess).map(drop)
}

fn key_variant(b: &Bench<'_>) -> Outcome {
    for bit in [0x01, 0x80] {
        let q = b.rc().open()?;
        no_access(&q, &q.write(16).rkey(q.rkey() ^ bit).psn(0))?;
    }
    Ok(())
}

fn key_zero(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    no_access(&q, &q.write(1).rkey(0).psn(0))
}

fn range_edges(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let end = q.region_bytes();
    q.tx(&q.write(16).va(q.at(end - 16)).psn(0))?;
    q.ack(0)?;
    q.app.holds(end - 16, &pattern(1, 16))?;
    let outside = |place: &dyn Fn(&Qp<'_, '_>) -> u64| {
        let q = b.rc().open()?;
        no_access(&q, &q.write(16).va(place(&q)).psn(0))?;
        let q = b.rc().open()?;
        no_access(&q, &q.read(16).va(place(&q)).psn(0))
    };
    outside(&|q| q.at(0).wrapping_sub(1))?;
    outside(&|q| q.at(q.region_bytes() - 15))?;
    outside(&|q| q.at(q.region_bytes()))
}

fn range_wrap(b: &Bench<'_>) -> Outcome {
    for va in [u64::MAX - 15, u64::MAX - 16, u64::MAX - 7, u64::MAX] {
        let q = b.rc().open()?;
        no_access(&q, &q.write(16).va(va).psn(0))?;
        let q = b.rc().open()?;
        no_access(&q, &q.read(16).va(va).psn(0))?;
    }
    Ok(())
}

fn write_checked_whole(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let first = q.packet(Opcode::RC_WRITE_FIRST, q.mtu()).dma_length(q.region_bytes() + 1);
    no_access(&q, &first.psn(0).ack_req())
}

fn right_missing(b: &Bench<'_>) -> Outcome {
    let q = b.rc().region_access(Access::READ).open()?;
    no_access(&q, &q.write(16).psn(0))?;
    let q = b.rc().region_access(Access::WRITE).open()?;
    no_access(&q, &q.read(16).psn(0))?;
    if !b.card().atomics {
        return Ok(());
    }
    let q = b.rc().region_access(Access { atomic: false, ..Access::ALL }).open()?;
    q.tx(&q.fetch_add(1).psn(0))?;
    nak_of_atomic(&q, 0, NakCode::RemoteAccess)?;
    q.app.untouched()
}

fn qp_right_missing(b: &Bench<'_>) -> Outcome {
    let q = b.rc().qp_access(Access { read: false, ..Access::ALL }).open()?;
    q.tx(&q.read(16).psn(0))?;
    let came = q.next("a NAK")?;
    match [NakCode::InvalidRequest, NakCode::RemoteAccess].map(|code| came.is_nak(code)) {
        [true, _] => b.tolerate("invalid request"),
        [_, true] => b.tolerate("remote access error"),
        _ => return unexpected("an invalid request or remote access NAK", &came),
    }
    q.dead(0)?;
    let q = b.rc().qp_access(Access { write: false, ..Access::ALL }).open()?;
    q.tx(&q.write(16).psn(0))?;
    let came = q.next("a NAK")?;
    let refused = came.is_nak(NakCode::InvalidRequest) || came.is_nak(NakCode::RemoteAccess);
    check(refused, || format!("expected a NAK, got {came}"))?;
    q.app.untouched()
}

fn other_domain(b: &Bench<'_>) -> Outcome {
    let q = b.rc().foreign_region().open()?;
    no_access(&q, &q.write(16).psn(0))?;
    let q = b.rc().foreign_region().open()?;
    no_access(&q, &q.read(16).psn(0))
}

fn empty_write_key(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(0).rkey(0x0bad_0bad).va(3).psn(0))?;
    q.ack(0).map(drop)
}

fn empty_write_imm_key(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let packet = q.packet(Opcode::RC_WRITE_ONLY_IMM, 0).rkey(0x0bad_0bad).va(3);
    q.tx(&packet.psn(0))?;
    q.ack(0)?;
    let completion = q.app.completes(0, crate::status::SUCCESS)?;
    check(completion.imm == Some(0x0102_0304), || format!("its immediate data: {completion:?}"))
}

fn empty_read_key(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for _ in 0..2 {
        q.tx(&q.read(0).rkey(0x0bad_0bad).va(3).psn(0))?;
        q.read_response(0, 0)?;
    }
    q.alive(1).map(drop)
}

fn atomic_misaligned(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    for offset in 1..=7 {
        let q = b.rc().open()?;
        q.tx(&q.fetch_add(1).va(q.at(offset)).psn(0))?;
        nak_of_atomic(&q, 0, NakCode::InvalidRequest)?;
        q.app.untouched()?;
    }
    Ok(())
}

fn atomic_result(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().open()?;
    let value = 0x0102_0304_0506_0708u64;
    q.app.fill(0, &value.to_ne_bytes())?;
    let steps = [
        (q.fetch_add(1), value, value + 1),
        (q.fetch_add(u64::MAX), value + 1, value),
        (q.compare_swap(value, 42), value, 42),
        (q.compare_swap(value, 43), 42, 42),
    ];
    for (psn, (packet, original, after)) in (0..).zip(steps) {
        q.tx(&packet.psn(psn))?;
        let (got, _) = q.atomic_ack(psn)?;
        check(got == original, || format!("expected the original {original:#x}, got {got:#x}"))?;
        q.app.holds(0, &after.to_ne_bytes())?;
    }
    Ok(())
}

fn key_after_deregister(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.app.deregister()?;
    no_access(&q, &q.write(16).psn(0))
}

fn atomic_nak_opcode(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().open()?;
    q.tx(&q.fetch_add(1).va(q.at(4)).psn(0))?;
    let opcode = nak_of_atomic(&q, 0, NakCode::InvalidRequest)?;
    b.tolerate(format!("{opcode}"));
    Ok(())
}

/// The NAK of atomic `psn`, in either form.
pub(super) fn nak_of_atomic(
    q: &Qp<'_, '_>,
    psn: i32,
    code: NakCode,
) -> Result<Opcode, crate::Stop> {
    let expected = format!("NAK {} at PSN {psn:+}", code.name());
    let came = q.next(&expected)?;
    let syndrome = came.aeth().map(|aeth| aeth.syndrome);
    let forms = [Opcode::RC_ACKNOWLEDGE, Opcode::RC_ATOMIC_ACKNOWLEDGE];
    let fits = syndrome == Some(uroce_wire::Syndrome::nak(code)) && came.psn == psn;
    if fits && forms.contains(&came.opcode()) {
        q.dead(psn)?;
        return Ok(came.opcode());
    }
    unexpected(&expected, &came)
}

fn unknown_invalidate(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.send_invalidate(16, 0x0bad_0b00).psn(0))?;
    match q.within(b.patience().silence)? {
        None => b.tolerate("it fails without a NAK"),
        Some(came) if came.is_nak(NakCode::RemoteAccess) => b.tolerate("remote access error"),
        Some(came) => return unexpected("a remote access NAK, or nothing", &came),
    }
    q.dead(0)
}
