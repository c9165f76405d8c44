//! FLUSH and ATOMIC WRITE.

use uroce_wire::{NakCode, Opcode, Reth};

use super::{check, needs, needs_extension, unexpected};
use crate::case::cases;
use crate::memory::{REMOTE_RKEY, REMOTE_VA};
use crate::{Access, Bench, Icrc, Outcome, Packet, Qp, Stop, status};

cases! {
    Must "rc.responder.flush", "R30", [106], "A FLUSH of a range or of a whole region is answered without payload, and takes one PSN.", flush;
    Must "rc.responder.flush-key", "R30 oA19-13", [105], "The key of a FLUSH is looked at, also if it names no bytes.", flush_key;
    Must "rc.responder.flush-right-missing", "R30", [107], "A FLUSH that the queue pair or the region does not allow is refused.", flush_right_missing;
    Free "rc.responder.flush-solicited", "R30 oA19-6", [92], "A FLUSH with the solicited bit is answered, or an invalid request.", flush_solicited;
    Must "rc.responder.flush-duplicate", "R59", [64], "A FLUSH that comes again is answered again.", flush_duplicate;
    Must "rc.responder.flush-icrc", "R9 R30", [], "A FLUSH whose ICRC covers its headers twice, as kernel rxe computes it, is dropped.", flush_icrc;
    Must "rc.responder.atomic-write", "R30", [], "An ATOMIC WRITE writes its 8 bytes and is answered without payload.", atomic_write;
    Must "rc.responder.atomic-write-length", "R30 B4 oA19-28", [90], "An ATOMIC WRITE of other than 8 bytes is an invalid request, and writes nothing.", atomic_write_length;
    Must "rc.responder.atomic-write-misaligned", "R33", [], "An ATOMIC WRITE that is not aligned to 8 bytes is refused, and writes nothing.", atomic_write_misaligned;
    Must "rc.responder.atomic-write-duplicate", "R59", [64], "An ATOMIC WRITE that comes again is answered, and not executed.", atomic_write_duplicate;
    Free "rc.responder.unsupported", "R23", [91], "FLUSH and ATOMIC WRITE to a device without them are an invalid request, or dropped.", unsupported;
    Must "rc.requester.flush", "R30 R82", [], "A FLUSH has the posted range, placement and selectivity, asks for no event, and completes with its response.", requester_flush;
    Free "rc.requester.flush-acked", "R68", [], "An ACK in place of its response completes a FLUSH, or does not.", requester_flush_acked;
    Must "rc.requester.atomic-write", "R30", [], "An ATOMIC WRITE carries its 8 bytes, and completes with its response.", requester_atomic_write;
    Must "rc.requester.psn-wrap-flush", "R20", [], "FLUSH and ATOMIC WRITE go on from PSN 0xffffff to 0.", requester_wrap;
    Must "rc.responder.psn-wrap-flush", "R20", [], "A FLUSH and an ATOMIC WRITE may have PSN 0xffffff and 0.", responder_wrap;
}

/// Placement: global visibility, and persistence.
const GLOBAL: u8 = 1;
const PERSISTENT: u8 = 2;
/// Selectivity: the range, and the whole region.
const RANGE: u8 = 0;
const REGION: u8 = 1;
/// What an ATOMIC WRITE writes.
const WORD: u64 = 0x0102_0304_0506_0708;

/// READ, WRITE, and FLUSH to global visibility.
const FLUSHABLE: Access = Access { flush: true, ..Access::ALL };

fn needs_flush(b: &Bench<'_>) -> Outcome {
    needs_extension(b, b.card().extensions.flush, "FLUSH")
}

fn needs_atomic_write(b: &Bench<'_>) -> Outcome {
    needs_extension(b, b.card().extensions.atomic_write, "ATOMIC WRITE")
}

/// A connection whose memory may be flushed.
fn flushable<'b, 'r>(b: &'b Bench<'r>) -> Result<Qp<'b, 'r>, Stop> {
    needs_flush(b)?;
    b.rc().qp_access(FLUSHABLE).region_access(FLUSHABLE).open()
}

/// FLUSH of the first bytes of the region.
fn flushing(q: &Qp<'_, '_>, length: usize, selectivity: u8) -> Packet {
    q.packet(Opcode::RC_FLUSH, 0).feth(GLOBAL, selectivity).dma_length(length)
}

/// ATOMIC WRITE of these bytes to the start of the region.
fn atomic_writing(q: &Qp<'_, '_>, bytes: &[u8]) -> Packet {
    q.packet(Opcode::RC_ATOMIC_WRITE, 8).data(bytes)
}

fn flush(b: &Bench<'_>) -> Outcome {
    let q = flushable(b)?;
    let sizes = [(q.region_bytes(), RANGE), (16, RANGE), (0, RANGE), (0, REGION), (16, REGION)];
    for (psn, (length, selectivity)) in (0..).zip(sizes) {
        q.tx(&flushing(&q, length, selectivity).psn(psn))?;
        q.read_response(psn, 0)?;
    }
    q.alive(sizes.len() as i32)?;
    q.app.untouched()
}

fn flush_key(b: &Bench<'_>) -> Outcome {
    for length in [16, 0] {
        let q = flushable(b)?;
        q.tx(&flushing(&q, length, RANGE).rkey(q.rkey() ^ 0x5a5a_5a00).psn(0))?;
        q.fatal(0, NakCode::RemoteAccess)?;
    }
    let q = flushable(b)?;
    q.tx(&flushing(&q, q.region_bytes() + 1, RANGE).psn(0))?;
    q.fatal(0, NakCode::RemoteAccess)
}

/// A remote access or invalid request NAK, and the end.
fn refused(q: &Qp<'_, '_>) -> Outcome {
    let came = q.next("a remote access or invalid request NAK")?;
    let codes = [NakCode::RemoteAccess, NakCode::InvalidRequest];
    if came.psn != 0 || !codes.into_iter().any(|code| came.is_nak(code)) {
        return unexpected("a remote access or invalid request NAK at PSN +0", &came);
    }
    q.dead(0)
}

fn flush_right_missing(b: &Bench<'_>) -> Outcome {
    needs_flush(b)?;
    let q = b.rc().qp_access(FLUSHABLE).region_access(Access::ALL).open()?;
    q.tx(&flushing(&q, 16, RANGE).psn(0))?;
    q.fatal(0, NakCode::RemoteAccess)?;
    let q = b.rc().qp_access(Access::ALL).region_access(FLUSHABLE).open()?;
    q.tx(&flushing(&q, 16, RANGE).psn(0))?;
    refused(&q)?;
    let q = flushable(b)?;
    q.tx(&flushing(&q, 16, RANGE).feth(PERSISTENT, RANGE).psn(0))?;
    refused(&q)
}

fn flush_solicited(b: &Bench<'_>) -> Outcome {
    let q = flushable(b)?;
    q.tx(&flushing(&q, 16, RANGE).bth(|bth| bth.solicited = true).psn(0))?;
    let came = q.next("a response, or an invalid request NAK")?;
    match came.opcode() {
        Opcode::RC_READ_RESPONSE_ONLY => b.tolerate("it answers"),
        _ if came.is_nak(NakCode::InvalidRequest) => b.tolerate("invalid request"),
        _ => return unexpected("a response, or an invalid request NAK", &came),
    }
    Ok(())
}

fn flush_duplicate(b: &Bench<'_>) -> Outcome {
    let q = flushable(b)?;
    for _ in 0..3 {
        q.tx(&flushing(&q, 16, RANGE).psn(0))?;
        q.read_response(0, 0)?;
    }
    q.alive(1).map(drop)
}

fn flush_icrc(b: &Bench<'_>) -> Outcome {
    let q = flushable(b)?;
    q.tx(&flushing(&q, 16, RANGE).icrc(Icrc::HeadersTwice).psn(0))?;
    q.ignored(0)
}

fn atomic_write(b: &Bench<'_>) -> Outcome {
    needs_atomic_write(b)?;
    let q = b.rc().open()?;
    q.tx(&atomic_writing(&q, &WORD.to_ne_bytes()).psn(0))?;
    q.read_response(0, 0)?;
    q.app.written(&WORD.to_ne_bytes())?;
    q.alive(1).map(drop)
}

fn atomic_write_length(b: &Bench<'_>) -> Outcome {
    needs_atomic_write(b)?;
    for (payload, length) in [(0, 8), (4, 8), (7, 8), (9, 8), (16, 8), (16, 16), (0, 0)] {
        let q = b.rc().open()?;
        let bytes = [0x99; 16];
        q.tx(&atomic_writing(&q, &bytes[..payload]).dma_length(length).psn(0))?;
        q.fatal(0, NakCode::InvalidRequest)?;
        q.app.untouched()?;
    }
    Ok(())
}

fn atomic_write_misaligned(b: &Bench<'_>) -> Outcome {
    needs_atomic_write(b)?;
    for offset in [1, 4, 7] {
        let q = b.rc().open()?;
        q.tx(&atomic_writing(&q, &WORD.to_ne_bytes()).va(q.at(offset)).psn(0))?;
        refused(&q)?;
        q.app.untouched()?;
    }
    Ok(())
}

fn atomic_write_duplicate(b: &Bench<'_>) -> Outcome {
    needs_atomic_write(b)?;
    let q = b.rc().open()?;
    let packet = atomic_writing(&q, &WORD.to_ne_bytes()).psn(0);
    q.tx(&packet)?;
    q.read_response(0, 0)?;
    q.app.fill(0, &[0; 8])?;
    q.tx(&packet)?;
    q.read_response(0, 0)?;
    q.alive(1)?;
    q.app.written(&[0; 8])
}

fn unsupported(b: &Bench<'_>) -> Outcome {
    let has = b.card().extensions;
    needs(!has.flush || !has.atomic_write, "the device has FLUSH and ATOMIC WRITE")?;
    let all = [(has.flush, Opcode::RC_FLUSH, 0), (has.atomic_write, Opcode::RC_ATOMIC_WRITE, 8)];
    for (_, opcode, length) in all.into_iter().filter(|(has, ..)| !has) {
        let q = b.rc().open()?;
        q.tx(&q.packet(opcode, length).psn(0))?;
        match q.within(b.patience().silence)? {
            None => q.alive(0).map(drop)?,
            Some(came) if came.is_nak(NakCode::InvalidRequest) && came.psn == 0 => {
                b.tolerate("it answers with an invalid request NAK");
            }
            Some(came) => return unexpected("an invalid request NAK, or nothing", &came),
        }
        q.app.untouched()?;
    }
    Ok(())
}

/// The answer to a FLUSH or an ATOMIC WRITE.
fn answered(q: &Qp<'_, '_>, psn: i32, work: u64) -> Outcome {
    q.tx_all(&q.responses(psn, &[], psn as u32 + 1))?;
    q.app.completes(work, status::SUCCESS).map(drop)
}

/// Its FLUSH at `psn`, as it was posted.
fn flush_request(q: &Qp<'_, '_>, psn: i32, length: u32, selectivity: u8) -> Result<u64, Stop> {
    let work = q.app.post_flush(length, GLOBAL, selectivity)?;
    let came = q.request(psn, Opcode::RC_FLUSH)?;
    let feth = came.feth().map(|feth| (feth.placement, feth.selectivity));
    check(feth == Some((GLOBAL, selectivity)), || {
        format!("not the FLUSH that was posted: {came}")
    })?;
    let wanted = Some(Reth { va: REMOTE_VA, rkey: REMOTE_RKEY, length });
    // What a FLUSH of a whole region says of the range means nothing.
    let range = came.reth() == wanted || selectivity == REGION;
    check(range, || format!("not the range that was posted: {came}"))?;
    check(!came.bth().solicited, || format!("{came} asks for an event"))?;
    Ok(work)
}

fn requester_flush(b: &Bench<'_>) -> Outcome {
    needs_flush(b)?;
    let q = b.rc().extended().open()?;
    let sizes = [(4096, RANGE), (0, RANGE), (0, REGION)];
    for (psn, (length, selectivity)) in (0..).zip(sizes) {
        let work = flush_request(&q, psn, length, selectivity)?;
        q.app.no_completion()?;
        answered(&q, psn, work)?;
    }
    Ok(())
}

fn requester_flush_acked(b: &Bench<'_>) -> Outcome {
    needs_flush(b)?;
    let q = b.rc().extended().timeout(14, 7).open()?;
    let work = flush_request(&q, 0, 64, RANGE)?;
    q.tx(&q.acks(0, 1))?;
    q.nothing_new()?;
    if q.app.done(work, status::SUCCESS)? {
        b.tolerate("it takes an ACK for the response");
        return Ok(());
    }
    b.tolerate("it waits for the response");
    answered(&q, 0, work)
}

/// Its ATOMIC WRITE at `psn`, as it was posted.
fn atomic_write_request(q: &Qp<'_, '_>, psn: i32) -> Result<u64, Stop> {
    let work = q.app.post_atomic_write(WORD)?;
    let came = q.request(psn, Opcode::RC_ATOMIC_WRITE)?;
    let reth = Some(Reth { va: REMOTE_VA, rkey: REMOTE_RKEY, length: 8 });
    check(came.reth() == reth, || format!("not the range that was posted: {came}"))?;
    let whole = came.payload() == WORD.to_ne_bytes();
    check(whole, || format!("not the word that was posted: {came}"))?;
    Ok(work)
}

fn requester_atomic_write(b: &Bench<'_>) -> Outcome {
    needs_atomic_write(b)?;
    let q = b.rc().extended().open()?;
    for psn in 0..2 {
        let work = atomic_write_request(&q, psn)?;
        q.app.no_completion()?;
        answered(&q, psn, work)?;
    }
    Ok(())
}

fn requester_wrap(b: &Bench<'_>) -> Outcome {
    needs_flush(b)?;
    needs_atomic_write(b)?;
    let q = b.rc().extended().first_psn(0xff_ffff).open()?;
    let work = flush_request(&q, 0, 64, RANGE)?;
    answered(&q, 0, work)?;
    let work = atomic_write_request(&q, 1)?;
    answered(&q, 1, work)
}

fn responder_wrap(b: &Bench<'_>) -> Outcome {
    needs_flush(b)?;
    needs_atomic_write(b)?;
    let q = b.rc().qp_access(FLUSHABLE).region_access(FLUSHABLE).first_psn(0xff_ffff).open()?;
    q.tx(&flushing(&q, 16, RANGE).psn(0))?;
    q.read_response(0, 0)?;
    q.tx(&atomic_writing(&q, &WORD.to_ne_bytes()).psn(1))?;
    q.read_response(1, 0)?;
    q.app.written(&WORD.to_ne_bytes())
}
