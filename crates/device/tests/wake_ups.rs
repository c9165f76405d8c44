//! Nobody sleeps while there is something for it: the progress thread, and who waits for a completion event.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use common::{Node, fall_asleep, ip, rc_pair};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{Notify, QpAttr, QpAttrMask as M, QpState, QpType, SendOp};
use uroce_device::wire::{Mtu, Qpn};
use uroce_device::{CompChannel, DeviceConfig};

fn with_channel(mut node: Node) -> (Node, CompChannel) {
    let channel = node.device.create_channel().expect("a channel");
    node.cq = node.device.create_cq(64, Some(&channel), 0).expect("a CQ");
    (node, channel)
}

/// Runs something while the thread unwinds, as destructors do.
struct AtTheEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtTheEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn while_unwinding(work: impl FnMut()) {
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _end = AtTheEnd(work);
        panic!("of the application, on purpose");
    }));
    assert!(unwound.is_err());
}

/// The destructors of a thread that panics flush a queue pair; another thread sleeps for its completions.
#[test]
fn a_destructor_of_a_thread_that_unwinds_wakes_a_sleeper() {
    let fabric = LoopbackFabric::new();
    let (b, channel) = with_channel(Node::threaded(&fabric, 2));
    let a = Node::inline(&fabric, 1);
    let (_, qb) = rc_pair(&a, &b);
    let to = b.buffer(64);
    b.recv(qb, 1, &[to.sge(0, 64)]);
    b.device.req_notify(b.cq, Notify::Next).expect("armed");
    fall_asleep(&[&b]);
    while_unwinding(|| b.step(qb, &QpAttr::default(), QpState::Err, M::empty()));
    // Nobody calls the device any more.
    let event = channel.next_event(Some(Duration::from_secs(3))).expect("poll(2)");
    let found = b.poll();
    assert!(event.is_some(), "no event, but this was in the queue all the time: {found:?}");
}

/// What a destructor posts is timed, as what is posted otherwise.
#[test]
fn what_a_destructor_of_a_thread_that_unwinds_posts_is_timed() {
    let fabric = LoopbackFabric::new();
    let (a, channel) = with_channel(Node::threaded(&fabric, 1));
    let qa = a.qp(QpType::Rc);
    a.connect_with(qa, ip(200), Qpn::new(0x4242), Mtu::M1024, 8);
    let from = a.buffer(64);
    a.device.req_notify(a.cq, Notify::Next).expect("armed");
    fall_asleep(&[&a]);
    while_unwinding(|| a.send(qa, 5, SendOp::Send, &[from.sge(0, 64)]));
    let event = channel.next_event(Some(Duration::from_secs(5))).expect("poll(2)");
    assert!(event.is_some(), "the timer never fired");
}

/// Packets of a batch that was read from the socket and does not fit into one poll iteration: `poll_timeout` says `None` when only a packet or a call gives the device
/// something to do.
#[test]
fn a_device_with_packets_that_it_has_read_has_something_to_do() {
    const LENGTH: u32 = 3 * 62 * 1024;
    let open = |last| {
        let address = [127, 93, 7, last].into();
        Node::open(DeviceConfig {
            port: 24_995,
            progress_thread: false,
            ..DeviceConfig::new(address)
        })
    };
    let (a, b) = (open(21), open(22));
    let (qa, qb) = (a.qp(QpType::Uc), b.qp(QpType::Uc));
    a.connect_uc(qa, b.device.address(), qb);
    b.connect_uc(qb, a.device.address(), qa);
    let (from, to) = (a.buffer(LENGTH as usize), b.buffer(LENGTH as usize));
    b.recv(qb, 1, &[to.sge(0, LENGTH)]);
    a.send(qa, 1, SendOp::Send, &[from.sge(0, LENGTH)]);
    b.device.drive();
    b.device.drive();
    // Of the third batch, which has left the socket, two packets have been delivered.
    assert!(b.counter("rcvd_pkts") < 3 * 62, "a poll iteration has its bound");
    assert!(
        b.device.poll_timeout().is_some(),
        "60 packets wait in the datapath, and no descriptor says so"
    );
}
