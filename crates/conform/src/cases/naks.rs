//! The NIC under test as requester: what it makes of NAKs.

use std::time::Duration;

use uroce_wire::{NakCode, Opcode, Syndrome, rnr_timer_us};

use super::requester::{acked, message, written};
use super::{check, unexpected};
use crate::case::cases;
use crate::position::{position, positioned};
use crate::{Bench, Operation, Outcome, Qp, State, Stop, pattern, status};

cases! {
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
    Must "rc.requester.nak-with-cnp", "R107 R13", [194], "A CNP before or behind a NAK disturbs nothing.", nak_with_cnp;
    Must "rc.requester.resend-bytes", "B13", [196], "Whichever packet of a message is lost, its bytes come again as they were.", resend_bytes;
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
    q.app.no_completion()?;
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
    match q.app.state()? {
        State::Err => q.app.completes(work, status::RETRY_EXC).map(drop),
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
        // Receives would be flushed too, before the requests or behind them.
        let q = b.rc().receives(0).open()?;
        let works = (0..3).map(|psn| written(&q, 16, psn)).collect::<Result<Vec<_>, _>>()?;
        q.tx(&q.naks(1, code, 1))?;
        q.app.completes(works[0], status::SUCCESS)?;
        q.app.completes(works[1], wanted)?;
        q.app.completes(works[2], status::WR_FLUSH)?;
        q.silence()?;
        check(q.app.state()? == State::Err, || "it is not in ERR".to_owned())?;
    }
    Ok(())
}

fn nak_reserved(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    q.tx(&q.acks(0, 0).syndrome(Syndrome(0x65)))?;
    q.nothing_new()?;
    if q.app.state()? == State::Err {
        b.tolerate("fatal");
        return q.app.completes(work, status::REM_OP).map(drop);
    }
    b.tolerate("ignored");
    q.app.no_completion()?;
    acked(&q, 0, work)
}

fn syndrome_reserved(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    for syndrome in [0x40, 0x5f] {
        q.tx(&q.acks(0, 0).syndrome(Syndrome(syndrome)))?;
    }
    q.nothing_new()?;
    q.app.no_completion()?;
    acked(&q, 0, work)
}

fn rnr_times(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    for code in [1, 12, 16, 20, 22, 25, 0] {
        let start = q.now();
        q.tx(&q.rnrs(0, code, 0))?;
        let waited = q.request(0, Opcode::RC_WRITE_ONLY)?.at().saturating_sub(start);
        let least = Duration::from_micros(rnr_timer_us(code).into());
        check(waited >= least, || format!("{waited:?} for code {code}, which is {least:?}"))?;
    }
    acked(&q, 0, work)
}

fn rnr_retry(b: &Bench<'_>) -> Outcome {
    for count in [0, 1, 3] {
        let q = b.rc().rnr_retry(count).open()?;
        let work = q.app.post(Operation::Write, 16)?;
        for _ in 0..=count {
            q.request(0, Opcode::RC_WRITE_ONLY)?;
            q.tx(&q.rnrs(0, 1, 0))?;
        }
        q.app.completes(work, status::RNR_RETRY_EXC)?;
        q.silence()?;
    }
    let q = b.rc().rnr_retry(7).open()?;
    let work = q.app.post(Operation::Write, 16)?;
    for _ in 0..20 {
        q.request(0, Opcode::RC_WRITE_ONLY)?;
        q.tx(&q.rnrs(0, 1, 0))?;
    }
    q.request(0, Opcode::RC_WRITE_ONLY)?;
    acked(&q, 0, work)
}

fn rnr_spares_retry(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, 2).open()?;
    let work = q.app.post(Operation::Write, 16)?;
    for _ in 0..5 {
        q.request(0, Opcode::RC_WRITE_ONLY)?;
        q.tx(&q.rnrs(0, 1, 0))?;
    }
    for _ in 0..3 {
        q.request(0, Opcode::RC_WRITE_ONLY)?;
    }
    q.app.completes(work, status::RETRY_EXC).map(drop)
}

fn rnr_then_nak(b: &Bench<'_>) -> Outcome {
    const CODE: u8 = 27;
    let q = b.rc().open()?;
    let work = written(&q, 16, 0)?;
    let start = q.now();
    q.tx(&q.rnrs(0, CODE, 0))?;
    q.tx(&q.naks(0, NakCode::PsnSequence, 0))?;
    let waited = q.request(0, Opcode::RC_WRITE_ONLY)?.at().saturating_sub(start);
    let least = Duration::from_micros(rnr_timer_us(CODE).into());
    check(waited >= least, || format!("it sent after {waited:?}, not {least:?}"))?;
    acked(&q, 0, work)
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

fn resend_bytes(b: &Bench<'_>) -> Outcome {
    for lost in 0..5 {
        let q = b.rc().open()?;
        let length = 5 * q.mtu() - 3;
        let work = q.app.post(Operation::Write, length)?;
        let mut bytes = message(&q, Opcode::RC_WRITE_ONLY, length, 0)?;
        bytes.truncate(lost * q.mtu());
        q.tx(&q.naks(lost as i32, NakCode::PsnSequence, 0))?;
        bytes.extend(resent(b, &q, lost, 4)?);
        check(bytes == pattern(0, length), || format!("wrong bytes from packet {lost} on"))?;
        acked(&q, 4, work)?;
    }
    Ok(())
}
