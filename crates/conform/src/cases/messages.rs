//! Messages of every length and position, at every path MTU and over the wrap of the PSNs.

use uroce_wire::{Mtu, NakCode, Opcode, SyndromeKind};

use super::requester::{acked, message, written};
use super::sequence::needs_atomics;
use super::{check, unexpected};
use crate::case::cases;
use crate::memory::REMOTE_VA;
use crate::{Bench, Kind, Operation, Outcome, Qp, Setup, Stop, pattern, status};

cases! {
    Must "rc.requester.every-mtu", "R24 R82", [], "SENDs and WRITEs of every length, with and without immediate data, have their opcodes and sizes at every path MTU.", rc_every_mtu;
    Must "rc.requester.read-every-mtu", "R48 R69", [], "A READ of every length completes with its bytes at every path MTU, and takes a PSN for each response.", read_every_mtu;
    Must "rc.requester.immediate", "R40", [], "Immediate data stand in the last packet, most significant byte first.", rc_immediate;
    Must "rc.requester.solicited", "R42", [], "The solicited bit stands in the last packet of a message, and in no other.", solicited;
    Must "rc.requester.psn-wrap", "R15 R20", [], "Requests go on from PSN 0xffffff to 0, and an ACK behind the wrap completes those before it.", requester_wrap;
    Must "rc.requester.psn-wrap-nak", "R20 R71", [], "A sequence NAK behind the wrap makes it go on there, and completes what lies before.", requester_wrap_nak;
    Must "rc.requester.psn-wrap-timeout", "R20 R75", [], "When its ACK is lost, all packets of a message over the wrap come again as they were.", requester_wrap_timeout;
    Must "rc.requester.psn-wrap-in-read", "R20 R69", [], "The responses to a READ may lie over the wrap.", requester_wrap_read;
    Must "rc.requester.psn-wrap-at-atomic", "R20", [], "An atomic may have PSN 0xffffff, and the next one 0.", requester_wrap_atomic;
    Must "rc.responder.send-every-mtu", "R24 R40", [], "SENDs of every length, with and without immediate data, arrive whole at every path MTU.", send_every_mtu;
    Must "rc.responder.read-every-mtu", "R47 R48", [], "A READ of every length is answered in packets of every path MTU.", responder_read_every_mtu;
    Must "rc.responder.psn-wrap-gap", "R16 R53", [], "A gap at PSN 0 draws a sequence NAK of PSN 0.", wrap_gap;
    Must "rc.responder.psn-wrap-duplicate", "R16 R57", [], "PSN 0xffffff is a duplicate when 0 is expected.", wrap_duplicate;
    Must "rc.responder.psn-wrap-rnr", "R20 R37", [], "A SEND over the wrap that finds no receive draws an RNR NAK of its first PSN.", wrap_rnr;
    Must "uc.responder.every-mtu", "R24 R97", [], "SENDs and WRITEs of UC of every length arrive whole at every path MTU, with their immediate data.", uc_every_mtu;
    Must "uc.responder.positions", "R97", [], "A FIRST or ONLY of UC in the middle of a message ends that message and begins its own.", uc_positions;
    Must "uc.responder.psn-wrap", "R20 R97", [], "A message of UC may lie over the wrap.", uc_wrap;
    Must "uc.requester.every-mtu", "R24 R100", [], "SENDs and WRITEs of UC of every length have their opcodes and sizes at every path MTU.", uc_requester_every_mtu;
    Must "uc.requester.psn-wrap", "R20 R100", [], "Messages of UC go on from PSN 0xffffff to 0.", uc_requester_wrap;
}

/// The immediate data that cases post.
const IMMEDIATE: u32 = 0x0a0b_0c0d;
/// SEND and WRITE, with and without immediate data.
const MESSAGES: [(Operation, Option<u32>, Opcode); 4] = [
    (Operation::Send, None, Opcode::RC_SEND_ONLY),
    (Operation::Write, None, Opcode::RC_WRITE_ONLY),
    (Operation::Send, Some(IMMEDIATE), Opcode::RC_SEND_ONLY_IMM),
    (Operation::Write, Some(IMMEDIATE), Opcode::RC_WRITE_ONLY_IMM),
];

/// The path MTUs that the port has.
fn mtus(b: &Bench<'_>) -> impl Iterator<Item = Mtu> {
    let largest = b.card().mtu;
    Mtu::ALL.into_iter().filter(move |mtu| mtu.code() <= largest)
}

/// Lengths at which the number or the kind of packets changes.
fn lengths(mtu: usize) -> [usize; 7] {
    [0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu - 3]
}

/// How many PSNs a message of `length` bytes takes.
fn packets(q: &Qp<'_, '_>, length: usize) -> i32 {
    length.div_ceil(q.mtu()).max(1) as i32
}

/// It posts each kind of message in each length, from PSN 0 on.
fn every_message(q: &Qp<'_, '_>) -> Outcome {
    let mut psn = 0;
    for (length, (operation, imm, only)) in
        lengths(q.mtu()).into_iter().flat_map(|length| MESSAGES.map(|kind| (length, kind)))
    {
        let work = q.app.post_with(operation, length, |work| work.imm = imm)?;
        let bytes = message(q, only, length, psn)?;
        check(bytes == pattern(0, length), || format!("wrong bytes in {only} of {length}"))?;
        psn += packets(q, length);
        match q.kind {
            Kind::Rc => acked(q, psn - 1, work)?,
            _ => {
                q.app.completes(work, status::SUCCESS)?;
            }
        }
    }
    Ok(())
}

fn rc_every_mtu(b: &Bench<'_>) -> Outcome {
    mtus(b).try_for_each(|mtu| every_message(&b.rc().mtu(mtu).open()?))
}

fn uc_requester_every_mtu(b: &Bench<'_>) -> Outcome {
    mtus(b).try_for_each(|mtu| every_message(&b.uc().mtu(mtu).open()?))
}

/// It posts a READ of `length` bytes, which asks at `psn` and is answered.
fn read(q: &Qp<'_, '_>, length: usize, psn: i32) -> Outcome {
    let work = q.app.post(Operation::Read, length)?;
    let came = q.request(psn, Opcode::RC_READ_REQUEST)?;
    let asked = came.reth().is_some_and(|reth| {
        reth.length as usize == length && (length == 0 || reth.va == REMOTE_VA)
    });
    check(asked, || format!("expected a READ of {length} bytes, got {came}"))?;
    let bytes = pattern(1, length);
    q.tx_all(&q.responses(psn, &bytes, 1))?;
    q.app.completes(work, status::SUCCESS)?;
    let now = q.app.memory(0, length)?;
    check(now == bytes, || format!("a READ of {length} bytes ends with other bytes"))
}

fn read_every_mtu(b: &Bench<'_>) -> Outcome {
    for mtu in mtus(b) {
        let q = b.rc().mtu(mtu).open()?;
        let mut psn = 0;
        for length in lengths(q.mtu()) {
            read(&q, length, psn)?;
            psn += packets(&q, length);
        }
    }
    Ok(())
}

fn rc_immediate(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let wanted = Some(IMMEDIATE);
    let work = q.app.post_with(Operation::Send, 5, |work| work.imm = wanted)?;
    let came = q.request(0, Opcode::RC_SEND_ONLY_IMM)?;
    check(came.imm() == wanted, || format!("not the immediate data that were posted: {came}"))?;
    acked(&q, 0, work)?;
    q.app.post_with(Operation::Write, q.mtu() + 1, |work| work.imm = wanted)?;
    q.request(1, Opcode::RC_WRITE_FIRST)?;
    let came = q.request(2, Opcode::RC_WRITE_LAST_IMM)?;
    check(came.imm() == wanted, || format!("not the immediate data that were posted: {came}"))
}

fn solicited(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let marked = |psn, opcode| Ok::<_, Stop>(q.request(psn, opcode)?.bth().solicited);
    q.app.post_with(Operation::Send, 3 * q.mtu(), |work| work.solicited = true)?;
    let marks = [
        marked(0, Opcode::RC_SEND_FIRST)?,
        marked(1, Opcode::RC_SEND_MIDDLE)?,
        marked(2, Opcode::RC_SEND_LAST)?,
    ];
    check(marks == [false, false, true], || format!("solicited bits of the packets: {marks:?}"))?;
    q.app.post(Operation::Send, 16)?;
    let mark = marked(3, Opcode::RC_SEND_ONLY)?;
    check(!mark, || "a SEND that was not posted as solicited has the bit".to_owned())
}

/// The first PSN of connections that meet the wrap with their fourth packet.
const BEFORE_WRAP: u32 = 0xff_fffd;

fn wrapping<'b, 'r>(setup: Setup<'b, 'r>) -> Result<Qp<'b, 'r>, Stop> {
    setup.first_psn(BEFORE_WRAP).open()
}

fn requester_wrap(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.rc())?;
    let long = q.app.post(Operation::Send, 2 * q.mtu())?;
    message(&q, Opcode::RC_SEND_ONLY, 2 * q.mtu(), 0)?;
    let over = written(&q, 2 * q.mtu(), 2)?;
    let behind = written(&q, 16, 4)?;
    q.tx(&q.acks(4, 3))?;
    [long, over, behind].into_iter().try_for_each(|w| q.app.completes(w, status::SUCCESS).map(drop))
}

fn requester_wrap_nak(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.rc())?;
    let works = (0..6).map(|psn| written(&q, 16, psn)).collect::<Result<Vec<_>, _>>()?;
    q.tx(&q.naks(4, NakCode::PsnSequence, 4))?;
    for work in &works[..4] {
        q.app.completes(*work, status::SUCCESS)?;
    }
    q.request(4, Opcode::RC_WRITE_ONLY)?;
    // A requester that sends only what the NAK names learns here that the packet behind it had come.
    q.tx(&q.acks(5, 6))?;
    works[4..].iter().try_for_each(|work| q.app.completes(*work, status::SUCCESS).map(drop))
}

fn requester_wrap_timeout(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.rc().timeout(14, 7))?;
    let length = 5 * q.mtu() - 1;
    let work = q.app.post(Operation::Write, length)?;
    let bytes = message(&q, Opcode::RC_WRITE_ONLY, length, 0)?;
    // In any order: a requester may ask with its last packet whether the others came.
    let mut missing: Vec<i32> = (0..5).collect();
    while !missing.is_empty() {
        let came = q.next("all packets of the message again")?;
        let piece = usize::try_from(came.psn).ok().and_then(|at| bytes.chunks(q.mtu()).nth(at));
        let same = piece == Some(&came.payload());
        check(same, || format!("{came} is no packet of the message again"))?;
        missing.retain(|psn| *psn != came.psn);
    }
    acked(&q, 4, work)
}

fn requester_wrap_read(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.rc())?;
    read(&q, 5 * q.mtu() - 1, 0)?;
    read(&q, 16, 5)
}

fn requester_wrap_atomic(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().first_psn(0xff_ffff).open()?;
    for psn in 0..2 {
        let work = q.app.post(Operation::FetchAdd, 8)?;
        q.request(psn, Opcode::RC_FETCH_ADD)?;
        q.tx(&q.originals(psn, 7, 1 + psn as u32))?;
        q.app.completes(work, status::SUCCESS)?;
    }
    q.app.written(&7u64.to_ne_bytes())
}

/// SENDs of every length arrive, from this PSN and receive on; returns those that are next.
fn sends_arrive(q: &Qp<'_, '_>, only: Opcode, first: (i32, u32)) -> Result<(i32, u32), Stop> {
    let (mut psn, mut index) = first;
    for length in lengths(q.mtu()) {
        q.tx_all(&q.message(only, length, psn))?;
        psn += packets(q, length);
        if q.kind == Kind::Rc {
            q.ack(psn - 1)?;
        }
        let completion = q.app.receives(index, length)?;
        let imm = (only == Opcode::RC_SEND_ONLY_IMM).then_some(0x0102_0304);
        check(completion.imm == imm, || format!("immediate data {:x?}", completion.imm))?;
        index += 1;
    }
    Ok((psn, index))
}

fn send_every_mtu(b: &Bench<'_>) -> Outcome {
    for mtu in mtus(b) {
        let bytes = 3 * mtu.bytes() as u32;
        let q = b.rc().mtu(mtu).receives(14).receive_bytes(bytes).open()?;
        let next = sends_arrive(&q, Opcode::RC_SEND_ONLY, (0, 0))?;
        sends_arrive(&q, Opcode::RC_SEND_ONLY_IMM, next)?;
    }
    Ok(())
}

fn uc_every_mtu(b: &Bench<'_>) -> Outcome {
    for mtu in mtus(b) {
        let bytes = 3 * mtu.bytes() as u32;
        let q = b.uc().mtu(mtu).receives(15).receive_bytes(bytes).open()?;
        let next = sends_arrive(&q, Opcode::RC_SEND_ONLY, (0, 0))?;
        let (psn, index) = sends_arrive(&q, Opcode::RC_SEND_ONLY_IMM, next)?;
        let length = 3 * q.mtu() - 3;
        q.tx_all(&q.message(Opcode::RC_WRITE_ONLY_IMM, length, psn))?;
        let completion = q.app.completes(index.into(), status::SUCCESS)?;
        let whole = completion.byte_len as usize == length && completion.imm.is_some();
        check(whole, || format!("expected {length} bytes and immediate data: {completion:?}"))?;
        q.app.written(&pattern(1, length))?;
        q.silence()?;
    }
    Ok(())
}

fn responder_read_every_mtu(b: &Bench<'_>) -> Outcome {
    for mtu in mtus(b) {
        let q = b.rc().mtu(mtu).open()?;
        let mut psn = 0;
        for length in lengths(q.mtu()) {
            q.tx(&q.read(length).psn(psn))?;
            let (bytes, _) = q.read_response(psn, length)?;
            q.app.registered(0, &bytes)?;
            psn += packets(&q, length);
        }
    }
    Ok(())
}

fn wrap_gap(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.rc())?;
    (0..3).try_for_each(|psn| q.tx(&q.write(16).psn(psn)))?;
    q.ack(2)?;
    q.tx_all(&[q.write(16).psn(4), q.write(16).psn(5)])?;
    q.nak(3, NakCode::PsnSequence)?;
    q.tx(&q.write(16).psn(3))?;
    let came = q.next("ACK of PSN +3 or +5")?;
    check(came.is_ack() && [3, 5].contains(&came.psn), || format!("expected an ACK, got {came}"))
}

fn wrap_duplicate(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.rc())?;
    (0..3).try_for_each(|psn| q.tx(&q.send(16).psn(psn)))?;
    q.ack(2)?;
    (0..3).try_for_each(|index| q.app.received(index, 16).map(drop))?;
    q.tx(&q.send(16).psn(2))?;
    q.ack(2)?;
    q.app.no_completion()?;
    q.tx(&q.send(16).psn(3))?;
    q.ack(3)?;
    q.app.received(3, 16).map(drop)
}

fn wrap_rnr(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.rc().receives(0))?;
    q.tx_all(&q.message(Opcode::RC_SEND_ONLY, 5 * q.mtu(), 0))?;
    q.rnr(0)?;
    while let Some(came) = q.within(b.patience().silence)? {
        let allowed = came.is_nak(NakCode::PsnSequence)
            || matches!(came.kind(), Some(SyndromeKind::Rnr { .. }));
        if !allowed || came.psn != 0 {
            return unexpected("an RNR NAK or a sequence NAK of PSN +0", &came);
        }
    }
    q.alive(0).map(drop)
}

fn uc_positions(b: &Bench<'_>) -> Outcome {
    let q = b.uc().open()?;
    let long = |psn| q.message(Opcode::RC_SEND_ONLY, 2 * q.mtu() + 4, psn);
    let begun = long(0);
    q.tx_all(&begun[..1])?;
    q.tx_all(&long(1))?;
    q.app.received(0, 2 * q.mtu() + 4)?;
    q.tx(&long(4)[0])?;
    q.tx(&q.send(16).psn(5))?;
    q.app.received(1, 16)?;
    q.tx(&q.message(Opcode::RC_WRITE_ONLY, 2 * q.mtu(), 6)[0])?;
    q.tx(&q.send(8).psn(7))?;
    q.app.received(2, 8)?;
    q.silence()
}

fn uc_wrap(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.uc().receive_bytes(8192))?;
    q.tx_all(&q.message(Opcode::RC_SEND_ONLY, 5 * q.mtu(), 0))?;
    q.app.received(0, 5 * q.mtu())?;
    q.tx(&q.send(16).psn(5))?;
    q.app.received(1, 16).map(drop)
}

fn uc_requester_wrap(b: &Bench<'_>) -> Outcome {
    let q = wrapping(b.uc())?;
    let work = q.app.post(Operation::Write, 5 * q.mtu())?;
    message(&q, Opcode::RC_WRITE_ONLY, 5 * q.mtu(), 0)?;
    q.app.completes(work, status::SUCCESS)?;
    q.app.post(Operation::Send, 16)?;
    q.request(5, Opcode::RC_SEND_ONLY).map(drop)
}
