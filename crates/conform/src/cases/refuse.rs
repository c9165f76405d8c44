//! Connection management: messages that are malformed, unusual, or of another exchange.

use uroce_cm::message::{Lap, Message, Req, SidrReq, TransportService};
use uroce_cm::{Mad, PortSpace, PrivateData, RejReason, ServiceId, SidrStatus};
use uroce_wire::{Deth, Qpn};

use super::{check, fail};
use crate::case::cases;
use crate::cm::Call;
use crate::{Bench, CmRequest, CmSpace, Hex, Outcome, Packet, Stop, cm_event};

cases! {
    Must "cm.responder.mad-malformed", "A22 B50 C13-3", [236], "MADs that are too short or of another Q_Key, class, version, method or attribute have no effect.", mad_malformed;
    Must "cm.robustness.mad-too-long", "A22 R99", [236], "A MAD of 260 bytes has no effect, and calls are answered as before.", mad_too_long;
    Free "cm.responder.mtu-codes", "C6", [222], "What a REQ with a path MTU draws that does not exist (0, 6, 15) is recorded.", mtu_codes;
    Free "cm.responder.transport-codes", "C6", [223], "What a REQ for UC, RD or an extended transport draws is recorded.", transport_codes;
    Free "cm.responder.ip-header", "C6", [224], "What a REQ draws whose IP header has another version or addresses of others is recorded.", ip_header;
    Free "cm.responder.lap", "C1", [237], "A LAP draws APR, REJ or nothing, and the connection stays.", lap;
    Free "cm.responder.other-source-qp", "C13-3", [238], "A REQ from another queue pair than QP 1 is answered there, or dropped.", other_source_qp;
    Must "cm.responder.sidr", "C1", [239], "A SIDR_REQ draws the queue pair and Q_Key of the program that listens.", sidr;
    Must "cm.responder.sidr-no-listener", "C1", [239], "A SIDR_REQ to a port on which nobody listens draws status 1.", sidr_no_listener;
}

/// A REQ that is right, and then one byte of its MAD is another one.
fn with_byte(call: &Call<'_, '_>, at: usize, byte: u8) -> Packet {
    let mut mad = Mad { tid: call.tid, message: call.req.into() }.emit();
    mad[at] = byte;
    call.cm.bytes(&mad)
}

/// MADs that carry a REQ and are malformed in one way each. Get and Set are not among the methods: an agent may answer
/// that it does not serve them.
fn malformed(call: &Call<'_, '_>) -> Vec<(&'static str, Packet)> {
    let whole = Mad { tid: call.tid, message: call.req.into() }.emit();
    let bytes = |bytes: &[u8]| call.cm.bytes(bytes);
    let with = |at, byte| with_byte(call, at, byte);
    vec![
        ("252 bytes", bytes(&whole[..252])),
        ("Q_Key 0", bytes(&whole).qkey(0)),
        ("Q_Key 0x80010001", bytes(&whole).qkey(0x8001_0001)),
        ("base version 0", with(0, 0)),
        ("base version 2", with(0, 2)),
        ("class 0x20", with(1, 0x20)),
        ("class version 1", with(2, 1)),
        ("class version 3", with(2, 3)),
        ("method 0x04", with(3, 0x04)),
        ("method 0x81", with(3, 0x81)),
        ("attribute 0x007f", with(17, 0x7f)),
    ]
}

fn mad_malformed(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_a_listener()?;
    malformed(&call).iter().try_for_each(|(_, packet)| call.cm.tx(packet))?;
    let silence = b.patience().silence;
    if call.within(silence)?.is_some() || call.cm.event_within(silence)?.is_some() {
        return fail(format!("taken for a REQ: {}", taken(b)?.join(", ")));
    }
    call.connected()?.qp.alive(0).map(drop)
}

fn mad_too_long(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_a_listener()?;
    let whole = Mad { tid: call.tid, message: call.req.into() }.emit();
    call.cm.tx(&call.cm.bytes(&[&whole[..], &[0; 4]].concat()))?;
    call.silence()?;
    call.cm.no_event()?;
    call.connected()?.qp.alive(0).map(drop)
}

/// What malformed MADs have an effect, each tried with a call of its own.
fn taken(b: &Bench<'_>) -> Result<Vec<&'static str>, Stop> {
    let silence = b.patience().silence;
    let mut taken = vec![];
    for kind in 0.. {
        let call = b.cm()?.call_a_listener()?;
        let Some((what, packet)) = malformed(&call).into_iter().nth(kind) else { break };
        call.cm.tx(&packet)?;
        if call.within(silence)?.is_some() || call.cm.event_within(silence)?.is_some() {
            taken.push(what);
        }
    }
    Ok(taken)
}

/// What an unusual REQ draws: an answer, a question to the program, or nothing.
fn reaction(call: &Call<'_, '_>) -> Result<String, Stop> {
    call.tx()?;
    let silence = call.cm.bench.patience().silence;
    let said = |message| match message {
        Some(Message::Rej(rej)) => Ok(format!("REJ {}", rej.reason)),
        Some(Message::Mra(_)) => Ok("MRA".to_owned()),
        None => Ok("nothing".to_owned()),
        other => fail(format!("expected REJ, MRA or nothing, got {other:?}")),
    };
    if let Some(message) = call.within(silence)? {
        return said(Some(message));
    }
    match call.cm.event_within(silence)? {
        Some(event) if event.kind == cm_event::CONNECT_REQUEST => {
            call.refused(&event, &[])?;
            call.rej(RejReason::CONSUMER).map(|_| "the program is asked".to_owned())
        }
        Some(event) => fail(format!("the program got {event:?}")),
        None => said(call.within(silence)?),
    }
}

/// What is unusual about a REQ.
type ReqChange = fn(&mut Req);

/// Tries REQs that are each changed, records what they draw, and then a right one.
fn reactions(b: &Bench<'_>, changes: &[(&str, ReqChange)]) -> Outcome {
    let cm = b.cm()?;
    let port = cm.listen(CmSpace::Tcp)?;
    for (name, change) in changes {
        let drawn = reaction(&cm.call(port).with(change))?;
        b.record(format!("{name}: {drawn}"));
    }
    cm.call(port).connected()?.qp.alive(0).map(drop)
}

fn mtu_codes(b: &Bench<'_>) -> Outcome {
    reactions(
        b,
        &[
            ("code 0", |req| req.path_mtu = 0),
            ("code 6", |req| req.path_mtu = 6),
            ("code 15", |req| req.path_mtu = 15),
        ],
    )
}

fn transport_codes(b: &Bench<'_>) -> Outcome {
    reactions(
        b,
        &[
            ("UC", |req| req.transport = TransportService::UC),
            ("RD", |req| req.transport = TransportService::RD),
            ("extended", |req| req.transport = TransportService::EXTENDED),
        ],
    )
}

/// Changes one byte of the private data, which begins with the IP header.
fn private_byte(req: &mut Req, at: usize, change: u8) {
    let mut bytes = *req.private_data.bytes();
    bytes[at] ^= change;
    req.private_data = PrivateData::from(bytes);
}

fn ip_header(b: &Bench<'_>) -> Outcome {
    reactions(
        b,
        &[
            ("version 1", |req| private_byte(req, 0, 1)),
            ("IP version 7", |req| private_byte(req, 1, 0x30)),
            ("foreign source", |req| private_byte(req, 19, 0x40)),
            ("foreign destination", |req| private_byte(req, 35, 0x40)),
        ],
    )
}

fn lap(b: &Bench<'_>) -> Outcome {
    let c = b.cm()?.call_a_listener()?.connected()?;
    c.call.say(Lap {
        local_comm_id: c.call.req.local_comm_id,
        remote_comm_id: c.rep.local_comm_id,
        remote_qpn: c.rep.local_qpn,
        remote_response_timeout: c.call.req.remote_response_timeout,
        alternate: c.call.req.primary,
        private_data: PrivateData::default(),
    })?;
    match c.call.within(b.patience().silence)? {
        Some(Message::Apr(apr)) => b.record(format!("it answers APR with status {}", apr.status)),
        Some(Message::Rej(rej)) => b.record(format!("it answers REJ {}", rej.reason)),
        None => b.record("it answers nothing"),
        Some(other) => return fail(format!("expected APR, REJ or nothing, got {other:?}")),
    }
    c.call.cm.no_event()?;
    c.qp.alive(0).map(drop)
}

/// Any queue pair may send MADs to QP 1.
const OTHER: Qpn = Qpn::new(5);

fn other_source_qp(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_nobody()?;
    let mut packet = call.cm.packet(call.tid, call.req);
    packet.deth = packet.deth.map(|deth| Deth { src_qpn: OTHER, ..deth });
    call.cm.tx(&packet)?;
    let ours = |message: &Message| crate::cm::names(message, call.req.local_comm_id);
    match call.cm.mad_within(OTHER, b.patience().silence, ours)? {
        Some(mad) if matches!(mad.message, Message::Rej(_)) => {}
        Some(mad) => return fail(format!("expected REJ, got {:?}", mad.message)),
        None => match call.within(b.patience().silence)? {
            Some(Message::Rej(_)) => b.tolerate("the answer goes to QP 1"),
            Some(message) => return fail(format!("expected REJ, got {message:?}")),
            None => b.tolerate("MADs from other queue pairs than QP 1 are dropped"),
        },
    }
    call.silence()?;
    call.tx()?;
    call.rej(RejReason::INVALID_SERVICE_ID).map(drop)
}

/// A question for the queue pair of a datagram service.
fn question(call: &Call<'_, '_>) -> SidrReq {
    SidrReq {
        request_id: call.req.local_comm_id.0,
        pkey: 0xffff,
        service_id: ServiceId::new(PortSpace::Udp, call.req.service_id.port()),
        private_data: call.cm.private(&[0xa5; 180]),
    }
}

fn sidr(b: &Bench<'_>) -> Outcome {
    let cm = b.cm()?;
    let call = cm.call(cm.listen(CmSpace::Udp)?);
    call.say(question(&call))?;
    let event = call.arrives()?;
    check(event.private.0 == [0xa5; 180], || format!("private data of {event:?}"))?;
    let q = b.ud().open()?;
    cm.ask(CmRequest::Accept { id: event.id, qp: q.app.id, private: Hex(vec![0x5a; 136]) })?;
    let Message::SidrRep(rep) = call.answer("SIDR_REP")? else {
        return fail("expected SIDR_REP, got another message");
    };
    let right = (rep.status, rep.qpn.get()) == (SidrStatus::VALID, q.qpn());
    check(right, || format!("expected queue pair {:#x}, got {rep:?}", q.qpn()))?;
    let same = rep.private_data.bytes() == &[0x5a; 136];
    check(same, || format!("the SIDR_REP has private data {:?}", rep.private_data))?;
    b.record(format!("Q_Key {:#010x}", rep.qkey));
    Ok(())
}

fn sidr_no_listener(b: &Bench<'_>) -> Outcome {
    let call = b.cm()?.call_nobody()?;
    call.say(question(&call))?;
    match call.answer("SIDR_REP")? {
        Message::SidrRep(rep) if rep.status == SidrStatus::INVALID_SERVICE_ID => call.silence(),
        other => fail(format!("expected SIDR_REP with status 1, got {other:?}")),
    }
}
