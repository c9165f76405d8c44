//! A connection that is over, and the next one of its queue pair, which is in another engine.

mod common;

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU8;
use std::time::Duration;

use common::{Node, assert_ok, collect};
use uroce_device::cm::{Acceptance, Call, CommId, PortSpace, ServiceId};
use uroce_device::transport::{QpAttr, QpAttrMask as M, QpState, QpType, SendOp};
use uroce_device::wire::{Psn, Qpn};
use uroce_device::{CmChannel, CmEvent, CmEventKind, Device, DeviceConfig};

const SERVICE: ServiceId = ServiceId::new(PortSpace::Tcp, 7175);

struct Side {
    engines: Vec<Node>,
    channel: CmChannel,
}

impl Side {
    fn open(last: u8, engines: u8) -> Side {
        let address: IpAddr = Ipv4Addr::new(127, 93, 16, last).into();
        let engines = NonZeroU8::new(engines).expect("not 0");
        let device =
            Device::open(DeviceConfig { port: 24_993, engines, ..DeviceConfig::new(address) })
                .expect("opens");
        let pd = device.memory().alloc_pd().expect("a PD");
        let node = |vector| {
            let cq = device.create_cq_on(vector, 8192, None, 0).expect("a CQ");
            Node { device: device.clone(), pd, cq }
        };
        let engines = (0..device.attr().num_comp_vectors).map(node).collect();
        Side { engines, channel: CmChannel::new().expect("eventfd") }
    }

    fn event(&self) -> CmEvent {
        self.channel.next_event(Some(Duration::from_secs(20))).expect("poll").expect("an event")
    }
}

fn connect(a: &Side, b: &Side, qb: Qpn) -> (CommId, CommId, Qpn) {
    let qa = a.engines[0].qp(QpType::Rc);
    let call = Call::new(b.engines[0].device.address(), SERVICE, qa, Psn::new(0x77));
    let id_a = a.engines[0].device.cm().connect(&call, &a.channel, 8).expect("a call");
    let id_b = loop {
        match b.event() {
            CmEvent { id, kind: CmEventKind::ConnectRequest(_), .. } => break id,
            CmEvent { kind: CmEventKind::TimewaitExit, .. } => {}
            other => panic!("{other:?}"),
        }
    };
    b.engines[1].device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(0x99))).expect("accepted");
    for side in [a, b] {
        let event = side.event();
        assert!(matches!(event.kind, CmEventKind::Established { .. }), "{event:?}");
    }
    (id_a, id_b, qa)
}

/// The server's queue pair is in engine 1, its connections in engine 0. It serves one client after the other.
#[test]
fn the_id_of_a_past_connection_ends_no_later_one_in_another_engine() {
    let (a, b, c) = (Side::open(1, 1), Side::open(2, 2), Side::open(3, 1));
    b.engines[0].device.cm().listen(SERVICE, 16, &b.channel, 7).expect("free");
    let qb = b.engines[1].qp(QpType::Rc);
    let (id_a, past, _) = connect(&a, &b, qb);
    a.engines[0].device.cm().disconnect(id_a, &[]).expect("it stands");
    for side in [&a, &b] {
        let event = side.event();
        assert!(matches!(event.kind, CmEventKind::Disconnected { .. }), "{event:?}");
    }
    a.engines[0].device.cm().release(id_a);
    b.engines[1].step(qb, &QpAttr::default(), QpState::Reset, M::empty());
    let (_, _, qc) = connect(&c, &b, qb);
    b.engines[0].device.cm().release(past);
    assert_eq!(b.engines[1].state(qb), QpState::Rts);
    let (from, to) = (c.engines[0].buffer(64), b.engines[1].buffer(64));
    b.engines[1].recv(qb, 1, &[to.sge(0, 64)]);
    c.engines[0].send(qc, 2, SendOp::Send, &[from.sge(0, 64)]);
    assert_ok(&collect(&[(&c.engines[0], 1), (&b.engines[1], 1)]).concat());
}
