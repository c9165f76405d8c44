//! Connection management, the called side: what a program that listens and its connection manager make of REQs.

use uroce_cm::message::{Message, Rep};
use uroce_cm::{CommId, RejReason};
use uroce_wire::Mtu;

use super::{check, fail};
use crate::case::cases;
use crate::cm::Connection;
use crate::{Bench, Outcome, Stop, cm_event};

cases! {
    Must "cm.responder.req-ok", "R115", [214], "A REQ to a program that listens draws a REP with its ids, a queue pair that works, and the transaction id.", req_ok;
    Must "cm.responder.no-listener", "R111", [215], "A REQ to a port on which nobody listens draws REJ 8 without a communication id.", no_listener;
    Must "cm.responder.program-refuses", "R111", [], "A program that refuses draws REJ 28 with its private data.", program_refuses;
    Must "cm.responder.private-data", "R115", [225], "Private data of REQ and REP arrive unchanged, in the whole length that there is room for.", private_data;
    Must "cm.responder.req-duplicate", "R108", [216], "A REQ that comes again makes one connection, and draws the same REP, MRA or nothing.", req_duplicate;
    Must "cm.responder.rep-values", "R115", [221], "The REP asks for no more READs than the caller serves, and serves no more than the device can.", rep_values;
    Must "cm.responder.path-mtu", "R115", [222], "Every path MTU that the device has is accepted and used.", path_mtu;
    Must "cm.responder.data-before-rtu", "R113", [220], "Requests before the RTU are answered.", data_before_rtu;
    Must "cm.responder.rep-resent", "R114", [219], "Without RTU the REP comes again, not more often than the REQ says.", rep_resent;
    Must "cm.responder.rtu-duplicate", "A23", [226], "An RTU that comes again changes nothing.", rtu_duplicate;
    Must "cm.responder.rtu-foreign", "A23", [226], "An RTU with wrong communication ids establishes nothing.", rtu_foreign;
}

fn req_ok(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.connected()?;
    let Rep { local_comm_id, local_qpn, .. } = c.rep;
    check(local_comm_id != CommId::NONE, || "the REP has no communication id".to_owned())?;
    let qpn = c.qp.qpn();
    check(local_qpn.get() == qpn, || {
        format!("the REP names queue pair {local_qpn}, not {qpn:#x}")
    })?;
    c.qp.alive(0)?;
    c.call.silence()
}

fn no_listener(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_nobody()?;
    call.tx()?;
    let rej = call.rej(RejReason::INVALID_SERVICE_ID)?;
    let id = rej.local_comm_id;
    check(id == CommId::NONE, || format!("the REJ names communication id {id}"))?;
    call.silence()
}

fn program_refuses(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_a_listener()?;
    call.tx()?;
    call.refused(&call.arrives()?, &[0x5a; 148])?;
    let rej = call.rej(RejReason::CONSUMER)?;
    let same = rej.private_data.bytes() == &[0x5a; 148];
    check(same, || format!("the REJ has private data {:?}", rej.private_data))
}

fn private_data(b: &Bench<'_>) -> Outcome {
    let cm = b.cm()?;
    let call = cm.call_a_listener()?;
    let call = call.with(|req| req.private_data = cm.private(&[0xa5; 56]));
    call.tx()?;
    let event = call.arrives()?;
    let got = &event.private.0;
    check(got[..] == [0xa5; 56], || format!("the program got private data {got:02x?}"))?;
    let c = call.accepted(&event, &[0x5a; 196])?;
    let data = c.rep.private_data;
    check(data.bytes() == &[0x5a; 196], || format!("the REP has private data {data:?}"))
}

/// What may come upon a REQ that came again.
fn only_repetitions(c: &Connection<'_, '_>, wait: std::time::Duration) -> Result<u32, Stop> {
    let mut count = 0;
    let end = c.qp.now() + wait;
    while let Some(message) = c.call.within(end.saturating_sub(c.qp.now()))? {
        match message {
            Message::Rep(rep) if rep == c.rep => count += 1,
            Message::Mra(_) => {}
            other => return fail(format!("expected the same REP again, got {other:?}")),
        }
    }
    Ok(count)
}

fn req_duplicate(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_a_listener()?;
    call.tx()?;
    let event = call.arrives()?;
    call.tx()?;
    call.tx()?;
    call.cm.no_event()?;
    let c = call.accepted(&event, &[])?;
    call.tx()?;
    only_repetitions(&c, call.cm.silence())?;
    call.say(c.rtu())?;
    c.established()?;
    call.tx()?;
    only_repetitions(&c, call.cm.silence())?;
    call.cm.no_event()?;
    c.qp.alive(0).map(drop)
}

fn rep_values(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_a_listener()?;
    let greedy = call.with(|req| (req.initiator_depth, req.responder_resources) = (255, 0));
    let Rep { responder_resources: served, initiator_depth: wanted, .. } = greedy.connected()?.rep;
    let most = b.card().max_dest_rd_atomic;
    b.record(format!("of 255 READs at a time it serves {served}"));
    check(served <= most, || {
        format!("the REP serves {served} READs at a time, the device {most}")
    })?;
    check(wanted == 0, || format!("the REP asks for {wanted} READs at a time, but none is served"))
}

fn path_mtu(b: &Bench<'_>) -> Outcome {
    for code in Mtu::M256.code()..=b.card().mtu {
        let call = b.cm()?.call_a_listener()?.with(|req| req.path_mtu = code);
        let c = call.connected()?;
        let mtu = c.qp.mtu();
        c.qp.tx(&c.qp.send(mtu).psn(0))?;
        c.qp.ack(0)?;
        c.qp.app.received(0, mtu)?;
    }
    Ok(())
}

fn data_before_rtu(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.answered()?;
    c.qp.tx(&c.qp.send(16).psn(0))?;
    c.qp.ack(0)?;
    c.qp.app.received(0, 16)?;
    c.call.say(c.rtu())?;
    c.established()?;
    c.qp.alive(1).map(drop)
}

/// Time code 15: 134 ms.
const SOON: u8 = 15;

fn rep_resent(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_a_listener()?;
    let call = call.with(|req| (req.local_response_timeout, req.max_cm_retries) = (SOON, 3));
    let c = call.answered()?;
    let sent = c.qp.now();
    let Some(Message::Rep(again)) = call.within(b.patience().answer)? else {
        return fail("expected the REP again; it did not come");
    };
    check(again == c.rep, || format!("expected the same REP again, got {again:?}"))?;
    b.record(format!("the REP comes again after {} ms", (c.qp.now() - sent).as_millis()));
    let more = only_repetitions_until_the_end(&c)?;
    check(more <= 2, || format!("the REP came {} times, at most 4 were asked for", more + 2))
}

/// How often the REP comes again until the peer gives up, at the latest after the time of an answer.
fn only_repetitions_until_the_end(c: &Connection<'_, '_>) -> Result<u32, Stop> {
    let end = c.qp.now() + c.call.cm.bench.patience().answer;
    let mut count = 0;
    while let Some(message) = c.call.within(end.saturating_sub(c.qp.now()))? {
        match message {
            Message::Rep(rep) if rep == c.rep => count += 1,
            Message::Rej(rej) if rej.reason == RejReason::TIMEOUT => break,
            other => return fail(format!("expected the same REP again, got {other:?}")),
        }
    }
    Ok(count)
}

fn rtu_duplicate(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.connected()?;
    c.call.say(c.rtu())?;
    c.call.say(c.rtu())?;
    c.call.cm.no_event()?;
    c.call.silence()?;
    c.qp.alive(0).map(drop)
}

fn rtu_foreign(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.answered()?;
    let mut wrong = [c.rtu(); 2];
    wrong[0].local_comm_id.0 ^= 1;
    wrong[1].remote_comm_id.0 ^= 1;
    wrong.into_iter().try_for_each(|rtu| c.call.say(rtu))?;
    c.call.cm.no_event()?;
    c.call.say(c.rtu())?;
    let event = c.established()?;
    check(event.kind == cm_event::ESTABLISHED, || format!("{event:?}"))?;
    c.qp.alive(0).map(drop)
}
