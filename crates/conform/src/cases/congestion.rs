//! Congestion: marks of the network (ECN) and congestion notification packets (CNPs).

use std::time::Duration;

use uroce_wire::{CNP_LEN, Opcode};

use super::{check, others_live};
use crate::case::cases;
use crate::{Bench, Came, Operation, Outcome, Packet, Qp, Stop, status};

cases! {
    Should "rc.responder.ce-gives-cnp", "R102", [208], "Data marked CE draws a CNP: BECN, PSN 0, 16 zero bytes, to the sender's queue pair. Who has no congestion control sends none.", ce_gives_cnp;
    Must "rc.responder.no-mark-no-cnp", "R102", [], "Data without a mark, or with ECT only, draws no CNP.", no_mark_no_cnp;
    Free "rc.responder.cnp-rate", "R102 R103", [209], "How many CNPs a train of marked packets draws is recorded, for one and for four queue pairs.", cnp_rate;
    Must "rc.responder.ce-on-control", "R102", [213], "A marked CNP draws no CNP.", ce_on_control;
    Must "rc.responder.cnp-odd", "R13", [212], "CNPs of queue pairs that do not exist, without BECN, or of another length have no effect and no answer.", cnp_odd;
    Free "rc.requester.cnp-taken", "R104 R105 R106", [210], "CNPs may slow a sender down, but do not stop it; the times are recorded.", cnp_taken;
    Should "rc.requester.cnp-flood", "A24", [211], "After many CNPs a sender still makes progress, and is as fast as before within a second.", cnp_flood;
}

/// ECN of the IP header: congestion was met.
const CE: u8 = 0b11;
/// ECN of the IP header: both ends understand it.
const ECT: [u8; 2] = [0b01, 0b10];
/// Bytes of a CNP behind the BTH.
const RESERVED: usize = 16;

fn ce_gives_cnp(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).psn(0).traffic_class(CE))?;
    q.ack(0)?;
    q.silence()?;
    let cnps = q.cnps()?;
    cnps.iter().try_for_each(right_form)?;
    match cnps.len() {
        0 => b.tolerate("it sends no CNPs"),
        count => check(count == 1, || format!("one marked packet drew {count} CNPs"))?,
    }
    q.alive(1).map(drop)
}

fn right_form(cnp: &Came) -> Outcome {
    let (bth, length) = (cnp.bth(), cnp.bytes().len());
    check(bth.becn, || format!("{cnp} has no BECN"))?;
    check(bth.psn.get() == 0, || format!("{cnp} has a PSN"))?;
    check(!bth.ack_req, || format!("{cnp} asks for an ACK"))?;
    let zeros = cnp.bytes()[CNP_LEN - RESERVED..CNP_LEN].iter().all(|byte| *byte == 0);
    check(zeros, || format!("{cnp} has bytes other than 0 behind its BTH"))?;
    check(length == CNP_LEN + 4, || format!("{cnp} has {length} bytes"))
}

fn no_mark_no_cnp(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).psn(0))?;
    for (psn, mark) in (1..).zip(ECT) {
        q.tx(&q.write(16).psn(psn).traffic_class(mark))?;
    }
    q.ack(2)?;
    q.silence()?;
    none(&q)
}

/// No CNP has come.
fn none(q: &Qp<'_, '_>) -> Outcome {
    match q.cnps()?.first() {
        None => Ok(()),
        Some(cnp) => super::fail(format!("expected no CNP, got {cnp}")),
    }
}

/// Marked packets of a train.
const TRAIN: i32 = 1000;

fn cnp_rate(b: &Bench<'_>) -> Outcome {
    for count in [1, 4] {
        let queue_pairs = (0..count).map(|_| b.rc().open()).collect::<Result<Vec<_>, _>>()?;
        let start = queue_pairs[0].now();
        for psn in 0..TRAIN / count {
            for q in &queue_pairs {
                q.tx(&q.write(16).psn(psn).quiet().traffic_class(CE))?;
            }
        }
        let time = queue_pairs[0].now() - start;
        let mut cnps = Vec::new();
        for q in &queue_pairs {
            q.alive(TRAIN / count)?;
            q.silence()?;
            cnps.push(q.cnps()?.len());
        }
        let all: usize = cnps.iter().sum();
        check(all <= TRAIN as usize, || format!("{TRAIN} marked packets drew {all} CNPs"))?;
        let millis = time.as_millis();
        b.record(format!(
            "{TRAIN} marked packets in {millis} ms to {count} queue pairs: CNPs {cnps:?}"
        ));
    }
    Ok(())
}

/// A CNP, right in every respect.
fn cnp(q: &Qp<'_, '_>) -> Packet {
    let packet = q.exactly(Opcode::CNP, 0).data(&[0; RESERVED]);
    packet.bth(|bth| (bth.becn, bth.psn) = (true, uroce_wire::Psn::new(0)))
}

fn ce_on_control(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&cnp(&q).traffic_class(CE))?;
    q.ignored(0)?;
    none(&q)
}

fn cnp_odd(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx_all(&[
        cnp(&q).bth(|bth| bth.dest_qpn = uroce_wire::Qpn::new(q.qpn() ^ 0x80_0000)),
        cnp(&q).bth(|bth| bth.becn = false),
        cnp(&q).bth(|bth| bth.ack_req = true),
        cnp(&q).data(&[]),
        cnp(&q).data(&[0; 4]),
        cnp(&q).data(&[0xff; 64]),
    ])?;
    q.ignored(0)?;
    none(&q)?;
    q.app.untouched()?;
    others_live(b)
}

/// Bytes of each WRITE whose time is taken.
const LENGTH: usize = 64 << 10;

/// The time of a WRITE from the program to its completion; `disturb` is called at each packet.
fn timed(q: &Qp<'_, '_>, psn: i32, disturb: impl Fn() -> Outcome) -> Result<Duration, Stop> {
    let (start, last) = (q.now(), LENGTH.div_ceil(q.mtu()) as i32 - 1);
    let work = q.app.post(Operation::Write, LENGTH)?;
    for index in 0..=last {
        let opcode = crate::position::positioned(
            Opcode::RC_WRITE_ONLY,
            crate::position::position(index as usize, last as usize),
        );
        let came = q.request(psn + index, opcode)?;
        disturb()?;
        if came.bth().ack_req || index == last {
            q.tx(&q.acks(psn + index, 1))?;
        }
    }
    q.app.completes(work, status::SUCCESS)?;
    Ok(q.now() - start)
}

fn cnp_taken(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let packets = LENGTH.div_ceil(q.mtu()) as i32;
    let before = timed(&q, 0, || Ok(()))?;
    let during = timed(&q, packets, || q.tx(&cnp(&q)))?;
    let after = timed(&q, 2 * packets, || Ok(()))?;
    let millis = [before, during, after].map(|time| time.as_millis());
    b.record(format!(
        "{LENGTH} bytes took {} ms, {} ms with a CNP for each packet, {} ms after",
        millis[0], millis[1], millis[2]
    ));
    Ok(())
}

/// CNPs of a flood.
const FLOOD: u32 = 2000;

fn cnp_flood(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let packets = LENGTH.div_ceil(q.mtu()) as i32;
    let usual = timed(&q, 0, || Ok(()))?;
    (0..FLOOD).try_for_each(|_| q.tx(&cnp(&q)))?;
    let start = q.now();
    for turn in 1.. {
        let time = timed(&q, turn * packets, || Ok(()))?;
        if time <= 2 * usual + Duration::from_millis(5) {
            break;
        }
        let since = q.now() - start;
        check(since <= RECOVERY, || {
            format!(
                "{} ms after the CNPs {LENGTH} bytes take {time:?}, {usual:?} before",
                since.as_millis()
            )
        })?;
    }
    b.record(format!("as fast as before after {} ms", (q.now() - start).as_millis()));
    Ok(())
}

/// Within this time the CNPs must be forgotten.
const RECOVERY: Duration = Duration::from_secs(1);
