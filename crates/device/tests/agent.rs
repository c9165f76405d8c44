//! What a device answers to network management on QP 1.

mod common;
#[path = "common/forge.rs"]
mod forge;

use std::time::Duration;

use common::{Node, assert_ok, collect, ip, rc_pair};
use forge::{Attacker, GOOD, Headers, mad_packet};
use uroce_device::VirtualClock;
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::SendOp;
use uroce_device::wire::DropReason;

const ASKER: u8 = 9;
/// Bytes of BTH and DETH before the MAD.
const HEADERS: usize = 20;
const PORT_COUNTERS: u8 = 0x12;
const PORT_COUNTERS_EXTENDED: u8 = 0x1d;

fn get(class: u8, version: u8, attribute: u8) -> [u8; 256] {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, class, version, 1]);
    mad[8..16].fill(0x77);
    mad[17] = attribute;
    mad[65] = 1;
    mad
}

/// The MADs that come back.
fn ask(asker: &mut Attacker, node: &Node, mad: &[u8; 256], headers: Headers) -> Vec<Vec<u8>> {
    asker.inject(ip(ASKER), node.device.address(), mad_packet(mad, headers));
    asker.deliver(node);
    let packets = asker.received();
    for packet in &packets {
        assert_eq!(packet.len(), HEADERS + 256 + 4, "as long as the request");
        let to_qp_1 = [0x64, 0x40, 0xff, 0xff, 0, 0, 0, 1];
        let from_qp_1 = [0x80, 1, 0, 0, 0, 0, 0, 1];
        assert_eq!((&packet[..8], &packet[12..HEADERS]), (&to_qp_1[..], &from_qp_1[..]));
    }
    packets.into_iter().map(|packet| packet[HEADERS..][..256].to_vec()).collect()
}

fn ask_one(asker: &mut Attacker, node: &Node, mad: &[u8; 256]) -> Vec<u8> {
    let mut answers = ask(asker, node, mad, GOOD);
    assert_eq!(answers.len(), 1);
    let answer = answers.remove(0);
    assert_eq!((answer[3], &answer[4..6], &answer[8..16]), (0x81, &[0, 0][..], &[0x77; 8][..]));
    answer
}

fn number(mad: &[u8], at: usize, len: usize) -> u64 {
    mad[at..at + len].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn dropped(node: &Node, reason: DropReason) -> u64 {
    node.device.drops().iter().find(|(r, _)| *r == reason).map_or(0, |(_, count)| *count)
}

#[test]
fn c60_a_device_tells_its_classes() {
    let fabric = LoopbackFabric::new();
    let node = Node::inline(&fabric, 2);
    let mut asker = Attacker::new(&fabric, ASKER);
    let performance = ask_one(&mut asker, &node, &get(4, 1, 1));
    assert_eq!(performance[64..68], [1, 1, 0x05, 0x00]);
    let connections = ask_one(&mut asker, &node, &get(7, 2, 1));
    assert_eq!(connections[24..28], [1, 2, 0x32, 0x00]);
    assert_eq!(node.device.drops().iter().map(|(_, count)| count).sum::<u64>(), 0);
}

#[test]
fn c61_c62_a_device_tells_what_it_has_counted() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(5000), b.buffer(5000));
    b.recv(qb, 1, &[to.sge(0, 5000)]);
    a.send(qa, 2, SendOp::Send, &[from.sge(0, 5000)]);
    collect(&[(&a, 1), (&b, 1)]).iter().for_each(|done| assert_ok(done));
    let mut asker = Attacker::new(&fabric, ASKER);
    asker.inject_raw(ip(ASKER), ip(2), &mad_packet(&get(4, 1, PORT_COUNTERS), GOOD));
    asker.deliver(&b);
    assert_eq!((asker.replies().0, dropped(&b, DropReason::BadIcrc)), (0, 1));

    let extended = ask_one(&mut asker, &b, &get(4, 1, PORT_COUNTERS_EXTENDED));
    let expected = ["sent_bytes", "rcvd_bytes", "sent_pkts", "rcvd_pkts"].map(|n| b.counter(n));
    let [sent, received, sent_pkts, received_pkts] = expected;
    let data = [72, 80, 88, 96].map(|at| number(&extended, at, 8));
    assert_eq!(data, [sent / 4, received / 4, sent_pkts, received_pkts]);
    assert!(received > 5000 && received_pkts >= 5 && sent_pkts > 0, "{expected:?}");
    let short = ask_one(&mut asker, &b, &get(4, 1, PORT_COUNTERS));
    assert_eq!([88, 92, 96, 100].map(|at| number(&short, at, 4)), data);
    assert_eq!((number(&short, 68, 2), number(&short, 72, 2)), (0, 1), "symbol and receive errors");
}

#[test]
fn c61_what_cannot_be_sent_counts_as_discarded() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (qa, _) = rc_pair(&a, &b);
    drop(b);
    let from = a.buffer(64);
    a.send(qa, 2, SendOp::Send, &[from.sge(0, 64)]);
    let mut asker = Attacker::new(&fabric, ASKER);
    let before = a.counter("datapath_tx_dropped");
    let short = ask_one(&mut asker, &a, &get(4, 1, PORT_COUNTERS));
    // The SEND is repeated meanwhile.
    let lost = before..=a.counter("datapath_tx_dropped");
    assert!(before > 0 && lost.contains(&number(&short, 78, 2)), "{lost:?} lost");
}

#[test]
fn c63_a_set_changes_nothing() {
    let fabric = LoopbackFabric::new();
    let node = Node::inline(&fabric, 2);
    let mut asker = Attacker::new(&fabric, ASKER);
    asker.inject_raw(ip(ASKER), ip(2), &mad_packet(&get(4, 1, PORT_COUNTERS), GOOD));
    let mut reset = get(4, 1, PORT_COUNTERS);
    reset[3] = 2;
    reset[66..68].fill(0xff);
    let answers = ask(&mut asker, &node, &reset, GOOD);
    assert_eq!((answers.len(), &answers[0][3..6]), (1, &[0x81, 0, 0x0c][..]));
    let short = ask_one(&mut asker, &node, &get(4, 1, PORT_COUNTERS));
    assert_eq!(number(&short, 72, 2), 1);
}

#[test]
fn c64_a22_a_request_is_checked_like_any_mad() {
    let fabric = LoopbackFabric::new();
    let node = Node::inline(&fabric, 2);
    let mut asker = Attacker::new(&fabric, ASKER);
    let good = get(4, 1, PORT_COUNTERS);
    let cases = [
        (Headers { pkey: 0x7ffe, ..GOOD }, DropReason::PkeyMismatch),
        (Headers { qkey: 1, ..GOOD }, DropReason::QkeyMismatch),
        (Headers { src_qpn: 0x55, ..GOOD }, DropReason::GsiQpn),
        (Headers { len: 252, ..GOOD }, DropReason::MadLength),
    ];
    for (headers, reason) in cases {
        assert_eq!(ask(&mut asker, &node, &good, headers), Vec::<Vec<u8>>::new());
        assert_eq!(dropped(&node, reason), 1, "{reason}");
    }
    // A response, another class, another method.
    for (at, value) in [(3, 0x81), (1, 3), (3, 5)] {
        let before = dropped(&node, DropReason::MadHeader);
        let mut mad = good;
        mad[at] = value;
        assert_eq!(ask(&mut asker, &node, &mad, GOOD), Vec::<Vec<u8>>::new());
        assert_eq!(dropped(&node, DropReason::MadHeader), before + 1);
    }
}

#[test]
fn c64_a26_a_flood_of_requests_draws_no_more_answers_than_the_budget() {
    let fabric = LoopbackFabric::new();
    let clock = VirtualClock::new();
    let node = Node::on_clock(&fabric, 2, &clock);
    let mut asker = Attacker::new(&fabric, ASKER);
    let packet = mad_packet(&get(4, 1, PORT_COUNTERS), GOOD);
    let (mut answers, mut bytes) = (0, 0);
    for _ in 0..100 {
        clock.advance(Duration::from_millis(10));
        (0..50).for_each(|_| asker.inject(ip(ASKER), ip(2), packet.clone()));
        asker.deliver(&node);
        let (more, long) = asker.replies();
        (answers, bytes) = (answers + more, bytes + long);
    }
    // A burst, and what is granted within a second.
    assert!((1_000..=2_000).contains(&answers), "{answers} answers");
    assert!(bytes <= asker.sent_bytes);
    assert_eq!(dropped(&node, DropReason::CmRateLimit) as usize, 5_000 - answers);
}
