//! PSNs: gaps, duplicates, wraps.

use uroce_wire::{NakCode, Opcode};

use super::check;
use crate::case::cases;
use crate::{Bench, Outcome, Stop, pattern};

cases! {
    Must "rc.responder.nak-once-per-gap", "R53 R54", [36, 37], "A burst behind a gap draws exactly one NAK, with the PSN that is missing.", nak_once_per_gap;
    Free "rc.responder.gap-filled", "R55", [38], "When the missing packet comes, it is acknowledged, alone or with those behind it.", gap_filled;
    Must "rc.responder.second-gap", "R53", [39], "A second gap draws a NAK of its own.", second_gap;
    Must "rc.responder.nak-not-repeated", "R53", [40], "While a gap is open, more packets behind it draw no further NAK at once.", nak_not_repeated;
    Must "rc.responder.gap-no-effect", "R55", [41], "A WRITE behind a gap that is never filled changes no memory.", gap_no_effect;
    Must "rc.responder.half-range", "R16", [43], "PSNs up to 2^23 - 1 ahead are a gap, all others duplicates.", half_range;
    Must "rc.responder.psn-wrap", "R15 R20", [44], "SENDs go on from PSN 0xffffff to 0.", psn_wrap;
    Must "rc.responder.psn-wrap-in-write", "R20 B18", [45], "A WRITE of several packets may lie over the wrap.", psn_wrap_in_write;
    Must "rc.responder.psn-wrap-in-read", "R20", [46], "The response to a READ may lie over the wrap.", psn_wrap_in_read;
    Must "rc.responder.psn-wrap-at-atomic", "R20", [47], "An atomic may have PSN 0xffffff.", psn_wrap_at_atomic;
    Must "rc.responder.duplicate-send", "R57 C9-105", [48], "A duplicate SEND is acknowledged and uses no receive.", duplicate_send;
    Must "rc.responder.duplicate-write", "R57", [49], "A duplicate WRITE is acknowledged and not executed.", duplicate_write;
    Must "rc.responder.duplicate-bad-key", "R60", [50], "A duplicate with a wrong key draws an ACK or nothing, never a NAK.", duplicate_bad_key;
    Must "rc.responder.duplicate-first", "R57", [51], "A FIRST that comes again in the middle of its message does not disturb it.", duplicate_first;
    Free "rc.responder.duplicate-ancient", "R61", [52], "A duplicate from long ago draws an ACK or nothing.", duplicate_ancient;
    Must "rc.responder.duplicate-read", "R58", [53], "A duplicate READ is answered from memory as it is now.", duplicate_read;
    Must "rc.responder.duplicate-read-part", "R58 R77", [54], "A duplicate READ may ask for a later part of the range.", duplicate_read_part;
    Must "rc.responder.duplicate-read-longer", "R58", [55, 56], "A duplicate READ of another range or key is dropped.", duplicate_read_longer;
    Must "rc.responder.duplicate-read-wrap", "B6 A3", [57], "A duplicate READ whose range wraps at 2^64 is dropped.", duplicate_read_wrap;
    Must "rc.responder.duplicate-read-deregistered", "B11", [60], "A duplicate READ of a region that is gone is dropped.", duplicate_read_deregistered;
    Must "rc.responder.duplicate-atomic", "R59 B20", [61], "A duplicate atomic is answered with the first result and not executed again.", duplicate_atomic;
    Must "rc.responder.duplicate-atomic-operand", "R59", [62], "A duplicate atomic with another operand is not executed.", duplicate_atomic_operand;
    Must "rc.responder.duplicate-atomic-forgotten", "R59 A19", [63], "An atomic older than the results that are kept is not executed again.", duplicate_atomic_forgotten;
    Must "rc.responder.psn-scan", "A9", [65], "A scan through the PSNs draws at most one NAK for its gap, and no harm.", psn_scan;
}

fn nak_once_per_gap(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for psn in 1..=20 {
        q.tx(&q.write(16).psn(psn))?;
    }
    q.nak(0, NakCode::PsnSequence)?;
    q.silence()
}

fn gap_filled(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for psn in 1..=3 {
        q.tx(&q.write(16).psn(psn))?;
    }
    q.nak(0, NakCode::PsnSequence)?;
    q.tx(&q.write(16).psn(0))?;
    let came = q.next("ACK of PSN +0 or +3")?;
    check(came.is_ack() && (came.psn == 0 || came.psn == 3), || format!("got {came}"))?;
    b.tolerate(if came.psn == 3 { "it had kept what lies behind the gap" } else { "go-back-N" });
    Ok(())
}

fn second_gap(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).psn(1))?;
    q.nak(0, NakCode::PsnSequence)?;
    q.tx(&q.write(16).psn(0))?;
    let filled = q.next("ACK of PSN +0 or +1")?;
    check(filled.is_ack(), || format!("expected an ACK, got {filled}"))?;
    q.tx(&q.write(16).psn(1))?;
    q.ack(1)?;
    q.tx(&q.write(16).psn(5))?;
    q.nak(2, NakCode::PsnSequence).map(drop)
}

fn nak_not_repeated(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).psn(1))?;
    q.nak(0, NakCode::PsnSequence)?;
    q.tx_all(&[q.write(16).psn(2), q.write(16).psn(3), q.write(16).psn(9)])?;
    q.silence()
}

fn gap_no_effect(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(64).psn(1))?;
    q.nak(0, NakCode::PsnSequence)?;
    q.silence()?;
    q.app.written(&[])
}

fn half_range(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(0).psn((1 << 23) - 1))?;
    q.nak(0, NakCode::PsnSequence)?;
    q.alive(0)?;
    q.tx(&q.write(16).psn(1 - (1 << 23)))?;
    acked_or_silent(b, &q, 0)?;
    q.alive(1)?;
    q.app.untouched()
}

fn psn_wrap(b: &Bench<'_>) -> Outcome {
    let q = b.rc().first_psn(0xff_fffd).open()?;
    for index in 0..6 {
        q.tx(&q.send(16).psn(index))?;
        q.ack(index)?;
        q.app.received(index as u32, 16)?;
    }
    Ok(())
}

fn psn_wrap_in_write(b: &Bench<'_>) -> Outcome {
    let q = b.rc().first_psn(0xff_fffc).open()?;
    let length = 8 * q.mtu() - 5;
    q.tx_all(&q.message(Opcode::RC_WRITE_ONLY, length, 0))?;
    q.ack(7)?;
    q.app.written(&pattern(1, length))
}

fn psn_wrap_in_read(b: &Bench<'_>) -> Outcome {
    let q = b.rc().first_psn(0xff_fffc).open()?;
    let length = 8 * q.mtu();
    q.tx(&q.read(length).psn(0))?;
    let (bytes, _) = q.read_response(0, length)?;
    q.app.registered(0, &bytes)?;
    q.alive(8).map(drop)
}

fn psn_wrap_at_atomic(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().first_psn(0xff_ffff).open()?;
    q.app.fill(0, &5u64.to_ne_bytes())?;
    for (psn, original) in [(0, 5), (1, 6)] {
        q.tx(&q.fetch_add(1).psn(psn))?;
        let (got, _) = q.atomic_ack(psn)?;
        check(got == original, || format!("expected the original value {original}, got {got}"))?;
    }
    Ok(())
}

fn duplicate_send(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx_all(&[q.send(16).psn(0), q.send(16).psn(1)])?;
    q.ack(1)?;
    q.app.received(0, 16)?;
    q.app.received(1, 16)?;
    q.tx(&q.send(16).psn(0))?;
    q.ack(1)?;
    q.app.no_completion()
}

fn duplicate_write(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).psn(0))?;
    q.ack(0)?;
    q.tx(&q.write(16).data(&[0xee; 16]).psn(0))?;
    q.ack(0)?;
    q.app.written(&pattern(1, 16))
}

fn duplicate_bad_key(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.alive(0)?;
    q.tx(&q.write(16).rkey(q.rkey() ^ 0x55).psn(0))?;
    acked_or_silent(b, &q, 0)?;
    q.alive(1)?;
    q.app.untouched()
}

fn duplicate_first(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let length = 3 * q.mtu();
    let message = q.message(Opcode::RC_WRITE_ONLY, length, 0);
    q.tx_all(&message[..2])?;
    q.tx(&message[0])?;
    acked_or_silent(b, &q, 1)?;
    q.tx(&message[2])?;
    q.ack(2)?;
    q.app.written(&pattern(1, length))
}

fn duplicate_ancient(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.alive(0)?;
    q.tx(&q.write(16).psn(-(1 << 20)))?;
    acked_or_silent(b, &q, 0)?;
    q.alive(1)?;
    q.app.untouched()
}

fn duplicate_read(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let length = 2 * q.mtu();
    q.tx(&q.read(length).psn(0))?;
    q.read_response(0, length)?;
    q.app.fill(0, &vec![0x77; length])?;
    q.tx(&q.read(length).psn(0))?;
    let (bytes, _) = q.read_response(0, length)?;
    check(bytes == vec![0x77; length], || "the bytes are not those of now".to_owned())
}

fn duplicate_read_part(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let (mtu, length) = (q.mtu(), 4 * q.mtu());
    q.tx(&q.read(length).psn(0))?;
    q.read_response(0, length)?;
    q.tx(&q.read(2 * mtu).va(q.at(mtu)).psn(1))?;
    let (bytes, _) = q.read_response(1, 2 * mtu)?;
    q.app.registered(mtu, &bytes)?;
    q.alive(4).map(drop)
}

fn duplicate_read_longer(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.read(64).psn(0))?;
    q.read_response(0, 64)?;
    q.tx(&q.read(65).psn(0))?;
    q.tx(&q.read(64).rkey(q.rkey() ^ 0x1).psn(0))?;
    q.tx(&q.read(64).va(q.at(64)).psn(0))?;
    q.ignored(1)
}

fn duplicate_read_wrap(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.read(64).psn(0))?;
    q.read_response(0, 64)?;
    q.tx(&q.read(64).va(u64::MAX - 31).psn(0))?;
    q.ignored(1)
}

fn duplicate_read_deregistered(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.read(64).psn(0))?;
    q.read_response(0, 64)?;
    q.app.deregister()?;
    q.tx(&q.read(64).psn(0))?;
    q.ignored(1)
}

fn duplicate_atomic(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().open()?;
    q.app.fill(0, &5u64.to_ne_bytes())?;
    for _ in 0..5 {
        q.tx(&q.fetch_add(3).psn(0))?;
        let (original, _) = q.atomic_ack(0)?;
        check(original == 5, || format!("expected the original value 5, got {original}"))?;
    }
    q.app.holds(0, &8u64.to_ne_bytes())
}

fn duplicate_atomic_operand(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().open()?;
    q.app.fill(0, &5u64.to_ne_bytes())?;
    q.tx(&q.fetch_add(3).psn(0))?;
    q.atomic_ack(0)?;
    q.tx(&q.fetch_add(100).psn(0))?;
    if let Some(came) = q.within(b.patience().silence)? {
        let original = came.original().map(|original| original.original);
        check(original == Some(5), || format!("expected the first result or nothing, got {came}"))?;
    }
    q.alive(1)?;
    q.app.holds(0, &8u64.to_ne_bytes())
}

fn duplicate_atomic_forgotten(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().depth(1).open()?;
    q.app.fill(0, &0u64.to_ne_bytes())?;
    for psn in 0..40 {
        q.tx(&q.fetch_add(1).psn(psn))?;
        q.atomic_ack(psn)?;
    }
    q.tx(&q.fetch_add(1).psn(0))?;
    if let Some(came) = q.within(b.patience().silence)? {
        check(came.original().is_some(), || format!("expected a result or nothing, got {came}"))?;
        b.record("it keeps at least 40 results");
    }
    q.alive(40)?;
    q.app.holds(0, &40u64.to_ne_bytes())
}

fn psn_scan(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.alive(0)?;
    for step in 1..200 {
        q.tx(&q.write(16).psn(step * 41_941))?;
    }
    let mut naks = 0;
    while let Some(came) = q.within(b.patience().silence)? {
        naks += i32::from(came.is_nak(NakCode::PsnSequence));
        check(came.is_ack() || came.is_nak(NakCode::PsnSequence), || format!("got {came}"))?;
    }
    check(naks <= 1, || format!("{naks} NAKs for one gap"))?;
    q.alive(1)?;
    q.app.untouched()
}

/// An ACK of `psn`, or nothing.
fn acked_or_silent(b: &Bench<'_>, q: &crate::Qp<'_, '_>, psn: i32) -> Outcome {
    match q.within(b.patience().silence)? {
        None => Ok(()),
        Some(came) if came.is_ack() && came.psn == psn => Ok(()),
        Some(came) => super::unexpected("an ACK of the newest PSN, or nothing", &came),
    }
}

pub(super) fn needs_atomics(b: &Bench<'_>) -> Outcome {
    match b.card().atomics {
        true => Ok(()),
        false => Err(Stop::NotApplicable("the device does no atomics".to_owned())),
    }
}
