//! Peers that keep a rule of connection management, and peers that break it.

use std::time::Duration;

use uroce_cm::message::{Drep, Message, Rej, RejectedMessage, Rep, Req, SidrRep};
use uroce_cm::{CommId, GSI_QKEY, Mad, PrivateData, RejReason, SidrStatus};
use uroce_wire::{Deth, Opcode, Packet as Wire, Psn, Qpn};

use crate::fake::{FakeAgent, FakeWire, card, incoming};
use crate::{Bench, CmEvent, Hex, Incoming, Packet, Patience, Selection, Verdict, cm_event, run};

fn verdict(case: &str, answer: fn(&[u8]) -> Option<Incoming>, events: &[CmEvent]) -> Verdict {
    let mut wire = FakeWire { answer: Some(answer), ..FakeWire::default() };
    let cm_events = events.iter().cloned().collect();
    let mut agent = FakeAgent { cm_events, ..FakeAgent::default() };
    let only = Selection { only: vec![case.to_owned()], ..Selection::default() };
    let mut report = run(&only, &mut wire, &mut agent, &card(), &mut |_| true);
    report.cases.remove(0).verdict
}

fn fails(case: &str, answer: fn(&[u8]) -> Option<Incoming>, events: &[CmEvent]) -> bool {
    matches!(verdict(case, answer, events), Verdict::Fail(_))
}

fn event(kind: u32) -> CmEvent {
    let private = Hex(vec![]);
    CmEvent { kind, id: 1, status: 0, private, responder_resources: 0, initiator_depth: 0 }
}

/// A MAD of the peer.
fn mad(tid: u64, message: impl Into<Message>) -> Incoming {
    let bytes = Mad { tid, message: message.into() }.emit();
    let mut packet = Packet::new(Opcode::UD_SEND_ONLY, 1, Psn::new(0), bytes.to_vec());
    packet.deth = Some(Deth { qkey: GSI_QKEY, src_qpn: Qpn::GSI });
    let bytes = [packet.covered(), vec![0; 4]].concat();
    Incoming { bytes, ..incoming(Opcode::UD_SEND_ONLY, 1) }
}

/// The MAD that the tester sent, if it is one.
fn sent_mad(sent: &[u8]) -> Option<Mad> {
    let packet = Wire::parse(sent).ok()?;
    let right = packet.deth().is_some_and(|deth| deth.qkey == GSI_QKEY);
    Mad::parse(packet.payload()).ok().filter(|_| right)
}

fn rej(req: &Req, local_comm_id: u32, reason: RejReason) -> Rej {
    Rej {
        local_comm_id: CommId(local_comm_id),
        remote_comm_id: req.local_comm_id,
        message: RejectedMessage::REQ,
        info_len: 0,
        reason,
        info: [0; 72],
        private_data: PrivateData::default(),
    }
}

/// Upon a REQ of the tester.
fn upon_req(sent: &[u8], answer: impl FnOnce(u64, &Req) -> Incoming) -> Option<Incoming> {
    let Mad { tid, message } = sent_mad(sent)?;
    match message {
        Message::Req(req) => Some(answer(tid, &req)),
        _ => None,
    }
}

#[test]
fn a_refusal_names_the_right_reason_ids_and_transaction() {
    const CASE: &str = "cm.responder.no-listener";
    const NONE: RejReason = RejReason::INVALID_SERVICE_ID;
    let right = |sent: &[u8]| upon_req(sent, |tid, req| mad(tid, rej(req, 0, NONE)));
    assert_eq!(verdict(CASE, right, &[]), Verdict::Pass);
    assert!(fails(CASE, |sent| upon_req(sent, |tid, req| mad(tid, rej(req, 7, NONE))), &[]));
    assert!(fails(CASE, |sent| upon_req(sent, |tid, req| mad(tid + 1, rej(req, 0, NONE))), &[]));
    assert!(fails(CASE, |sent| upon_req(sent, |t, r| mad(t, rej(r, 0, RejReason::CONSUMER))), &[]));
}

fn rep(req: &Req, served: u8, wanted: u8) -> Rep {
    Rep {
        local_comm_id: CommId(5),
        remote_comm_id: req.local_comm_id,
        local_qkey: 0,
        local_qpn: Qpn::new(3),
        vendor_id: 0,
        vendor_options: 0,
        local_eecn: 0,
        starting_psn: Psn::new(9),
        responder_resources: served,
        initiator_depth: wanted,
        target_ack_delay: 0,
        failover_accepted: 0,
        flow_control: false,
        rnr_retry_count: 7,
        srq: false,
        local_ca_guid: 1,
        private_data: PrivateData::default(),
    }
}

#[test]
fn a_rep_serves_and_asks_for_no_more_than_there_is() {
    const CASE: &str = "cm.responder.rep-values";
    let events = [event(cm_event::CONNECT_REQUEST), event(cm_event::ESTABLISHED)];
    let right = |sent: &[u8]| upon_req(sent, |tid, req| mad(tid, rep(req, 16, 0)));
    assert_eq!(verdict(CASE, right, &events), Verdict::Pass);
    assert!(fails(CASE, |sent| upon_req(sent, |tid, req| mad(tid, rep(req, 17, 0))), &events));
    assert!(fails(CASE, |sent| upon_req(sent, |tid, req| mad(tid, rep(req, 16, 1))), &events));
}

#[test]
fn only_the_whole_private_data_is_the_same() {
    const CASE: &str = "cm.responder.private-data";
    fn answer(sent: &[u8]) -> Option<Incoming> {
        let private_data = [0x5a; 196].into();
        upon_req(sent, |tid, req| mad(tid, Rep { private_data, ..rep(req, 1, 1) }))
    }
    let call =
        |length| CmEvent { private: Hex(vec![0xa5; length]), ..event(cm_event::CONNECT_REQUEST) };
    assert_eq!(verdict(CASE, answer, &[call(56)]), Verdict::Pass);
    assert!(fails(CASE, answer, &[call(55)]));
    let none = |sent: &[u8]| upon_req(sent, |tid, req| mad(tid, rep(req, 1, 1)));
    assert!(fails(CASE, none, &[call(56)]));
}

#[test]
fn a_peer_that_takes_any_mad_fails() {
    // It looks at the REQ in each packet, whatever stands around it.
    fn careless(sent: &[u8]) -> Option<Incoming> {
        let body = sent.get(20..20 + 256)?;
        let mut whole: [u8; 256] = body.try_into().ok()?;
        (whole[0], whole[1], whole[2], whole[3], whole[17]) = (1, 7, 2, 3, 0x10);
        match Mad::parse(&whole).ok()? {
            Mad { tid, message: Message::Req(req) } => {
                Some(mad(tid, rej(&req, 0, RejReason::UNSUPPORTED)))
            }
            _ => None,
        }
    }
    assert!(fails("cm.responder.mad-malformed", careless, &[]));
}

#[test]
fn the_drep_of_an_unknown_connection_has_the_ids_swapped() {
    const CASE: &str = "cm.responder.dreq-unknown";
    fn drep(sent: &[u8], change: u32) -> Option<Incoming> {
        let Mad { tid, message: Message::Dreq(dreq) } = sent_mad(sent)? else { return None };
        let local_comm_id = CommId(dreq.remote_comm_id.0 ^ change);
        let remote_comm_id = dreq.local_comm_id;
        Some(mad(tid, Drep { local_comm_id, remote_comm_id, private_data: PrivateData::default() }))
    }
    assert_eq!(verdict(CASE, |sent| drep(sent, 0), &[]), Verdict::Pass);
    assert!(fails(CASE, |sent| drep(sent, 1), &[]));
}

#[test]
fn a_service_that_nobody_has_is_refused_by_its_status() {
    const CASE: &str = "cm.responder.sidr-no-listener";
    fn answer(sent: &[u8], status: SidrStatus) -> Option<Incoming> {
        let Mad { tid, message: Message::SidrReq(req) } = sent_mad(sent)? else { return None };
        Some(mad(
            tid,
            SidrRep {
                request_id: req.request_id,
                status,
                info_len: 0,
                vendor_id: 0,
                qpn: Qpn::new(0),
                service_id: req.service_id,
                qkey: 0,
                info: [0; 72],
                private_data: PrivateData::default(),
            },
        ))
    }
    assert_eq!(
        verdict(CASE, |sent| answer(sent, SidrStatus::INVALID_SERVICE_ID), &[]),
        Verdict::Pass
    );
    assert!(fails(CASE, |sent| answer(sent, SidrStatus::VALID), &[]));
}

#[test]
fn without_a_connection_manager_there_is_nothing_to_judge() {
    let mut wire = FakeWire::default();
    let card = crate::Card { no_cm: Some("cannot load librdmacm.so.1".to_owned()), ..card() };
    let only = Selection { only: vec!["cm.".to_owned()], ..Selection::default() };
    let report = run(&only, &mut wire, &mut FakeAgent::default(), &card, &mut |_| true);
    assert_eq!(report.count("not applicable"), report.cases.len());
    assert!(report.cases.len() > 20);
}

#[test]
fn silence_is_shorter_than_timers_of_the_peer() {
    let silence = |asked: Duration| {
        let (mut wire, mut agent, card) = (FakeWire::default(), FakeAgent::default(), card());
        let patience = Patience { silence: asked, ..Patience::default() };
        let bench = Bench::new(&mut wire, &mut agent, &card, patience, 0);
        bench.cm().ok().map(|cm| cm.silence())
    };
    assert_eq!(silence(Duration::from_millis(30)), Some(Duration::from_millis(30)));
    assert_eq!(silence(Duration::from_secs(9)), Some(Duration::from_millis(250)));
}
