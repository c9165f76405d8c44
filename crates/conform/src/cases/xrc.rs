//! XRC: extended reliable connections.

use uroce_wire::{NakCode, Opcode};

use super::{check, needs_extension};
use crate::case::cases;
use crate::{Bench, Operation, Outcome, Qp, Stop, status};

cases! {
    Must "xrc.responder.good", "X2 X4", [207], "XRC SENDs of every position arrive in the shared receive queue that they name, and are acknowledged without XRCETH.", good;
    Should "xrc.responder.no-such-queue", "X3", [206], "An XRC SEND to a shared receive queue that does not exist is an invalid request.", no_such_queue;
    Must "xrc.responder.rnr", "X4 R37", [], "An XRC SEND to an empty shared receive queue draws an RNR NAK.", rnr;
    Must "xrc.responder.other-service", "R3", [], "RC opcodes to an XRC queue pair are dropped.", other_service;
    Must "xrc.responder.gap", "X4 R53", [], "A gap before an XRC SEND draws one sequence NAK.", gap;
    Must "xrc.requester.good", "X2", [], "Each XRC request names the shared receive queue behind its BTH, and completes with an ACK of XRC.", requester_good;
    Must "xrc.requester.psn-wrap", "X4 R20", [], "XRC requests go on from PSN 0xffffff to 0.", requester_wrap;
}

fn needs_xrc(b: &Bench<'_>) -> Outcome {
    needs_extension(b, b.card().extensions.xrc, "XRC")
}

fn receiver<'b, 'r>(b: &'b Bench<'r>) -> Result<Qp<'b, 'r>, Stop> {
    needs_xrc(b)?;
    b.xrc().open()
}

fn good(b: &Bench<'_>) -> Outcome {
    let q = receiver(b)?;
    let mut psn = 0;
    for (index, length) in (0..).zip([16, 0, q.mtu(), q.mtu() + 1, 3 * q.mtu() - 3]) {
        let message = q.message(Opcode::RC_SEND_ONLY, length, psn);
        q.tx_all(&message)?;
        psn += message.len() as i32;
        let aeth = q.ack(psn - 1)?;
        check(aeth.msn == index + 1, || format!("MSN {} after {} messages", aeth.msn, index + 1))?;
        q.app.received(index, length)?;
    }
    Ok(())
}

fn no_such_queue(b: &Bench<'_>) -> Outcome {
    let q = receiver(b)?;
    q.tx(&q.send(16).srqn(q.srqn ^ 0x5a_5a5a).psn(0))?;
    q.fatal(0, NakCode::InvalidRequest)?;
    q.app.no_completion()
}

fn rnr(b: &Bench<'_>) -> Outcome {
    needs_xrc(b)?;
    let q = b.xrc().receives(0).open()?;
    q.tx(&q.send(16).psn(0))?;
    q.rnr(0)?;
    q.alive(0).map(drop)
}

fn other_service(b: &Bench<'_>) -> Outcome {
    let q = receiver(b)?;
    q.tx_all(&[
        q.exactly(Opcode::RC_SEND_ONLY, 16).psn(0),
        q.exactly(Opcode::RC_WRITE_ONLY, 16).psn(0),
    ])?;
    q.ignored(0)?;
    q.app.no_completion()
}

fn gap(b: &Bench<'_>) -> Outcome {
    let q = receiver(b)?;
    q.tx_all(&[q.send(16).psn(1), q.send(16).psn(2)])?;
    q.nak(0, NakCode::PsnSequence)?;
    q.silence()
}

/// The shared receive queue of the tester.
const QUEUE: u32 = 0x12_3456;

/// It posts a SEND of `length` bytes, which comes from `psn` on and is acknowledged.
fn sent(q: &Qp<'_, '_>, length: usize, psn: i32) -> Result<i32, Stop> {
    let work = q.app.post_with(Operation::Send, length, |work| work.srqn = QUEUE)?;
    super::requester::message(q, Opcode::RC_SEND_ONLY, length, psn)?;
    let next = psn + length.div_ceil(q.mtu()).max(1) as i32;
    q.tx(&q.acks(next - 1, 1))?;
    q.app.completes(work, status::SUCCESS)?;
    Ok(next)
}

fn requester_good(b: &Bench<'_>) -> Outcome {
    needs_xrc(b)?;
    let q = b.xrc_sender().open()?;
    let work = q.app.post_with(Operation::Send, 16, |work| work.srqn = QUEUE)?;
    let came = q.request(0, Opcode::RC_SEND_ONLY)?;
    check(came.srqn() == Some(QUEUE), || format!("not the queue that was posted: {came}"))?;
    q.tx(&q.acks(0, 1))?;
    q.app.completes(work, status::SUCCESS)?;
    let lengths = [0, q.mtu(), q.mtu() + 1, 3 * q.mtu() - 3];
    lengths.into_iter().try_fold(1, |psn, length| sent(&q, length, psn)).map(drop)
}

fn requester_wrap(b: &Bench<'_>) -> Outcome {
    needs_xrc(b)?;
    let q = b.xrc_sender().first_psn(0xff_fffe).open()?;
    let next = sent(&q, 3 * q.mtu(), 0)?;
    sent(&q, 16, next).map(drop)
}
