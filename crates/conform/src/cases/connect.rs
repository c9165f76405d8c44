//! Connection management, the calling side: what a program that calls and its connection manager send, and what they
//! make of the answers.

use std::time::Duration;

use uroce_cm::message::Rep;
use uroce_cm::{CommId, RejReason};

use super::{check, fail};
use crate::case::cases;
use crate::cm::{Called, PRIVATE};
use crate::{Bench, Outcome, Stop, cm_event};

cases! {
    Must "cm.requester.req-form", "R115", [], "The REQ names the queue pair, the path, and the addresses of both ends, and carries the program's private data.", req_form;
    Must "cm.requester.connect", "R115", [], "REP draws RTU, and the connection works in both directions.", connect;
    Must "cm.requester.rej-given", "R111", [232], "A REJ reaches the program with its reason and private data; no RTU comes.", rej_given;
    Must "cm.requester.rep-duplicate", "R109", [234], "A REP that comes again draws RTU again.", rep_duplicate;
    Must "cm.requester.rep-foreign", "A23", [235], "A REP with an unknown communication id has no effect.", rep_foreign;
    Must "cm.requester.req-resent", "R114", [231], "Without an answer the same REQ comes again.", req_resent;
    Must "cm.requester.mra-given", "C1", [233], "After an MRA it waits longer for the REP than it did before.", mra_given;
}

fn req_form(b: &Bench<'_>) -> Outcome {
    let called = b.cm()?.called()?;
    let req = &called.req;
    check(req.local_comm_id != CommId::NONE, || "the REQ has no communication id".to_owned())?;
    let named = req.local_qpn.get() == called.qp.qpn();
    check(named, || format!("the REQ names queue pair {}", req.local_qpn))?;
    check((1..=5).contains(&req.path_mtu), || format!("path MTU {}", req.path_mtu))?;
    check(req.pkey & 0x7fff == 0x7fff, || format!("P_Key {:#06x}", req.pkey))?;
    let (own, card) = (called.cm().own_address(), b.card().address);
    let gids = [req.primary.local_gid.to_ip(), req.primary.remote_gid.to_ip()];
    check(gids == [card, own], || format!("the path leads from {} to {}", gids[0], gids[1]))?;
    let Some((Ok(header), data)) = uroce_cm::IpCm::split(req.private_data.bytes()) else {
        return fail("the private data does not begin with an IP header");
    };
    let said = (header.source, header.destination);
    check(said == (card, own), || format!("the IP header says {said:?}"))?;
    check(data.starts_with(PRIVATE), || format!("private data {data:02x?}"))
}

fn connect(b: &Bench<'_>) -> Outcome {
    let mut called = b.cm()?.called()?;
    called.connected()?;
    called.qp.alive(0)?;
    let work = super::requester::written(&called.qp, 16, 0)?;
    super::requester::acked(&called.qp, 0, work)
}

fn rej_given(b: &Bench<'_>) -> Outcome {
    let called = b.cm()?.called()?;
    called.say(called.rej(RejReason::CONSUMER, &[0x5a; 148]))?;
    let event = called.event(cm_event::REJECTED)?;
    check(event.status == 28, || format!("the program got reason {}, not 28", event.status))?;
    check(event.private.0 == [0x5a; 148], || format!("private data of {event:?}"))?;
    called.silence()
}

fn rep_duplicate(b: &Bench<'_>) -> Outcome {
    let mut called = b.cm()?.called()?;
    called.connected()?;
    called.say(called.rep())?;
    called.rtu()?;
    called.qp.alive(0).map(drop)
}

fn rep_foreign(b: &Bench<'_>) -> Outcome {
    let mut called = b.cm()?.called()?;
    let rep = called.rep();
    called.say(Rep { remote_comm_id: CommId(rep.remote_comm_id.0 ^ 1), ..rep })?;
    called.silence()?;
    called.cm().no_event()?;
    called.connected()?;
    called.qp.alive(0).map(drop)
}

/// How long a REQ may take to come again: Linux takes 4.6 s or 6.1 s.
const RESENT: Duration = Duration::from_secs(8);

/// The REQ comes again, so long after it came.
fn resent(b: &Bench<'_>, called: &Called<'_, '_>) -> Result<Duration, Stop> {
    let first = called.qp.now();
    match called.again_within(RESENT)? {
        Some(again) => {
            let after = again.saturating_sub(first);
            b.record(format!("the REQ comes again after {} ms", after.as_millis()));
            Ok(after)
        }
        None => fail(format!("expected the REQ again within {} s; nothing came", RESENT.as_secs())),
    }
}

fn req_resent(b: &Bench<'_>) -> Outcome {
    let mut called = b.cm()?.called()?;
    resent(b, &called)?;
    called.connected()?;
    called.qp.alive(0).map(drop)
}

/// Time code of an MRA: 69 s.
const LONG: u8 = 24;

fn mra_given(b: &Bench<'_>) -> Outcome {
    let mut called = b.cm()?.called()?;
    let usual = resent(b, &called)?;
    called.say(called.mra(LONG))?;
    let wait = usual + usual / 2;
    if called.again_within(wait)?.is_some() {
        return fail("expected it to wait after the MRA, got the REQ again");
    }
    called.connected()?;
    called.qp.alive(0).map(drop)
}
