//! Connection management: how connections end, and what comes after their end.

use uroce_cm::message::{Drep, Dreq, Message};
use uroce_cm::{CommId, PrivateData, RejReason};
use uroce_wire::Qpn;

use super::{check, fail};
use crate::case::cases;
use crate::{Bench, Outcome, State};

cases! {
    Must "cm.responder.dreq", "R110", [227], "A DREQ ends the connection; it draws DREP with its transaction id, again if it comes again.", dreq;
    Should "cm.responder.dreq-wrong-qpn", "A23", [228], "A DREQ with the wrong queue pair ends nothing.", dreq_wrong_qpn;
    Should "cm.responder.dreq-unknown", "C1", [229], "A DREQ for a connection that does not exist draws DREP with the ids swapped.", dreq_unknown;
    Must "cm.requester.dreq-crossing", "R110", [230], "DREQs that cross are both answered.", dreq_crossing;
    Must "cm.responder.req-same-qpn", "R112", [217], "A REQ from a queue pair that is connected draws REJ 10 while the peer of that connection lives.", req_same_qpn;
    Should "cm.responder.req-timewait", "R111", [218], "A REQ with the ids of a connection in TIMEWAIT draws REJ 10.", req_timewait;
    Must "rc.responder.old-packets", "A36 R91", [241], "Packets of an earlier connection have no effect after its end.", old_packets;
}

fn dreq(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.connected()?;
    c.end()?;
    c.call.say(c.dreq())?;
    c.drep()?;
    c.call.cm.no_event()
}

fn dreq_wrong_qpn(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.connected()?;
    let remote_qpn = Qpn::new(c.rep.local_qpn.get() ^ 1);
    c.call.say(Dreq { remote_qpn, ..c.dreq() })?;
    c.call.silence()?;
    c.call.cm.no_event()?;
    c.qp.alive(0).map(drop)
}

fn dreq_unknown(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_nobody()?;
    let unknown = CommId(call.req.local_comm_id.0 ^ 0x00ff_0000);
    call.say(Dreq {
        local_comm_id: call.req.local_comm_id,
        remote_comm_id: unknown,
        remote_qpn: Qpn::new(0x12_3456),
        private_data: PrivateData::default(),
    })?;
    match call.answer("DREP")? {
        Message::Drep(drep) if drep.local_comm_id == unknown => call.silence(),
        other => fail(format!("expected DREP with the ids swapped, got {other:?}")),
    }
}

fn dreq_crossing(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.connected()?;
    c.disconnect()?;
    let theirs = match c.call.answer("DREQ")? {
        Message::Dreq(dreq) => dreq,
        other => return fail(format!("expected DREQ, got {other:?}")),
    };
    let qpn = theirs.remote_qpn;
    check(qpn == c.call.req.local_qpn, || format!("the DREQ names queue pair {qpn}"))?;
    c.end()?;
    c.call.say(Drep {
        local_comm_id: c.call.req.local_comm_id,
        remote_comm_id: c.rep.local_comm_id,
        private_data: PrivateData::default(),
    })?;
    c.call.silence()
}

fn req_same_qpn(b: &Bench<'_>) -> Outcome {
    let cm = b.cm()?;
    let c = cm.call_a_listener()?.connected()?;
    let port = c.call.req.service_id.port();
    let second = cm.call(port).with(|req| req.local_qpn = c.call.req.local_qpn);
    second.tx()?;
    // It may ask the queue pair first whether it lives.
    let mut asked = false;
    while let Some(probe) = c.qp.within(b.patience().silence)? {
        asked = true;
        c.qp.tx(&c.qp.acks(probe.psn, 0))?;
    }
    if asked {
        b.tolerate("it asks the connected queue pair for a sign of life, and refuses the next REQ");
        second.tx()?;
    }
    second.rej(RejReason::STALE_CONNECTION)?;
    Ok(())
}

fn req_timewait(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.connected()?;
    c.end()?;
    c.call.tx()?;
    if let Some(event) = c.call.cm.event_within(c.call.cm.silence())? {
        return fail(format!("expected REJ 10; the program gets event {}", event.kind));
    }
    c.call.rej(RejReason::STALE_CONNECTION).map(drop)
}

fn old_packets(b: &Bench<'_>) -> Outcome {
    let cm = b.cm()?;
    let before = cm.call_a_listener()?.connected()?;
    let old = [before.qp.write(16).psn(0), before.qp.send(16).psn(1), before.qp.write(0).psn(2)];
    for (psn, packet) in (0..).zip(&old) {
        before.qp.tx(packet)?;
        before.qp.ack(psn)?;
    }
    before.qp.app.received(0, 16)?;
    before.end()?;
    before.qp.app.modify(State::Err)?;
    before.qp.app.fill(0, &crate::pattern(0, 16))?;
    let now = cm.call_a_listener()?.connected()?;
    before.qp.tx_all(&old)?;
    before.qp.silence()?;
    before.qp.app.untouched()?;
    now.qp.alive(0)?;
    now.qp.app.untouched()
}
