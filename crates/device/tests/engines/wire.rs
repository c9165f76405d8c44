//! Several engines on datapaths that see frames, between network namespaces.

use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use uroce_device::transport::{QpType, SendOp};
use uroce_device::{Device, DeviceConfig, OpenError};
use uroce_testkit::namespace::Wire;

use crate::common::{Buffer, Node, QKEY, assert_ok, collect, pattern};
use crate::connections::{Side, all_call_and_accept};
use crate::traffic::{PART, all_do};
use crate::{PORT, open, rc_pairs};

const NAMES: [&str; 3] = ["packet", "xdp-generic", "xdp-native"];
const QUEUES: usize = 4;
const PAIRS: usize = 48;

/// A device at one end of the wire.
fn at(end: usize, datapath: &str, engines: u8) -> DeviceConfig {
    let address = [10, 77, 0, end as u8 + 1].into();
    let engines = NonZeroU8::new(engines).expect("not 0");
    let datapath = datapath.parse().expect("a datapath");
    DeviceConfig { port: PORT, engines, datapath, ..DeviceConfig::new(address) }
}

fn devices(wire: &Wire, configs: [DeviceConfig; 2]) -> [Vec<Node>; 2] {
    let [a, b] = configs;
    [wire.a.run(move || open(a)), wire.b.run(move || open(b))]
}

fn exchange(name: &str, a: &[Node], b: &[Node]) {
    let pairs = rc_pairs(a, b, PAIRS);
    let size = PAIRS * PART as usize;
    let (from, to): (Buffer, Buffer) = (a[0].buffer(size), b[0].buffer(size));
    for round in 0..4 {
        let data = pattern(size, round);
        from.write(0, &data);
        let there = |number: u64| (to.addr() + number * PART, to.mr.rkey);
        let write = |number| {
            let (va, rkey) = there(number);
            (SendOp::Write { va, rkey }, 0, PART as u32)
        };
        assert_ok(&all_do(a, &pairs, write, &from));
        assert_eq!(to.bytes(0, size), data, "{name}");
        from.write(0, &vec![0; size]);
        let read = |number| {
            let (va, rkey) = there(number);
            (SendOp::Read { va, rkey }, 0, PART as u32)
        };
        assert_ok(&all_do(a, &pairs, read, &from));
        assert_eq!(from.bytes(0, size), data, "{name}");
        let mut due = vec![0; b.len()];
        for (number, &[_, (engine, qpn)]) in (0u64..).zip(&pairs) {
            b[engine].recv(qpn, number, &[to.sge(number * PART, 64)]);
            due[engine] += 1;
        }
        assert_ok(&all_do(a, &pairs, |_| (SendOp::Send, 0, 64), &from));
        let received: Vec<_> = b.iter().zip(due).collect();
        assert_ok(&collect(&received).concat());
    }
}

#[test]
fn queue_pairs_of_all_engines_work_on_every_datapath() {
    for name in NAMES {
        let Some(wire) = Wire::with_queues(1500, QUEUES) else { return };
        // Four engines have a queue each, two share the queues, and three have not the same number.
        for engines in [[4, 4], [2, 3], [3, 1]] {
            let [a, b] = devices(&wire, [at(0, name, engines[0]), at(1, name, engines[1])]);
            exchange(name, &a, &b);
            for (end, other) in [(&a, &b), (&b, &a)] {
                // A network interface knows no QPNs.
                let must = name != "packet" && end.len() > 1 && other.len() > 1;
                assert!(handed_over(&end[0]) > 0 || !must, "{name} {engines:?}");
            }
        }
    }
}

/// Packets that engines of a device got from each other: all that others had for them, and nobody dropped any.
fn handed_over(node: &Node) -> u64 {
    let count = |counter| node.counter(counter);
    assert_eq!(count("drop_unknown_qpn") + count("drop_no_process"), 0);
    let end = Instant::now() + Duration::from_secs(5);
    while count("datapath_rx_forwarded") != count("datapath_rx_adopted") {
        assert!(Instant::now() < end, "{:?}", node.device.counters());
    }
    count("datapath_rx_adopted")
}

#[test]
fn queue_pairs_of_a_peer_that_share_its_source_ports_reach_all_engines() {
    for name in NAMES {
        let Some(wire) = Wire::with_queues(1500, QUEUES) else { return };
        // Eight source ports for 48 queue pairs, so for several engines each.
        let [a, b] = devices(&wire, [at(0, "udp", 1), at(1, name, 4)]);
        exchange(name, &a, &b);
        assert!(handed_over(&b[0]) > 0 || name == "packet", "{name}");
    }
}

#[test]
fn connections_find_their_engines_on_every_datapath() {
    for name in NAMES {
        let Some(wire) = Wire::with_queues(1500, QUEUES) else { return };
        let (a, b) = (at(0, name, 3), at(1, name, 3));
        let (a, b) = (wire.a.run(move || Side::open(a)), wire.b.run(move || Side::open(b)));
        all_call_and_accept(&a, &b);
    }
}

#[test]
fn engines_of_one_device_reach_each_other_on_every_datapath() {
    for name in NAMES {
        let Some(wire) = Wire::with_queues(1500, QUEUES) else { return };
        let config = at(0, name, 2);
        let a = wire.a.run(move || open(config));
        let (q0, q1) = (a[0].qp(QpType::Ud), a[1].qp(QpType::Ud));
        a[0].activate_ud(q0);
        a[1].activate_ud(q1);
        let buffer = a[0].buffer(512);
        buffer.write(0, &pattern(64, 3));
        a[1].recv(q1, 1, &[buffer.sge(256, 256)]);
        a[0].send_ud(q0, 2, (a[0].device.address(), q1, QKEY), &[buffer.sge(0, 64)]);
        assert_ok(&collect(&[(&a[0], 1), (&a[1], 1)]).concat());
        assert_eq!(buffer.bytes(256 + 40, 64), pattern(64, 3), "{name}");
    }
}

#[test]
fn an_interface_with_fewer_queues_than_engines_is_refused_with_both_remedies() {
    let Some(wire) = Wire::with_queues(1500, QUEUES) else { return };
    let config = at(0, "xdp", 5);
    let error = wire.a.run(move || Device::open(config)).expect_err("four queues");
    assert!(matches!(error, OpenError::Xdp(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("receive queues (4) for 5 engines"), "{text}");
    assert!(text.contains("`ethtool -L wa combined 5`"), "{text}");
    // Nothing stays behind.
    let config = at(0, "xdp", 4);
    drop(wire.a.run(move || Device::open(config)).expect("a queue for each"));
}
