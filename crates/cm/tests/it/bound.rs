//! Requests to a port that is bound and has no listener yet.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use uroce_cm::{Call, Cm, CmLimits, Event, Identity, PortSpace, RejReason, ServiceId};
use uroce_wire::{DropReason, Psn, Qpn};

const CALLEE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const CALLER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

fn cm(address: IpAddr) -> Cm {
    let us = Identity { address, guid: 1, ack_delay: 15, active_mtu: 3, slot: None };
    Cm::new(us, CmLimits::default(), [1; 32])
}

fn service() -> ServiceId {
    ServiceId::new(PortSpace::Tcp, 7174)
}

/// A callee that expects a listener, and the caller whose REQ it has kept.
fn called() -> (Cm, Cm) {
    let (mut callee, mut caller) = (cm(CALLEE), cm(CALLER));
    callee.expect_listener(Duration::ZERO, service());
    let call = Call::new(CALLEE, service(), Qpn::new(0x0002_0011), Psn::new(1));
    caller.connect(Duration::ZERO, &call).expect("a call");
    let req = caller.poll_transmit().expect("a REQ");
    let kept = callee.handle_mad(Duration::ZERO, CALLER, &req.bytes);
    assert_eq!(kept, Err(DropReason::CmNoListener));
    assert!(callee.poll_transmit().is_none(), "it is not rejected");
    (callee, caller)
}

#[test]
fn v60_a_request_to_a_bound_port_waits_for_its_listener() {
    let (mut callee, _) = called();
    callee.listen(Duration::from_millis(5), service(), 1).expect("it is free");
    assert!(matches!(callee.poll_event(), Some(Event::Request { .. })));
}

#[test]
fn v60_a_request_to_a_bound_port_is_rejected_when_no_listener_comes() {
    let (mut callee, mut caller) = called();
    let over = callee.poll_timeout().expect("a deadline");
    assert_eq!(over, Duration::from_secs(2));
    callee.handle_timeout(over);
    let rej = callee.poll_transmit().expect("a REJ");
    caller.handle_mad(over, CALLEE, &rej.bytes).expect("its answer");
    let event = caller.poll_event().expect("an event");
    assert!(
        matches!(event, Event::Rejected { reason, .. } if reason == RejReason::INVALID_SERVICE_ID),
        "{event:?}"
    );
}

#[test]
fn a21_few_bound_ports_are_waited_for() {
    let mut callee = cm(CALLEE);
    let port = |port| ServiceId::new(PortSpace::Tcp, port);
    (1..=65).for_each(|n| callee.expect_listener(Duration::ZERO, port(n)));
    assert!(callee.is_wanted(port(64)) && !callee.is_wanted(port(65)));
}

/// Another port is bound after the time of the first one, and before its timer is served.
#[test]
fn v60_a_request_is_refused_although_another_port_was_bound_meanwhile() {
    let (mut callee, _) = called();
    let over = Duration::from_secs(2);
    let other = ServiceId::new(PortSpace::Tcp, 7175);
    callee.expect_listener(over, other);
    callee.listen(over, other, 1).expect("it is free");
    assert_eq!(callee.poll_timeout(), Some(over));
    callee.handle_timeout(over);
    assert!(callee.poll_transmit().is_some(), "a REJ");
    assert_eq!(callee.poll_timeout(), None);
}
