//! Connections by address and port, for queue pairs of every engine.

use std::time::{Duration, Instant};

use uroce_device::cm::{Acceptance, Call, CommId, PortSpace, RejReason, ServiceId, State};
use uroce_device::transport::{QpAttr, QpAttrMask, QpState, QpType, SendOp};
use uroce_device::wire::{Psn, Qpn};
use uroce_device::{CmChannel, CmEvent, CmEventKind, DeviceConfig};

use crate::common::{Node, assert_ok, collect, pattern};
use crate::{config, open};

const SERVICE: ServiceId = ServiceId::new(PortSpace::Tcp, 7175);
const EVENT_TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));

pub struct Side {
    engines: Vec<Node>,
    channel: CmChannel,
}

impl Side {
    pub fn open(config: DeviceConfig) -> Side {
        Side { engines: open(config), channel: CmChannel::new().expect("eventfd") }
    }

    /// The next event but for the ends of TIMEWAITs, which come when they like.
    fn event(&self) -> CmEvent {
        loop {
            let event = self.channel.next_event(EVENT_TIMEOUT).expect("poll").expect("an event");
            if event.kind != CmEventKind::TimewaitExit {
                return event;
            }
        }
    }

    fn call(&self, to: &Side, engine: usize) -> (CommId, Qpn) {
        let node = &self.engines[engine];
        let qpn = node.qp(QpType::Rc);
        let call = Call::new(to.engines[0].device.address(), SERVICE, qpn, Psn::new(0x77));
        (node.device.cm().connect(&call, &self.channel, 8).expect("a call"), qpn)
    }

    fn request(&self) -> CommId {
        match self.event() {
            CmEvent { id, kind: CmEventKind::ConnectRequest(_), .. } => id,
            other => panic!("a request expected, not {other:?}"),
        }
    }

    fn established(&self, id: CommId) {
        let event = self.event();
        assert!(matches!(event.kind, CmEventKind::Established { .. }), "{event:?}");
        assert_eq!(event.id, id);
    }

    fn disconnected(&self, id: CommId) {
        let event = self.event();
        assert!(matches!(event.kind, CmEventKind::Disconnected { .. }), "{event:?}");
        assert_eq!(event.id, id);
    }
}

#[test]
fn every_engine_calls_and_accepts() {
    all_call_and_accept(&Side::open(config(20, 3)), &Side::open(config(21, 3)));
}

/// Calls between all of three engines and all of three others.
pub fn all_call_and_accept(a: &Side, b: &Side) {
    b.engines[0].device.cm().listen(SERVICE, 16, &b.channel, 7).expect("free");
    let (from, to) = (a.engines[0].buffer(64), b.engines[0].buffer(64));
    for (caller, called) in (0..9).map(|number| (number % 3, number / 3)) {
        let (id_a, qa) = a.call(b, caller);
        let id_b = b.request();
        let node = &b.engines[called];
        let qb = node.qp(QpType::Rc);
        node.device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(0x99))).expect("accepted");
        a.established(id_a);
        b.established(id_b);
        from.write(0, &pattern(64, called as u8));
        node.recv(qb, 1, &[to.sge(0, 64)]);
        a.engines[caller].send(qa, 2, SendOp::Send, &[from.sge(0, 64)]);
        assert_ok(&collect(&[(&a.engines[caller], 1), (node, 1)]).concat());
        assert_eq!(to.bytes(0, 64), pattern(64, called as u8));

        // Whichever end hangs up, both queue pairs are in ERR before anybody hears of it.
        let first = (a, id_a);
        let second = (b, id_b);
        let (near, far) = if called % 2 == 0 { (first, second) } else { (second, first) };
        near.0.engines[0].device.cm().disconnect(near.1, b"bye").expect("it stands");
        far.0.disconnected(far.1);
        near.0.disconnected(near.1);
        assert_eq!(a.engines[caller].state(qa), QpState::Err);
        assert_eq!(node.state(qb), QpState::Err);
        near.0.engines[0].device.cm().release(near.1);
        far.0.engines[0].device.cm().release(far.1);
    }
}

#[test]
fn a_refusal_reaches_the_engine_that_called() {
    let (a, b) = (Side::open(config(22, 2)), Side::open(config(23, 2)));
    b.engines[0].device.cm().listen(SERVICE, 16, &b.channel, 7).expect("free");
    let (id_a, qa) = a.call(&b, 1);
    let id_b = b.request();
    b.engines[1].device.cm().reject(id_b, RejReason::CONSUMER, b"no").expect("it waits");
    let event = a.event();
    assert!(matches!(event.kind, CmEventKind::Rejected { .. }) && event.id == id_a, "{event:?}");
    assert_eq!(a.engines[1].state(qa), QpState::Init, "it can call again");
}

/// The queue pair of another engine tells the listener's, which has not looked at its packets.
#[test]
fn the_first_packet_confirms_a_connection_of_another_engine() {
    let without = |last| DeviceConfig { progress_thread: false, ..config(last, 2) };
    let (a, b) = (Side::open(config(24, 2)), Side::open(without(25)));
    let device = &b.engines[0].device;
    device.cm().listen(SERVICE, 16, &b.channel, 7).expect("free");
    let (id_a, qa) = a.call(&b, 1);
    let end = std::time::Instant::now() + Duration::from_secs(20);
    let id_b = loop {
        device.drive();
        match b.channel.try_event() {
            Some(CmEvent { id, .. }) => break id,
            None => assert!(std::time::Instant::now() < end, "no request"),
        }
    };
    let qb = b.engines[1].qp(QpType::Rc);
    let buffer = b.engines[1].buffer(64);
    device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(0x99))).expect("accepted");
    b.engines[1].recv(qb, 1, &[buffer.sge(0, 64)]);
    a.established(id_a);
    a.engines[1].send(qa, 2, SendOp::Send, &[]);
    // Only the engine of the queue pair is driven from here on.
    assert_ok(&collect(&[(&b.engines[1], 1)]).concat());
    let event = b.channel.try_event().expect("no RTU was needed");
    assert!(matches!(event.kind, CmEventKind::Established { .. }) && event.id == id_b, "{event:?}");
}

/// The engine that listens misses the caller, and the queue pair of another engine goes down with it.
#[test]
fn a_call_that_is_not_confirmed_ends_in_both_engines() {
    let (a, b) = (Side::open(config(26, 1)), Side::open(config(27, 2)));
    b.engines[0].device.cm().listen(SERVICE, 16, &b.channel, 7).expect("free");
    let (id_a, _) = a.call(&b, 0);
    let id_b = b.request();
    let qb = b.engines[1].qp(QpType::Rc);
    b.engines[1].device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(0x99))).expect("accepted");
    a.established(id_a);
    b.established(id_b);
    a.engines[0].device.cm().release(id_a);
    b.disconnected(id_b);
    assert_eq!(b.engines[1].state(qb), QpState::Err);
    // A queue pair that is gone is no obstacle.
    b.engines[1].device.destroy_qp(qb).expect("it exists");
    b.engines[0].device.cm().release(id_b);
}

/// The queue pair of a server is in engine 1, its connections are in engine 0. It serves one client after the other.
#[test]
fn the_id_of_a_past_connection_ends_no_later_one_in_another_engine() {
    let [a, b, c] =
        [(26, 1), (27, 2), (28, 1)].map(|(last, count)| Side::open(config(last, count)));
    let server = &b.engines[1];
    b.engines[0].device.cm().listen(SERVICE, 16, &b.channel, 7).expect("free");
    let qb = server.qp(QpType::Rc);
    let serve = |client: &Side| {
        let (id, qpn) = client.call(&b, 0);
        let id_b = b.request();
        server.device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(0x99))).expect("accepted");
        client.established(id);
        b.established(id_b);
        (id, id_b, qpn)
    };
    let (id_a, past, _) = serve(&a);
    a.engines[0].device.cm().disconnect(id_a, &[]).expect("it stands");
    a.disconnected(id_a);
    b.disconnected(past);
    a.engines[0].device.cm().release(id_a);
    server.step(qb, &QpAttr::default(), QpState::Reset, QpAttrMask::empty());
    let (_, _, qc) = serve(&c);
    b.engines[0].device.cm().release(past);
    assert_eq!(server.state(qb), QpState::Rts);
    let (from, to) = (c.engines[0].buffer(64), server.buffer(64));
    server.recv(qb, 1, &[to.sge(0, 64)]);
    c.engines[0].send(qc, 2, SendOp::Send, &[from.sge(0, 64)]);
    assert_ok(&collect(&[(&c.engines[0], 1), (server, 1)]).concat());
}

/// A program that ends looks for packets without waiting for anybody. It may go on nevertheless: what the one engine has found for the
/// other one is not lost.
#[test]
fn the_end_of_a_connection_reaches_its_engine_although_the_program_was_about_to_end() {
    let alone = DeviceConfig { progress_thread: false, ..config(30, 2) };
    let (a, b) = (Side::open(config(29, 1)), Side::open(alone));
    let (server, device) = (&b.engines[1], &b.engines[0].device);
    device.cm().listen(SERVICE, 16, &b.channel, 7).expect("free");
    let (id_a, _) = a.call(&b, 0);
    let next = || {
        let end = Instant::now() + EVENT_TIMEOUT.expect("a limit");
        while Instant::now() < end {
            device.drive();
            if let Some(event) = b.channel.try_event() {
                return event;
            }
        }
        panic!("no event");
    };
    let id_b = next().id;
    let qb = server.qp(QpType::Rc);
    server.device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(0x99))).expect("accepted");
    a.established(id_a);
    assert!(matches!(next().kind, CmEventKind::Established { .. }));
    a.engines[0].device.cm().disconnect(id_a, &[]).expect("it stands");
    while device.cm().state(id_b) == Some(State::Established) {
        device.drive_at_exit();
    }
    let ended = next();
    assert!(matches!(ended.kind, CmEventKind::Disconnected { .. }), "{ended:?}");
    assert_eq!(server.state(qb), QpState::Err);
}
