//! Connection managers of processes that share an address: whose a message is can be read from it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use uroce_cm::{
    Acceptance, Addressee, Call, Cm, CmLimits, CommId, Event, Identity, Mad, PortSpace,
    PrivateData, Question, RejReason, ServiceId, Time, addressee,
};
use uroce_wire::{Psn, Qpn, Slot};

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVICE: ServiceId = ServiceId::new(PortSpace::Tcp, 7174);
const DATAGRAMS: ServiceId = ServiceId::new(PortSpace::Udp, 7174);
const NOW: Time = Duration::from_secs(1);

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

fn manager(number: u8) -> Cm {
    let slot = Some(slot(number));
    let us = Identity { address: ADDRESS, guid: 7, ack_delay: 15, active_mtu: 3, slot };
    Cm::new(us, CmLimits::default(), [number; 32])
}

/// Takes the next message of `from`, says whose it is, and gives it to `to`.
fn carry(from: &mut Cm, to: &mut Cm) -> Addressee {
    let mad = from.poll_transmit().expect("a message");
    to.handle_mad(NOW, ADDRESS, &mad.bytes).expect("it is taken");
    addressee(&mad.bytes).expect("a message of ours")
}

fn call(caller: &mut Cm, callee: &mut Cm) -> (CommId, CommId) {
    let call = Call::new(ADDRESS, SERVICE, slot(1).qpn(5), Psn::new(1));
    let ours = caller.connect(NOW, &call).expect("a call");
    assert_eq!(carry(caller, callee), Addressee::Service(SERVICE));
    let Some(Event::Request { id: theirs, .. }) = callee.poll_event() else { panic!("a request") };
    assert_eq!((ours.slot(), theirs.slot()), (Some(slot(1)), Some(slot(254))));
    (ours, theirs)
}

#[test]
fn every_message_of_a_connection_names_the_process_it_is_for() {
    let (mut caller, mut callee) = (manager(1), manager(254));
    callee.listen(NOW, SERVICE, 4).expect("free");
    let (ours, theirs) = call(&mut caller, &mut callee);
    let acceptance = Acceptance::new(slot(254).qpn(6), Psn::new(2));
    callee.accept(NOW, theirs, &acceptance).expect("accepted");
    assert_eq!(carry(&mut callee, &mut caller), Addressee::Id(ours), "REP");
    caller.establish(ours, &[]).expect("a reply came");
    assert_eq!(carry(&mut caller, &mut callee), Addressee::Id(theirs), "RTU");
    callee.disconnect(NOW, theirs, &[]).expect("it stands");
    assert_eq!(carry(&mut callee, &mut caller), Addressee::Id(ours), "DREQ");
    assert_eq!(carry(&mut caller, &mut callee), Addressee::Id(theirs), "DREP");
}

#[test]
fn refusals_and_questions_find_their_process() {
    let (mut caller, mut callee) = (manager(1), manager(254));
    callee.listen(NOW, SERVICE, 4).expect("free");
    let (ours, theirs) = call(&mut caller, &mut callee);
    callee.reject(NOW, theirs, RejReason::CONSUMER, &[]).expect("it waits");
    assert_eq!(carry(&mut callee, &mut caller), Addressee::Id(ours), "REJ");
    callee.listen(NOW, DATAGRAMS, 4).expect("free");
    let question = Question::new(ADDRESS, DATAGRAMS);
    let asked = caller.resolve(NOW, &question).expect("a question");
    assert_eq!(carry(&mut caller, &mut callee), Addressee::Service(DATAGRAMS), "SIDR_REQ");
    while let Some(event) = callee.poll_event() {
        if let Event::Query { id, .. } = event {
            callee.release(NOW, id);
        }
    }
    assert_eq!(carry(&mut callee, &mut caller), Addressee::Id(asked), "SIDR_REP");
}

#[test]
fn a_service_is_wanted_while_calls_to_it_can_come_again() {
    let (mut caller, mut callee) = (manager(1), manager(254));
    callee.listen(NOW, SERVICE, 4).expect("free");
    let (_, theirs) = call(&mut caller, &mut callee);
    callee.unlisten(NOW, SERVICE).expect("it listened");
    let later = NOW + Duration::from_secs(2);
    callee.handle_timeout(later);
    assert!(callee.is_wanted(SERVICE), "a call is not answered");
    callee.reject(later, theirs, RejReason::CONSUMER, &[]).expect("it waits");
    callee.release(later, theirs);
    callee.handle_timeout(later + Duration::from_secs(60));
    assert!(!callee.is_wanted(SERVICE));
    assert_eq!(Slot::of(Qpn::GSI), None);
}

#[test]
fn a26_a_message_that_names_no_id_is_for_nobody_else_unless_it_is_a_rej() {
    use uroce_cm::message::{Dreq, Message};
    let mut dreq = Dreq {
        local_comm_id: CommId(5),
        remote_comm_id: CommId::NONE,
        remote_qpn: Qpn::new(6),
        private_data: PrivateData::default(),
    };
    let read = |dreq: &Dreq| addressee(&Mad { tid: 1, message: Message::Dreq(*dreq) }.emit());
    // No process has an id without a slot, and all would answer.
    assert_eq!(read(&dreq), Some(Addressee::Id(CommId::NONE)));
    assert_eq!(CommId::NONE.slot(), None);
    dreq.remote_comm_id = CommId(7);
    assert_eq!(read(&dreq), Some(Addressee::Id(CommId(7))));
    assert_eq!(addressee(b"no message"), None);
}
