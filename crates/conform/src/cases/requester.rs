//! The NIC under test as requester: what it sends, and what it makes of ACKs, NAKs and silence.

use std::time::Duration;

use uroce_wire::{NakCode, Opcode, Syndrome, rnr_timer_us};

use super::{check, unexpected};
use crate::answers::{position, positioned};
use crate::case::cases;
use crate::{Bench, Came, Operation, Outcome, Qp, State, Stop, pattern, status};

cases! {
    Must "rc.requester.first-psn", "R1 R20", [150], "The first request has the agreed PSN, reserved bits 0 and the default P_Key; PSNs go on by 1.", first_psn;
    Must "rc.requester.opcode-split", "R24 R82", [151, 152], "A message is FIRST, MIDDLE and LAST of the path MTU, with RETH in front and AckReq at its end.", opcode_split;
    Free "rc.requester.header-constants", "E1", [153], "The UDP source port of a connection is recorded.", header_constants;
    Must "rc.requester.coalesced-ack", "R43 R67", [154], "One ACK completes all messages before it, in order.", coalesced_ack;
    Must "rc.requester.ack-inside-message", "R68", [155], "An ACK of the middle of a message does not complete it.", ack_inside_message;
    Must "rc.requester.ack-lost", "R75 R78", [156], "Without an ACK the same bytes come again, and an ACK then completes them.", ack_lost;
    Must "rc.requester.retry-count", "R75", [157], "It sends at least 1 + retry_cnt times, and then completes RETRY_EXC_ERR.", retry_count;
    Must "rc.requester.timeout-zero", "R75", [158], "With timeout 0 nothing is sent again.", timeout_zero;
    Must "rc.requester.nak-mid", "R71 R78", [160], "A sequence NAK in the middle of a WRITE restarts it exactly there.", nak_mid;
    Must "rc.requester.nak-outside", "R72 A13", [161], "A sequence NAK of a PSN that is not outstanding is ignored.", nak_outside;
    Should "rc.requester.nak-storm", "A17", [162], "The same sequence NAK again and again draws a bounded number of packets.", nak_storm;
    Must "rc.requester.fatal-naks", "R73", [163], "A fatal NAK completes its request with its status, earlier ones well, later ones flushed.", fatal_naks;
    Free "rc.requester.nak-reserved", "R74", [164], "A NAK with a reserved code is ignored, or fatal.", nak_reserved;
    Must "rc.requester.syndrome-reserved", "R51", [165], "An AETH with a reserved syndrome is ignored.", syndrome_reserved;
    Must "rc.requester.rnr-times", "R76 B29", [166], "After an RNR NAK it waits at least the time of its code.", rnr_times;
    Must "rc.requester.rnr-retry", "R76 B16", [167], "It repeats rnr_retry times and then completes RNR_RETRY_EXC_ERR; 7 is for ever.", rnr_retry;
    Must "rc.requester.rnr-spares-retry", "R76", [168], "RNR NAKs do not use up retry_cnt.", rnr_spares_retry;
    Must "rc.requester.rnr-then-nak", "B15", [169], "A sequence NAK does not shorten the wait after an RNR NAK.", rnr_then_nak;
    Must "rc.requester.ack-future", "A13 R70", [170], "An ACK of what was not sent is ignored.", ack_future;
    Must "rc.requester.ack-old", "R70", [171, 173], "ACKs that come again complete nothing twice.", ack_old;
    Must "rc.requester.credit-zero", "R81", [172], "Without credits WRITEs go on, and a SEND does not wait for ever.", credit_zero;
    Should "rc.requester.ack-with-flags", "R1", [193], "Flags of the BTH of an ACK do not matter.", ack_with_flags;
    Must "rc.requester.nak-with-cnp", "R107 R13", [194], "A CNP before or behind a NAK disturbs nothing.", nak_with_cnp;
    Must "rc.requester.late-ack", "R70", [195], "A second ACK behind a repetition completes nothing twice.", late_ack;
    Must "rc.requester.resend-bytes", "B13", [196], "Whichever packet of a message is lost, its bytes come again as they were.", resend_bytes;
    Free "rc.requester.window", "R17", [191], "How many packets it has on the way without an ACK is recorded.", window;
    Must "rc.requester.foreign-pkey-ack", "R6", [192], "An ACK with another P_Key is ignored.", foreign_pkey_ack;
}

/// The packets of its message of `length` bytes from `psn` on; they must be as the rules have them.
fn message(q: &Qp<'_, '_>, only: Opcode, length: usize, psn: i32) -> Result<Vec<u8>, Stop> {
    let last = length.div_ceil(q.mtu()).max(1) - 1;
    let mut bytes = Vec::new();
    for index in 0..=last {
        let came = q.request(psn + index as i32, positioned(only, position(index, last)))?;
        let wanted = (length - bytes.len()).min(q.mtu());
        check(came.payload().len() == wanted, || format!("expected {wanted} bytes in {came}"))?;
        check(index < last || came.bth().ack_req, || format!("{came} asks for no ACK"))?;
        bytes.extend(came.payload());
    }
    Ok(bytes)
}

/// It posts a WRITE of `length` bytes and sends it, from `psn` on.
fn written(q: &Qp<'_, '_>, length: usize, psn: i32) -> Result<u64, Stop> {
    let work = q.post(Operation::Write, length)?;
    message(q, Opcode::RC_WRITE_ONLY, length, psn)?;
    Ok(work)
}

fn acked(q: &Qp<'_, '_>, psn: i32, work: u64) -> Outcome {
    q.tx(&q.acks(psn, 1))?;
    q.completes(work, status::SUCCESS).map(drop)
}

fn first_psn(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for psn in 0..3 {
        let work = q.post(Operation::Send, 16)?;
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
            let work = q.post(operation, length)?;
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
        let work = q.post(Operation::Write, 16)?;
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
    works.into_iter().try_for_each(|work| q.completes(work, status::SUCCESS).map(drop))
}

fn ack_inside_message(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 4 * q.mtu(), 0)?;
    q.tx(&q.acks(1, 0))?;
    q.nothing_new()?;
    q.no_completion()?;
    acked(&q, 3, work)
}

/// The same request again: all that the ICRC covers is as it was.
fn again(came: &Came, before: &Came) -> Outcome {
    let covered = |came: &Came| came.bytes()[..came.bytes().len() - 4].to_vec();
    check(covered(came) == covered(before), || format!("{came} is not {before} again"))
}

fn ack_lost(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, 7).open()?;
    let work = q.post(Operation::Write, 100)?;
    let before = q.request(0, Opcode::RC_WRITE_ONLY)?;
    again(&q.request(0, Opcode::RC_WRITE_ONLY)?, &before)?;
    acked(&q, 0, work)
}

fn retry_count(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, 2).open()?;
    let work = q.post(Operation::Write, 16)?;
    let mut sendings = 0;
    let end = q.now() + b.patience().answer;
    loop {
        match q.within(b.patience().silence)? {
            Some(came) if came.psn == 0 => sendings += 1,
            Some(came) => return unexpected("the same request again", &came),
            None if q.done(work, status::RETRY_EXC)? => break,
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

fn nak_mid(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 4 * q.mtu(), 0)?;
    q.tx(&q.naks(2, NakCode::PsnSequence, 0))?;
    let bytes = resent(b, &q, 2, 3)?;
    check(bytes == pattern(0, 4 * q.mtu())[2 * q.mtu()..], || "wrong bytes".to_owned())?;
    acked(&q, 3, work)
}

/// It sends the packets from `psn` to `last` of a WRITE again; returns their bytes. One that sends only what the NAK named
/// goes on after its ACK.
fn resent(b: &Bench<'_>, q: &Qp<'_, '_>, psn: usize, last: usize) -> Result<Vec<u8>, Stop> {
    let mut bytes = Vec::new();
    for index in psn..=last {
        let opcode = positioned(Opcode::RC_WRITE_ONLY, position(index, last));
        let mut came = q.within(b.patience().silence)?;
        if came.is_none() && index > psn {
            b.tolerate("it sends only what the NAK names, and goes on after its ACK");
            q.tx(&q.acks(index as i32 - 1, 0))?;
            came = q.within(b.patience().answer)?;
        }
        match came {
            Some(came) if came.psn == index as i32 && came.opcode() == opcode => {
                bytes.extend(came.payload());
            }
            Some(came) => return unexpected(&format!("{opcode} at PSN {index:+}"), &came),
            None => return super::fail(format!("expected {opcode} at PSN {index:+} again")),
        }
    }
    Ok(bytes)
}

fn nak_outside(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    q.tx(&q.naks(5, NakCode::PsnSequence, 0))?;
    q.tx(&q.naks(-3, NakCode::PsnSequence, 0))?;
    q.nothing_new()?;
    q.no_completion()?;
    acked(&q, 0, work)
}

fn nak_storm(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(0, 3).open()?;
    let work = written(&q, 2 * q.mtu(), 0)?;
    let mut packets = 0;
    for _ in 0..100 {
        q.tx(&q.naks(0, NakCode::PsnSequence, 0))?;
    }
    while q.within(b.patience().silence)?.is_some() {
        packets += 1;
    }
    b.record(format!("100 sequence NAKs of 2 packets drew {packets} packets"));
    check(packets <= 200, || format!("{packets} packets for 100 NAKs"))?;
    match q.state()? {
        State::Err => q.completes(work, status::RETRY_EXC).map(drop),
        _ => acked(&q, 1, work),
    }
}

fn fatal_naks(b: &Bench<'_>) -> Outcome {
    let codes = [
        (NakCode::InvalidRequest, status::REM_INV_REQ),
        (NakCode::RemoteAccess, status::REM_ACCESS),
        (NakCode::RemoteOperational, status::REM_OP),
    ];
    for (code, wanted) in codes {
        let q = b.rc().open()?;
        let works = (0..3).map(|psn| written(&q, 16, psn)).collect::<Result<Vec<_>, _>>()?;
        q.tx(&q.naks(1, code, 1))?;
        q.completes(works[0], status::SUCCESS)?;
        q.completes(works[1], wanted)?;
        q.completes(works[2], status::WR_FLUSH)?;
        q.silence()?;
        check(q.state()? == State::Err, || "it is not in ERR".to_owned())?;
    }
    Ok(())
}

fn nak_reserved(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    q.tx(&q.acks(0, 0).syndrome(Syndrome(0x65)))?;
    q.nothing_new()?;
    if q.state()? == State::Err {
        b.tolerate("fatal");
        return q.completes(work, status::REM_OP).map(drop);
    }
    b.tolerate("ignored");
    q.no_completion()?;
    acked(&q, 0, work)
}

fn syndrome_reserved(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    for syndrome in [0x40, 0x5f] {
        q.tx(&q.acks(0, 0).syndrome(Syndrome(syndrome)))?;
    }
    q.nothing_new()?;
    q.no_completion()?;
    acked(&q, 0, work)
}

fn rnr_times(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    for code in [1, 12, 16, 20, 22, 25, 0] {
        let start = q.now();
        q.tx(&q.rnrs(0, code, 0))?;
        let waited = q.request(0, Opcode::RC_WRITE_ONLY)?.at() - start;
        let least = Duration::from_micros(rnr_timer_us(code).into());
        check(waited >= least, || format!("{waited:?} for code {code}, which is {least:?}"))?;
    }
    acked(&q, 0, work)
}

fn rnr_retry(b: &Bench<'_>) -> Outcome {
    for count in [0, 1, 3] {
        let q = b.rc().rnr_retry(count).open()?;
        let work = q.post(Operation::Write, 16)?;
        for _ in 0..=count {
            q.request(0, Opcode::RC_WRITE_ONLY)?;
            q.tx(&q.rnrs(0, 1, 0))?;
        }
        q.completes(work, status::RNR_RETRY_EXC)?;
        q.silence()?;
    }
    let q = b.rc().rnr_retry(7).open()?;
    let work = q.post(Operation::Write, 16)?;
    for _ in 0..20 {
        q.request(0, Opcode::RC_WRITE_ONLY)?;
        q.tx(&q.rnrs(0, 1, 0))?;
    }
    q.request(0, Opcode::RC_WRITE_ONLY)?;
    acked(&q, 0, work)
}

fn rnr_spares_retry(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, 2).open()?;
    let work = q.post(Operation::Write, 16)?;
    for _ in 0..5 {
        q.request(0, Opcode::RC_WRITE_ONLY)?;
        q.tx(&q.rnrs(0, 1, 0))?;
    }
    for _ in 0..3 {
        q.request(0, Opcode::RC_WRITE_ONLY)?;
    }
    q.completes(work, status::RETRY_EXC).map(drop)
}

fn rnr_then_nak(b: &Bench<'_>) -> Outcome {
    const CODE: u8 = 27;
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    let start = q.now();
    q.tx(&q.rnrs(0, CODE, 0))?;
    q.tx(&q.naks(0, NakCode::PsnSequence, 0))?;
    let waited = q.request(0, Opcode::RC_WRITE_ONLY)?.at() - start;
    let least = Duration::from_micros(rnr_timer_us(CODE).into());
    check(waited >= least, || format!("it sent after {waited:?}, not {least:?}"))?;
    acked(&q, 0, work)
}

fn ack_future(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    q.tx(&q.acks(1, 2))?;
    q.tx(&q.acks(1000, 1000))?;
    q.nothing_new()?;
    q.no_completion()?;
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
    q.no_completion()?;
    acked(&q, 3, work)?;
    q.no_completion()
}

fn credit_zero(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let none = |psn, msn| q.acks(psn, msn).syndrome(Syndrome::ack(0));
    let work = q.post(Operation::Send, 16)?;
    q.request(0, Opcode::RC_SEND_ONLY)?;
    q.tx(&none(0, 1))?;
    q.completes(work, status::SUCCESS)?;
    let work = written(&q, 16, 1)?;
    q.tx(&none(1, 2))?;
    q.completes(work, status::SUCCESS)?;
    let work = q.post(Operation::Send, 16)?;
    q.request(2, Opcode::RC_SEND_ONLY)?;
    q.tx(&none(2, 3))?;
    q.completes(work, status::SUCCESS).map(drop)
}

fn ack_with_flags(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    let odd = q.acks(0, 1).bth(|bth| {
        (bth.solicited, bth.ack_req, bth.migreq, bth.becn) = (true, true, false, true);
    });
    q.tx(&odd)?;
    q.completes(work, status::SUCCESS).map(drop)
}

fn nak_with_cnp(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let cnp = q.exactly(Opcode::CNP, 0).data(&[0; 16]).bth(|bth| {
        (bth.becn, bth.psn) = (true, uroce_wire::Psn::new(0));
    });
    let nak = |psn| q.naks(psn, NakCode::PsnSequence, 0);
    for (psn, packets) in [(0, [cnp.clone(), nak(0)]), (1, [nak(1), cnp.clone()])] {
        let work = written(&q, 16, psn)?;
        q.tx_all(&packets)?;
        q.request(psn, Opcode::RC_WRITE_ONLY)?;
        acked(&q, psn, work)?;
    }
    Ok(())
}

fn late_ack(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, 7).open()?;
    let work = written(&q, 16, 0)?;
    q.request(0, Opcode::RC_WRITE_ONLY)?;
    acked(&q, 0, work)?;
    q.tx(&q.acks(0, 1))?;
    q.silence()?;
    q.no_completion()
}

fn resend_bytes(b: &Bench<'_>) -> Outcome {
    for lost in 0..5 {
        let q = b.rc().open()?;
        let length = 5 * q.mtu() - 3;
        let work = q.post(Operation::Write, length)?;
        let mut bytes = message(&q, Opcode::RC_WRITE_ONLY, length, 0)?;
        bytes.truncate(lost * q.mtu());
        q.tx(&q.naks(lost as i32, NakCode::PsnSequence, 0))?;
        bytes.extend(resent(b, &q, lost, 4)?);
        check(bytes == pattern(0, length), || format!("wrong bytes from packet {lost} on"))?;
        acked(&q, 4, work)?;
    }
    Ok(())
}

fn window(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for _ in 0..16 {
        q.post(Operation::Write, 32 * q.mtu())?;
    }
    let mut packets = 0;
    while let Some(came) = q.within(b.patience().silence)? {
        check(came.psn == packets, || format!("expected PSN {packets:+}, got {came}"))?;
        packets += 1;
    }
    b.record(format!("{packets} packets without an ACK, of 512"));
    Ok(())
}

fn foreign_pkey_ack(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    q.tx(&q.acks(0, 1).bth(|bth| bth.pkey = 0x1234))?;
    q.nothing_new()?;
    q.no_completion()?;
    acked(&q, 0, work)
}
