//! A process that stands still, and another one on its address (docs/adr/013-in-flight.md).

mod common;
#[path = "common/forge.rs"]
mod forge;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use common::{Buffer, Node, assert_ok, ip};
use forge::{Attacker, Forged};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::limits::IN_FLIGHT_BYTES;
use uroce_device::transport::{QpType, SendOp};
use uroce_device::wire::{Mtu, Qpn};
use uroce_device::{DeviceConfig, VirtualClock};

/// A local ACK timeout of 4.3 s.
const TIMEOUT: u8 = 20;
/// Far less than the timeout, far more than the probes of a silent peer take.
const BOUND: Duration = Duration::from_secs(1);
/// What a poll iteration takes.
const STEP: Duration = Duration::from_micros(50);
/// Queue pairs with requests to the process that stands still, and what each of them has posted.
const QPS: usize = 6;
const LENGTH: u32 = 4 << 20;

fn on(last: u8, clock: &VirtualClock) -> Node {
    let address = IpAddr::V4(Ipv4Addr::new(127, 91, 17, last));
    let clock = Some(clock.clone());
    Node::open(DeviceConfig { progress_thread: false, clock, ..DeviceConfig::new(address) })
}

fn connect(a: &Node, b: &Node) -> (Qpn, Qpn) {
    let (here, there) = (a.qp(QpType::Rc), b.qp(QpType::Rc));
    a.connect_with(here, b.device.address(), there, Mtu::M1024, TIMEOUT);
    b.connect_with(there, a.device.address(), here, Mtu::M1024, TIMEOUT);
    (here, there)
}

fn write(a: &Node, qpn: Qpn, length: u32, from: &Buffer, to: &Buffer) {
    let op = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    a.send(qpn, u64::from(length), op, &[from.sge(0, length)]);
}

/// How long the request takes that was posted last.
fn wait_for(a: &Node, peer: &Node, clock: &VirtualClock) -> Duration {
    let start = clock.now();
    loop {
        a.device.drive();
        peer.device.drive();
        let done = a.poll();
        assert_ok(&done);
        if !done.is_empty() {
            return clock.now() - start;
        }
        clock.advance(STEP);
        assert!(clock.now() - start < Duration::from_secs(20), "it does not come to its end");
    }
}

#[test]
fn r154_a_process_that_stands_still_holds_up_nobody_else_on_its_address() {
    let clock = VirtualClock::new();
    let (a, live, stopped) = (on(1, &clock), on(2, &clock), on(2, &clock));
    let from = a.buffer(LENGTH as usize);
    let (to_live, to_stopped) = (live.buffer(64), stopped.buffer(LENGTH as usize));
    let (to_the_live, _) = connect(&a, &live);
    let qps: Vec<Qpn> = (0..QPS).map(|_| connect(&a, &stopped).0).collect();
    // The round trips are known, and the windows open.
    for &qpn in &qps {
        write(&a, qpn, 1 << 20, &from, &to_stopped);
        wait_for(&a, &stopped, &clock);
    }
    write(&a, to_the_live, 64, &from, &to_live);
    wait_for(&a, &live, &clock);
    // Nobody drives `stopped` from here on.
    qps.iter().for_each(|&qpn| write(&a, qpn, LENGTH, &from, &to_stopped));
    (0..20).for_each(|_| {
        a.device.drive();
        clock.advance(STEP);
    });
    let mut worst = Duration::ZERO;
    for _ in 0..50 {
        write(&a, to_the_live, 64, &from, &to_live);
        worst = worst.max(wait_for(&a, &live, &clock));
    }
    println!("worst: {worst:?}");
    assert!(worst < BOUND, "{worst:?}");
    assert_eq!(a.counter("ack_timeout"), 0, "no timeout had to help");
}

/// The limit is used up, and a packet is lost of a queue pair that waits for room to send more.
#[test]
fn r161_what_is_sent_again_does_not_wait_for_room() {
    const LIMIT: usize = (IN_FLIGHT_BYTES / 1024) as usize;
    const FIRST_PSN: u32 = 0x1000;
    /// What a queue pair sends before it hears of its peer.
    const FIRST_WINDOW: usize = 64;
    const ACK: u8 = 0;
    const NAK_SEQUENCE: u8 = 0x60;
    let fabric = LoopbackFabric::new();
    let a = Node::inline(&fabric, 1);
    let mut peer = Attacker::new(&fabric, 2);
    let from = a.buffer(1 << 19);
    let qps: Vec<Qpn> = (0..LIMIT / FIRST_WINDOW).map(|_| a.qp(QpType::Rc)).collect();
    for (index, &qpn) in (0x100..).zip(&qps) {
        // 69 s, of which nothing is waited for.
        a.connect_with(qpn, ip(2), Qpn::new(index), Mtu::M1024, 24);
        let op = SendOp::Write { va: 0x10_0000, rkey: from.mr.rkey };
        a.send(qpn, 0, op, &[from.sge(0, 1 << 19)]);
    }
    common::settle(&[&a]);
    assert_eq!(peer.received().len(), LIMIT, "each has sent its first window");
    // The window grows, but there is room for what was acknowledged only.
    answer(&mut peer, &a, qps[0], FIRST_PSN + FIRST_WINDOW as u32 - 1, ACK);
    // A slow machine may have sent a probe, too.
    assert!(peer.received().len() >= FIRST_WINDOW);
    answer(&mut peer, &a, qps[0], FIRST_PSN + FIRST_WINDOW as u32, NAK_SEQUENCE);
    let again: Vec<_> = peer.received().iter().map(|packet| packet[5..12].to_vec()).collect();
    // AckReq, and the bit that asks for gap lists.
    let oldest = [0, 1, 0, 0xc0, 0, 0x10, 0x40];
    assert!(again.iter().any(|head| *head == oldest), "{again:?}");
    assert!(again.iter().all(|head| head[..3] == oldest[..3]), "and nobody else: {again:?}");
}

fn answer(peer: &mut Attacker, to: &Node, qpn: Qpn, psn: u32, syndrome: u8) {
    let mut bytes = Forged::new(0x11, qpn.get(), psn).bytes(20);
    bytes[8] = 0;
    bytes[12..16].copy_from_slice(&[syndrome, 0, 0, 0]);
    peer.inject(ip(2), ip(1), bytes);
    peer.deliver(to);
    common::settle(&[to]);
}
