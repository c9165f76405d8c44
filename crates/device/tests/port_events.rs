//! Events of the port: a link that goes down and comes back, an address that is taken away and given back, with nobody
//! polling and under traffic.

mod common;

use std::time::{Duration, Instant};

use common::{Node, pattern};
use uroce_device::transport::{AsyncEvent, QpState, QpType, SendOp, WcStatus};
use uroce_device::wire::{Mtu, Qpn};
use uroce_device::{DeviceConfig, EventChannel, OwnedEvent, PortState};
use uroce_testkit::namespace::{Namespace, Wire};

/// The kernel needs up to a second to notice that the other end of a wire is down.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);
/// 4.096 us * 2^10, about 4 ms: with seven retries a queue pair gives up soon.
const TIMEOUT: u8 = 10;
const SIZE: u32 = 4096;
/// Requests of a queue pair that are under way at a time.
const WINDOW: u64 = 64;

fn node(namespace: &Namespace, last: u8, progress_thread: bool) -> Node {
    let config = DeviceConfig { progress_thread, ..DeviceConfig::new([10, 77, 0, last].into()) };
    namespace.run(move || Node::open(config))
}

/// The next event, which everybody hears of.
fn next_event(node: &Node, channel: &EventChannel) -> AsyncEvent {
    let event = node
        .device
        .async_events()
        .next_event(Some(EVENT_TIMEOUT))
        .expect("poll")
        .expect("an event");
    let heard = channel.next_event(Some(EVENT_TIMEOUT)).expect("poll");
    assert_eq!(heard, Some(OwnedEvent { event, cookie: 1 }));
    event
}

fn state(namespace: &Namespace, node: &Node) -> PortState {
    let device = node.device.clone();
    namespace.run(move || device.port_attr().state)
}

#[test]
fn v47_a_link_that_goes_down_and_an_address_that_goes_are_told() {
    let Some(wire) = Wire::new(1500) else { return };
    let node = node(&wire.a, 1, false);
    let channel = EventChannel::new().expect("a descriptor");
    node.device.async_events().subscribe_to_port(&channel);
    let turns: [(&Namespace, &str, AsyncEvent, PortState); 6] = [
        (&wire.a, "ip link set wa down", AsyncEvent::PortErr, PortState::Down),
        (&wire.a, "ip link set wa up", AsyncEvent::PortActive, PortState::Active),
        (&wire.b, "ip link set wb down", AsyncEvent::PortErr, PortState::Down),
        (&wire.b, "ip link set wb up", AsyncEvent::PortActive, PortState::Active),
        (&wire.a, "ip addr del 10.77.0.1/24 dev wa", AsyncEvent::GidChange, PortState::Active),
        (&wire.a, "ip addr add 10.77.0.1/24 dev wa", AsyncEvent::GidChange, PortState::Active),
    ];
    for (at, command, event, after) in turns {
        at.sh(command);
        assert_eq!(next_event(&node, &channel), event, "{command}");
        assert_eq!(state(&wire.a, &node), after, "{command}");
    }
    // What is not of this port is not told: the last event is the next one.
    wire.a.sh("ip link set lo down");
    wire.a.sh("ip addr add 10.77.9.9/32 dev wa");
    wire.a.sh("ip link delete wa");
    assert_eq!(next_event(&node, &channel), AsyncEvent::PortErr);
    assert_eq!(next_event(&node, &channel), AsyncEvent::GidChange);
    assert_eq!(node.device.async_events().try_event(), None);
    assert_eq!(node.counter("link_downed"), 3);
}

/// Connected queue pairs that give up soon.
fn connected(a: &Node, b: &Node) -> (Qpn, Qpn) {
    let (qa, qb) = (a.qp(QpType::Rc), b.qp(QpType::Rc));
    a.connect_with(qa, b.device.address(), qb, Mtu::M1024, TIMEOUT);
    b.connect_with(qb, a.device.address(), qa, Mtu::M1024, TIMEOUT);
    (qa, qb)
}

/// Writes without end; returns the status of each request that was posted, in order.
fn write_until_it_ends(a: &Node, b: &Node, mut disturb: impl FnMut(usize)) -> Vec<WcStatus> {
    let (qa, _qb) = connected(a, b);
    let (from, to) = (a.buffer(SIZE as usize), b.buffer(SIZE as usize));
    from.write(0, &pattern(SIZE as usize, 1));
    let write = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    let (mut posted, mut ends) = (0, Vec::new());
    let end = Instant::now() + EVENT_TIMEOUT;
    loop {
        assert!(Instant::now() < end, "{posted} posted, {} complete", ends.len());
        while a.state(qa) == QpState::Rts && posted - (ends.len() as u64) < WINDOW {
            a.send(qa, posted, write, &[from.sge(0, SIZE)]);
            posted += 1;
        }
        for wc in a.poll() {
            assert_eq!(wc.wr_id, ends.len() as u64, "each request completes once, in order");
            ends.push(wc.status);
        }
        disturb(ends.len());
        if a.state(qa) == QpState::Err && ends.len() as u64 == posted {
            return ends;
        }
    }
}

#[test]
fn b49_an_interface_or_address_that_goes_under_traffic_ends_queue_pairs_by_their_retries() {
    let Some(wire) = Wire::new(1500) else { return };
    let [a, b] = [node(&wire.a, 1, true), node(&wire.b, 2, true)];
    let ways = [
        ("ip link set wa down", "ip link set wa up"),
        ("ip addr del 10.77.0.1/24 dev wa", "ip addr add 10.77.0.1/24 dev wa"),
    ];
    for (command, back) in ways {
        let mut is_gone = false;
        let ends = write_until_it_ends(&a, &b, |done| {
            if done > 1000 && !is_gone {
                is_gone = true;
                wire.a.sh(command);
            }
        });
        assert!(ends[..1000].iter().all(|status| *status == WcStatus::Success), "{command}");
        let first = ends.iter().position(|status| *status != WcStatus::Success);
        let failed = &ends[first.expect("it ends with an error")..];
        assert_eq!(failed[0], WcStatus::RetryExcErr, "{command}");
        assert!(failed[1..].iter().all(|status| *status == WcStatus::WrFlushErr), "{command}");
        wire.a.sh(back);
        // It went with the link.
        wire.a.sh("ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:0b dev wa nud permanent");
        works_again(&a, &b);
    }
}

/// New queue pairs of the same devices work, as soon as the kernel lets packets pass.
fn works_again(a: &Node, b: &Node) {
    let end = Instant::now() + EVENT_TIMEOUT;
    let (from, to) = (a.buffer(SIZE as usize), b.buffer(SIZE as usize));
    from.write(0, &pattern(SIZE as usize, 7));
    loop {
        let (qa, _qb) = connected(a, b);
        a.send(qa, 0, SendOp::Write { va: to.addr(), rkey: to.mr.rkey }, &[from.sge(0, SIZE)]);
        let wc = loop {
            assert!(Instant::now() < end, "no completion");
            if let [wc] = a.poll()[..] {
                break wc;
            }
        };
        if wc.status == WcStatus::Success {
            assert_eq!(to.bytes(0, SIZE as usize), pattern(SIZE as usize, 7));
            return;
        }
    }
}
