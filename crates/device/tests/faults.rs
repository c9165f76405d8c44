//! What rules of `--fault` bring about at the other device.

mod common;

use common::{Node, QKEY, assert_ok, collect, fall_asleep, ip, rc_pair};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpType, SendOp, WcStatus};
use uroce_device::{DeviceConfig, Faults};
use uroce_testkit::wait_until;

/// A device that does what the rules say, and works only inside calls.
fn faulty(fabric: &LoopbackFabric, last: u8, rules: &str) -> Node {
    let plan = rules.parse().expect("rules");
    Node::open(DeviceConfig {
        faults: Some(Faults::new(plan, Some(7)).expect("a seed is given")),
        progress_thread: false,
        ..DeviceConfig::loopback(ip(last), fabric)
    })
}

fn applied(node: &Node) -> u64 {
    node.device
        .fault_counters()
        .expect("it has faults")
        .rules()
        .iter()
        .map(|rule| rule.applied)
        .sum()
}

/// What the second of two SENDs ends with, to a device with such rules that gets `arrived` of it, and the two devices.
fn second_send(rules: &str, arrived: usize) -> (WcStatus, [Node; 2]) {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), faulty(&fabric, 2, rules));
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(64), b.buffer(128));
    for id in 0..2 {
        b.recv(qb, id, &[to.sge(64 * id, 64)]);
    }
    a.send(qa, 0, SendOp::Send, &[from.sge(0, 64)]);
    // Its acknowledgement tells the rules which queue pair an answer goes to.
    assert_ok(&collect(&[(&a, 1), (&b, 1)]).concat());
    a.send(qa, 1, SendOp::Send, &[from.sge(0, 64)]);
    let completions = collect(&[(&a, 1), (&b, arrived)]);
    assert_eq!((completions[1].len(), applied(&b)), (arrived, 1), "{rules}");
    (completions[0][0].status, [a, b])
}

#[test]
fn an_answer_in_place_of_the_device_reaches_the_sender() {
    let (status, [_, b]) = second_send("rx op=send -> answer:nak:2 skip=1 count=1", 0);
    assert_eq!(status, WcStatus::RemAccessErr);
    assert!(b.poll().is_empty(), "the device has not seen the request");
}

#[test]
fn the_sender_obeys_naks_and_a_cnp_that_a_rule_made() {
    for (rules, counter) in [
        ("rx op=send -> answer:rnr:1 skip=1 count=1", "rcvd_rnr_err"),
        ("rx op=send -> answer:nak:0 skip=1 count=1", "rcvd_seq_err"),
        ("rx op=send -> answer:cnp skip=1 count=1", "rcvd_cnp"),
    ] {
        let (status, [a, _]) = second_send(rules, 1);
        assert_eq!((status, a.counter(counter)), (WcStatus::Success, 1), "{rules}");
    }
}

/// A datagram has no timer that would bring its receiver back to work.
#[test]
fn a_late_packet_has_the_sleeping_receiver_work() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (faulty(&fabric, 1, "tx -> delay=30ms"), Node::threaded(&fabric, 2));
    let (ua, ub) = (a.qp(QpType::Ud), b.qp(QpType::Ud));
    a.activate_ud(ua);
    b.activate_ud(ub);
    let (from, to) = (a.buffer(64), b.buffer(104));
    from.write(0, &[7; 64]);
    b.recv(ub, 1, &[to.sge(0, 104)]);
    a.send_ud(ua, 1, (ip(2), ub, QKEY), &[from.sge(0, 64)]);
    fall_asleep(&[&b]);
    wait_until("the packet arrives", || {
        a.device.drive();
        to.bytes(40, 64) == [7; 64]
    });
    assert_eq!(applied(&a), 1);
}
