//! Attacks of docs/conformance.md against a device on the wire: A1, A2, A8, A10, A26, A35, A36.

mod common;
#[path = "common/forge.rs"]
mod forge;
#[path = "common/log.rs"]
mod log;

use std::net::SocketAddr;

use common::{Buffer, Node, assert_ok, collect, ip, pattern, rc_pair, settle};
use forge::{Attacker, Forged};
use log::lines_of;
use uroce_device::DeviceConfig;
use uroce_device::datapath::{Direction, LoopbackFabric, PcapFile, PcapReplay};
use uroce_device::transport::{QpState, QpType, SendOp};
use uroce_device::wire::{DropReason, Qpn, parse_ethernet};

const EPSN: u32 = 0x1000;
const SEND_ONLY: u8 = 0x04;
const STRANGER: u8 = 66;
const PEER: u8 = 9;
const QPNS: [u32; 4] = [0, 1, 0xff_ffff, 0x00_5a5a];

/// A device with one RC queue pair, connected to an address where the test itself sits.
fn victim(fabric: &LoopbackFabric) -> (Node, Qpn) {
    let node = Node::inline(fabric, 2);
    let qpn = node.qp(QpType::Rc);
    node.connect(qpn, ip(PEER), Qpn::new(0x77));
    (node, qpn)
}

fn drops(node: &Node) -> u64 {
    node.device.drops().iter().map(|(_, count)| count).sum()
}

fn dropped(node: &Node, reason: DropReason) -> u64 {
    node.device.drops().iter().find(|(r, _)| *r == reason).map_or(0, |(_, count)| *count)
}

/// All opcodes, lengths 0 to 128, all pads, TVer 0, 1, 8, 15.
fn every_shape(mut each: impl FnMut(Forged, usize)) {
    for opcode in 0..=255 {
        for (pad, tver) in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 8), (3, 15)] {
            for len in 0..=128 {
                each(Forged { pad, tver, ..Forged::new(opcode, 0, EPSN) }, len);
            }
        }
    }
}

#[test]
fn a1_malformed_packets_to_wrong_numbers_get_no_reply() {
    let fabric = LoopbackFabric::new();
    let (node, _) = victim(&fabric);
    let mut attacker = Attacker::new(&fabric, STRANGER);
    every_shape(|shape, len| {
        for qpn in QPNS {
            attacker.inject(ip(STRANGER), ip(2), Forged { qpn, ..shape }.bytes(len));
        }
        if attacker.packets.is_multiple_of(64) {
            attacker.deliver(&node);
        }
    });
    attacker.deliver(&node);
    assert_eq!(attacker.replies().0, 0);
    assert_eq!(drops(&node), attacker.packets, "each packet has its drop reason");
}

#[test]
fn a1_a_live_queue_pair_answers_its_peer_only() {
    let fabric = LoopbackFabric::new();
    let (node, first) = victim(&fabric);
    let mut live = first;
    let mut stranger = Attacker::new(&fabric, STRANGER);
    let mut peer = Attacker::new(&fabric, PEER);
    let mut revived = 0;
    every_shape(|shape, len| {
        let bytes = Forged { qpn: live.get(), ..shape }.bytes(len);
        stranger.inject(ip(STRANGER), ip(2), bytes.clone());
        stranger.deliver(&node);
        peer.inject(ip(PEER), ip(2), bytes);
        peer.deliver(&node);
        // An exact-ePSN packet that is malformed kills the QP, as it has to (A12).
        if node.state(live) == QpState::Err {
            node.device.destroy_qp(live).expect("destroyed");
            live = node.qp(QpType::Rc);
            node.connect(live, ip(PEER), Qpn::new(0x77));
            node.poll();
            revived += 1;
        }
    });
    assert_eq!(stranger.replies().0, 0);
    assert!(peer.replies().0 > 0, "the peer is answered");
    assert!(revived > 0, "malformed requests from the peer end the QP");
}

#[test]
fn r9_a2_one_wrong_bit_means_no_reply_and_no_change() {
    let fabric = LoopbackFabric::new();
    let (node, qpn) = victim(&fabric);
    let to = node.buffer(256);
    node.recv(qpn, 1, &[to.sge(0, 256)]);
    let mut peer = Attacker::new(&fabric, PEER);
    let good = sealed(&Forged::new(SEND_ONLY, qpn.get(), EPSN).bytes(12 + 64 + 4));
    let mut flips = 0;
    // Byte 4 of the BTH (FECN, BECN, reserved) is not covered by the ICRC.
    for bit in (0..good.len() * 8).filter(|bit| bit / 8 != 4) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        peer.inject_raw(ip(PEER), ip(2), &bad);
        peer.deliver(&node);
        flips += 1;
    }
    assert_eq!(peer.replies().0, 0);
    assert_eq!(drops(&node), flips);
    assert!(dropped(&node, DropReason::BadIcrc) >= 32 + 64 * 8, "ICRC and payload bits");
    assert!(node.poll().is_empty());
    assert_eq!(to.bytes(0, 256), vec![0; 256]);
    peer.inject_raw(ip(PEER), ip(2), &good);
    peer.deliver(&node);
    assert_eq!(node.poll().len(), 1, "the untouched packet is still the expected one");
    assert_eq!(peer.replies().0, 1);
}

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let flow = uroce_device::wire::Flow {
        src: ip(PEER),
        dst: ip(2),
        src_port: 0xc123,
        dst_port: uroce_device::ROCE_PORT,
    };
    let end = bytes.len() - 4;
    let crc = uroce_device::wire::icrc(&flow, 0, &bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn r4_a8_a_qpn_scan_finds_nothing() {
    let fabric = LoopbackFabric::new();
    let (node, live) = victim(&fabric);
    let mut attacker = Attacker::new(&fabric, STRANGER);
    // Every 97th number, and the live one with its neighbours.
    let near = live.get() - 2..live.get() + 3;
    for (i, qpn) in (0..1 << 24).step_by(97).chain(near).enumerate() {
        let source = if i % 2 == 0 { ip(STRANGER) } else { ip((i % 200) as u8 + 20) };
        attacker.inject(source, ip(2), Forged::new(SEND_ONLY, qpn, EPSN).bytes(16));
        if i % 64 == 63 {
            attacker.deliver(&node);
        }
    }
    attacker.deliver(&node);
    assert_eq!(attacker.replies().0, 0);
    assert_eq!(drops(&node), attacker.packets);
    assert!(dropped(&node, DropReason::WrongPeer) >= 1);
    assert_eq!(node.counter("sent_pkts"), 0);
}

#[test]
fn a10_a_psn_scan_from_a_wrong_source_is_only_counted() {
    let fabric = LoopbackFabric::new();
    let (node, live) = victim(&fabric);
    let mut attacker = Attacker::new(&fabric, STRANGER);
    let near = EPSN - 50..EPSN + 50;
    for (i, psn) in (0..1 << 24).step_by(499).chain(near).enumerate() {
        attacker.inject(ip(STRANGER), ip(2), Forged::new(SEND_ONLY, live.get(), psn).bytes(16));
        if i % 64 == 63 {
            attacker.deliver(&node);
        }
    }
    attacker.deliver(&node);
    assert_eq!(attacker.replies().0, 0);
    assert_eq!(dropped(&node, DropReason::WrongPeer), attacker.packets);
    let attr = node.device.query_qp(live).expect("alive").0;
    assert_eq!((attr.state, attr.rq_psn), (QpState::Rts, EPSN));
}

#[test]
fn a26_nothing_is_reflected_or_amplified() {
    let fabric = LoopbackFabric::new();
    let (node, first) = victim(&fabric);
    let mut live = first;
    let mut attacker = Attacker::new(&fabric, STRANGER);
    let mut bystander = Attacker::new(&fabric, 50);
    let mut peer = Attacker::new(&fabric, PEER);
    for opcode in 0..=255 {
        for psn in [EPSN, EPSN - 1, EPSN + 5, 0] {
            for (source, qpn) in
                [(50, live.get()), (50, 0x1234), (PEER, live.get()), (PEER, 0x1234)]
            {
                let bytes = Forged::new(opcode, qpn, psn).bytes(80);
                attacker.inject(ip(source), ip(2), bytes);
            }
            attacker.deliver(&node);
            if node.state(live) == QpState::Err {
                node.device.destroy_qp(live).expect("destroyed");
                live = node.qp(QpType::Rc);
                node.connect(live, ip(PEER), Qpn::new(0x77));
            }
        }
    }
    assert_eq!(bystander.replies().0, 0);
    let (_, reflected) = peer.replies();
    assert!(reflected <= attacker.sent_bytes / 4, "{reflected} of {}", attacker.sent_bytes);
    assert_eq!(node.counter("rdma_recvs"), 0, "no key was guessed");
}

#[test]
fn a35_unicast_to_a_group_and_group_without_members_are_counted() {
    let fabric = LoopbackFabric::new();
    let (node, qpn) = victim(&fabric);
    let group = "239.1.1.1".parse().expect("an address");
    let ud = node.qp(QpType::Ud);
    node.activate_ud(ud);
    node.device.attach_mcast(ud, group).expect("attached");
    let mut attacker = Attacker::new(&fabric, STRANGER);
    const UD_SEND_ONLY: u8 = 0x64;
    let cases = [
        (group, Forged::new(SEND_ONLY, qpn.get(), EPSN), DropReason::WrongDestination),
        (group, Forged::new(SEND_ONLY, 0xff_ffff, EPSN), DropReason::MulticastNotUd),
        (ip(2), Forged::new(UD_SEND_ONLY, 0xff_ffff, EPSN), DropReason::MulticastNotUd),
        (group, Forged::new(UD_SEND_ONLY, 0xff_ffff, EPSN), DropReason::QkeyMismatch),
        (ip(2), Forged::new(UD_SEND_ONLY, 0, EPSN), DropReason::SmiQpn),
        (ip(2), Forged::new(UD_SEND_ONLY, 1, EPSN), DropReason::QkeyMismatch),
    ];
    for (dst, shape, reason) in cases {
        let before = dropped(&node, reason);
        attacker.inject(ip(STRANGER), dst, shape.bytes(12 + 8 + 4));
        attacker.deliver(&node);
        assert_eq!(dropped(&node, reason), before + 1, "{reason:?}");
    }
    node.device.destroy_qp(ud).expect("destroyed");
    assert_eq!(attacker.replies().0, 0);
}

/// A forged NAK "receiver not ready" with the longest wait makes one queue pair wait, as its own peer could, and no
/// other queue pair of the device.
#[test]
fn a16_a_queue_pair_under_a_flood_of_rnr_naks_holds_up_no_other() {
    const ACKNOWLEDGE: u8 = 0x11;
    const RNR_WAIT_655_MS: u8 = 0x20;
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (victim, (other, _)) = (a.qp(QpType::Rc), rc_pair(&a, &b));
    // Nobody answers there but the attacker.
    a.connect(victim, ip(2), Qpn::new(0x5a5a));
    let (from, to) = (a.buffer(64), b.buffer(64));
    let write = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    let mut attacker = Attacker::new(&fabric, STRANGER);
    a.send(victim, 1, write, &[from.sge(0, 64)]);
    let mut nak = Forged::new(ACKNOWLEDGE, victim.get(), EPSN).bytes(12 + 4 + 4);
    nak[12] = RNR_WAIT_655_MS;
    for round in 0..200 {
        (0..50).for_each(|_| attacker.inject(ip(2), ip(1), nak.clone()));
        attacker.deliver(&a);
        a.send(other, 100 + round, write, &[from.sge(0, 64)]);
        let done = collect(&[(&a, 1), (&b, 0)]).concat();
        assert!(done[0].is_ok() && done[0].wr_id == 100 + round, "{done:?}");
    }
    assert_eq!((a.state(victim), a.state(other)), (QpState::Rts, QpState::Rts));
    assert!(a.counter("rcvd_rnr_err") >= 1);
}

/// A packet of a recording: where it came from, and its UDP payload.
type Recorded = (SocketAddr, Vec<u8>);

/// What `node` got while it was recorded.
fn received(file: &PcapFile, path: &std::path::Path) -> Vec<Recorded> {
    file.flush().expect("written");
    let frames = PcapReplay::open(path).expect("a capture").map(|frame| frame.expect("whole"));
    let inbound = frames.filter(|frame| frame.direction == Some(Direction::Inbound));
    let recorded = inbound.map(|frame| {
        let parsed = parse_ethernet(&frame.data).expect("RoCE");
        let src = SocketAddr::new(parsed.ip.src(), parsed.udp.expect("UDP").src);
        (src, parsed.transport.to_vec())
    });
    recorded.collect()
}

/// A conversation of everything that RC has, and what `b` got of it.
fn recorded_conversation(
    fabric: &LoopbackFabric,
    b: &Node,
    file: &PcapFile,
    path: &std::path::Path,
) -> (Qpn, Buffer, Vec<Recorded>) {
    let a = Node::inline(fabric, PEER);
    let (qa, qb) = rc_pair(&a, b);
    let (from, to) = (a.buffer(8192), b.buffer(8192));
    from.write(0, &pattern(4096, 3));
    for id in 0..4 {
        b.recv(qb, id, &[to.sge(4096, 2048)]);
    }
    let (va, rkey) = (to.addr(), to.mr.rkey);
    a.send(qa, 1, SendOp::Send, &[from.sge(0, 2000)]);
    a.send(qa, 2, SendOp::Write { va, rkey }, &[from.sge(0, 4000)]);
    a.send(qa, 3, SendOp::Read { va, rkey }, &[from.sge(4096, 3000)]);
    a.send(qa, 4, SendOp::FetchAdd { va, rkey, add: 1 }, &[from.sge(0, 8)]);
    assert_ok(&collect(&[(&a, 4), (b, 1)]).concat());
    settle(&[&a, b]);
    to.write(0, &[0x77; 8192]);
    (qb, to, received(file, path))
}

/// A recording of a connection does nothing when it is played again, neither to the queue pair that it was made
/// with nor to the device once that queue pair is gone. Other PSNs: r91_reset_forgets_everything of transport.
#[test]
fn a36_a_recorded_conversation_changes_nothing_when_it_is_played_again() {
    let fabric = LoopbackFabric::new();
    let path = std::env::temp_dir().join(format!("uroce-a36-{}.pcapng", std::process::id()));
    let file = PcapFile::create(&path).expect("writable");
    let node = Node::open(DeviceConfig {
        progress_thread: false,
        pcap: Some(file.clone()),
        ..DeviceConfig::loopback(ip(2), &fabric)
    });
    let (qpn, target, packets) = recorded_conversation(&fabric, &node, &file, &path);
    std::fs::remove_file(&path).expect("removed");
    assert!(packets.len() >= 8, "all requests: {} packets", packets.len());
    let mut attacker = Attacker::new(&fabric, PEER);
    let mut play = |node: &Node| {
        for (src, bytes) in &packets {
            assert_eq!(src.ip(), ip(PEER));
            attacker.inject_from(*src, ip(2), bytes);
        }
        attacker.deliver(node);
        attacker.replies().0
    };
    let executed = |node: &Node| ["rdma_sends", "rdma_recvs"].map(|name| node.counter(name));
    let before = executed(&node);
    let answers = play(&node);
    assert!(
        answers <= packets.len() + 3,
        "{answers}: duplicates are acknowledged, a READ has 3 packets"
    );
    assert!(node.poll().is_empty());
    assert_eq!(target.bytes(0, 8192), [0x77; 8192]);
    assert_eq!((executed(&node), node.state(qpn)), (before, QpState::Rts));

    node.device.destroy_qp(qpn).expect("destroyed");
    let unknown = dropped(&node, DropReason::UnknownQpn);
    assert_eq!(play(&node), 0, "nobody is answered");
    assert_eq!(dropped(&node, DropReason::UnknownQpn), unknown + packets.len() as u64);
}

/// Wrong numbers, wrong sources, wrong ICRCs, malformed packets and MADs: they are counted, not written about.
#[test]
fn a37_a_flood_of_bad_packets_says_nothing_in_the_log() {
    const ROUNDS: u32 = 2_000;
    let fabric = LoopbackFabric::new();
    let (target, qpn) = victim(&fabric);
    let mut attacker = Attacker::new(&fabric, 66);
    let before = drops(&target);
    let lines = lines_of(|| {
        for round in 0..ROUNDS {
            let forged = |opcode: u8, qpn: u32| Forged::new(opcode, qpn, round).bytes(64);
            attacker.inject(ip(66), target.device.address(), forged(0x04, 0x77_0000 + round));
            attacker.inject(ip(67), target.device.address(), forged(0x04, qpn.get()));
            attacker.inject_raw(ip(66), target.device.address(), &forged(0x04, qpn.get()));
            attacker.inject_raw(ip(66), target.device.address(), &forged(round as u8, 1)[..19]);
            attacker.inject(ip(66), target.device.address(), Forged::new(0x64, 1, 0).bytes(200));
            attacker.deliver(&target);
        }
    });
    assert!(drops(&target) - before >= u64::from(ROUNDS) * 5);
    assert_eq!(lines, 0);
}
