//! The NIC under test as requester: what it sends, and what it makes of ACKs and silence.

use std::time::Duration;

use uroce_wire::{Opcode, Syndrome};

use super::{check, unexpected};
use crate::case::cases;
use crate::position::{position, positioned};
use crate::{Bench, Came, Kind, Operation, Outcome, Qp, Stop, pattern, status};

cases! {
    Must "rc.requester.first-psn", "R1 R20", [150], "The first request has the agreed PSN, reserved bits 0 and the default P_Key; PSNs go on by 1.", first_psn;
    Must "rc.requester.opcode-split", "R24 R82", [151, 152], "A message is FIRST, MIDDLE and LAST of the path MTU, with RETH in front and AckReq at its end.", opcode_split;
    Free "rc.requester.header-constants", "E1", [153], "The UDP source port of a connection is recorded.", header_constants;
    Must "rc.requester.coalesced-ack", "R43 R67", [154], "One ACK completes all messages before it, in order.", coalesced_ack;
    Must "rc.requester.ack-inside-message", "R68", [155], "An ACK of the middle of a message does not complete it.", ack_inside_message;
    Must "rc.requester.ack-lost", "R75 R78", [156], "Without an ACK the same bytes come again, and an ACK then completes them.", ack_lost;
    Must "rc.requester.retry-count", "R75", [157], "It sends at least 1 + retry_cnt times, and then completes RETRY_EXC_ERR.", retry_count;
    Must "rc.requester.timeout-zero", "R75", [158], "With timeout 0 nothing is sent again.", timeout_zero;
    Must "rc.requester.ack-future", "A13 R70", [170], "An ACK of what was not sent is ignored.", ack_future;
    Must "rc.requester.ack-old", "R70", [171, 173], "ACKs that come again complete nothing twice.", ack_old;
    Must "rc.requester.credit-zero", "R81", [172], "Without credits WRITEs go on, and a SEND does not wait for ever.", credit_zero;
    Should "rc.requester.ack-with-flags", "R1", [193], "Flags of the BTH of an ACK do not matter.", ack_with_flags;
    Must "rc.requester.late-ack", "R70", [195], "A second ACK behind a repetition completes nothing twice.", late_ack;
    Must "rc.requester.ack-while-sent-again", "R67 R75", [], "An ACK of a whole message completes it while it is being sent again, though the rest of that is lost.", ack_while_sent_again;
    Free "rc.requester.window", "R17", [191], "How many packets it has on the way without an ACK is recorded.", window;
    Must "rc.requester.foreign-pkey-ack", "R6", [192], "An ACK with another P_Key is ignored.", foreign_pkey_ack;
}

/// The packets of its message of `length` bytes from `psn` on; they must be as the rules have them.
pub(super) fn message(
    q: &Qp<'_, '_>,
    only: Opcode,
    length: usize,
    psn: i32,
) -> Result<Vec<u8>, Stop> {
    let last = length.div_ceil(q.mtu()).max(1) - 1;
    let mut bytes = Vec::new();
    for index in 0..=last {
        let came = q.request(psn + index as i32, positioned(only, position(index, last)))?;
        let wanted = (length - bytes.len()).min(q.mtu());
        check(came.payload().len() == wanted, || format!("expected {wanted} bytes in {came}"))?;
        let asks = index < last || q.kind == Kind::Uc || came.bth().ack_req;
        check(asks, || format!("{came} asks for no ACK"))?;
        bytes.extend(came.payload());
    }
    Ok(bytes)
}

/// It posts a WRITE of `length` bytes and sends it, from `psn` on.
pub(super) fn written(q: &Qp<'_, '_>, length: usize, psn: i32) -> Result<u64, Stop> {
    let work = q.app.post(Operation::Write, length)?;
    message(q, Opcode::RC_WRITE_ONLY, length, psn)?;
    Ok(work)
}

pub(super) fn acked(q: &Qp<'_, '_>, psn: i32, work: u64) -> Outcome {
    q.tx(&q.acks(psn, 1))?;
    q.app.completes(work, status::SUCCESS).map(drop)
}

fn first_psn(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for psn in 0..3 {
        let work = q.app.post(Operation::Send, 16)?;
        let came = q.request(psn, Opcode::RC_SEND_ONLY)?;
        let bth = came.bth();
        let zeros = [bth.tver, bth.reserved6, bth.reserved7];
        check(zeros == [0; 3], || format!("version or reserved bits are not 0: {zeros:?}"))?;
        check(bth.pkey == 0xffff && !bth.becn, || format!("P_Key or BECN of {came}"))?;
        acked(&q, psn, work)?;
    }
    Ok(())
}

fn opcode_split(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let mtu = q.mtu();
    let mut psn = 0;
    for length in [0, 1, mtu, mtu + 1, 3 * mtu, 4 * mtu - 3] {
        for (operation, only) in
            [(Operation::Send, Opcode::RC_SEND_ONLY), (Operation::Write, Opcode::RC_WRITE_ONLY)]
        {
            let work = q.app.post(operation, length)?;
            let bytes = message(&q, only, length, psn)?;
            check(bytes == pattern(0, length), || format!("wrong bytes in {only} of {length}"))?;
            psn += length.div_ceil(mtu).max(1) as i32;
            acked(&q, psn - 1, work)?;
        }
    }
    Ok(())
}

fn header_constants(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let mut ports = Vec::new();
    for psn in 0..4 {
        let work = q.app.post(Operation::Write, 16)?;
        ports.push(q.request(psn, Opcode::RC_WRITE_ONLY)?.source_port());
        acked(&q, psn, work)?;
    }
    ports.dedup();
    b.record(format!("UDP source ports {ports:?}"));
    Ok(())
}

fn coalesced_ack(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let works = (0..8).map(|psn| written(&q, 16, psn)).collect::<Result<Vec<_>, _>>()?;
    q.tx(&q.acks(7, 8))?;
    works.into_iter().try_for_each(|work| q.app.completes(work, status::SUCCESS).map(drop))
}

fn ack_inside_message(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 4 * q.mtu(), 0)?;
    q.tx(&q.acks(1, 0))?;
    q.nothing_new()?;
    q.app.no_completion()?;
    acked(&q, 3, work)
}

/// The same request again: all that the ICRC covers is as it was.
fn again(came: &Came, before: &Came) -> Outcome {
    let covered = |came: &Came| came.bytes()[..came.bytes().len() - 4].to_vec();
    check(covered(came) == covered(before), || format!("{came} is not {before} again"))
}

fn ack_lost(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, 7).open()?;
    let work = q.app.post(Operation::Write, 100)?;
    let before = q.request(0, Opcode::RC_WRITE_ONLY)?;
    again(&q.request(0, Opcode::RC_WRITE_ONLY)?, &before)?;
    acked(&q, 0, work)
}

fn retry_count(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, 2).open()?;
    let work = q.app.post(Operation::Write, 16)?;
    let mut sendings = 0;
    let mut end = q.now() + b.patience().answer;
    loop {
        match q.within(b.patience().silence)? {
            Some(came) if came.psn == 0 => {
                sendings += 1;
                end = q.now() + b.patience().answer;
            }
            Some(came) => return unexpected("the same request again", &came),
            None if q.app.done(work, status::RETRY_EXC)? => break,
            None => check(q.now() < end, || format!("no end after {sendings} sendings"))?,
        }
    }
    check(sendings >= 3, || format!("it gave up after {sendings} sendings"))?;
    if sendings > 3 {
        b.tolerate(format!("{sendings} sendings: it repeats before its timeout as well"));
    }
    q.silence()
}

fn timeout_zero(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    q.silence_for(Duration::from_millis(600))?;
    acked(&q, 0, work)
}

fn ack_future(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    q.tx(&q.acks(1, 2))?;
    q.tx(&q.acks(1000, 1000))?;
    q.nothing_new()?;
    q.app.no_completion()?;
    acked(&q, 0, work)
}

fn ack_old(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for psn in 0..3 {
        let work = written(&q, 16, psn)?;
        acked(&q, psn, work)?;
    }
    let work = written(&q, 16, 3)?;
    q.tx_all(&[q.acks(0, 1), q.acks(1, 2), q.acks(2, 3), q.acks(-9, 0)])?;
    q.nothing_new()?;
    q.app.no_completion()?;
    acked(&q, 3, work)?;
    q.app.no_completion()
}

fn credit_zero(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let none = |psn, msn| q.acks(psn, msn).syndrome(Syndrome::ack(0));
    let work = q.app.post(Operation::Send, 16)?;
    q.request(0, Opcode::RC_SEND_ONLY)?;
    q.tx(&none(0, 1))?;
    q.app.completes(work, status::SUCCESS)?;
    let work = written(&q, 16, 1)?;
    q.tx(&none(1, 2))?;
    q.app.completes(work, status::SUCCESS)?;
    let work = q.app.post(Operation::Send, 16)?;
    q.request(2, Opcode::RC_SEND_ONLY)?;
    q.tx(&none(2, 3))?;
    q.app.completes(work, status::SUCCESS).map(drop)
}

fn ack_with_flags(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    let odd = q.acks(0, 1).bth(|bth| {
        (bth.solicited, bth.ack_req, bth.migreq, bth.becn) = (true, true, false, true);
    });
    q.tx(&odd)?;
    q.app.completes(work, status::SUCCESS).map(drop)
}

fn late_ack(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, 7).open()?;
    let work = written(&q, 16, 0)?;
    q.request(0, Opcode::RC_WRITE_ONLY)?;
    acked(&q, 0, work)?;
    q.tx(&q.acks(0, 1))?;
    q.silence()?;
    q.app.no_completion()
}

/// Packets of a message that takes a while to be sent again. Behind more than 64 some requesters ask for an ACK in the
/// middle.
const LONG: usize = 60;
/// How often it is tried: the ACK has to meet the message on its way.
const ROUNDS: u32 = 4;

fn ack_while_sent_again(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(16, 7).open()?;
    let packets = LONG as i32;
    for round in 0..ROUNDS {
        let psn = round as i32 * packets;
        let work = written(&q, LONG * q.mtu(), psn)?;
        // The ACK of it all was lost, so something of it comes again. An ACK that was delayed arrives then, and what of
        // the message is still to come is lost: the tester does not answer it.
        let came = q.next("a packet of the message again")?;
        let again = (psn..psn + packets).contains(&came.psn);
        check(again, || format!("expected a packet of the message again, got {came}"))?;
        q.tx(&q.acks(psn + packets - 1, round + 1))?;
        q.app.completes(work, status::SUCCESS)?;
        q.nothing_new()?;
    }
    Ok(())
}

fn window(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for _ in 0..16 {
        q.app.post(Operation::Write, 32 * q.mtu())?;
    }
    let mut packets = 0;
    while let Some(came) = q.within(b.patience().silence)? {
        check(came.psn == packets, || format!("expected PSN {packets:+}, got {came}"))?;
        packets += 1;
    }
    check(packets > 0, || "it sends nothing".to_owned())?;
    b.record(format!("{packets} packets without an ACK, of 512"));
    Ok(())
}

fn foreign_pkey_ack(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    q.tx(&q.acks(0, 1).bth(|bth| bth.pkey = 0x1234))?;
    q.nothing_new()?;
    q.app.no_completion()?;
    acked(&q, 0, work)
}
