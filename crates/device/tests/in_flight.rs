//! What all queue pairs together have on the way to one destination (docs/adr/013-in-flight.md).

mod common;

use std::time::Duration;

use common::{Buffer, Node, ip, settle};
use uroce_device::VirtualClock;
use uroce_device::datapath::LoopbackFabric;
use uroce_device::limits::IN_FLIGHT_BYTES;
use uroce_device::transport::{QpAttr, QpAttrMask as M, QpState, QpType, SendOp};
use uroce_device::wire::{Mtu, Qpn};

/// What one queue pair sends before it hears of its peer: its first window.
const FIRST_WINDOW: u64 = 64;
/// Packets that may be on their way.
const LIMIT: u64 = IN_FLIGHT_BYTES / 1024;
/// A local ACK timeout of 69 s, which is not waited for, nor is a tail probe.
const PATIENT: u8 = 24;
/// As many queue pairs as the limit has room for.
const FULL: usize = (LIMIT / FIRST_WINDOW) as usize;

/// `a` writes to the memory of `b`, by many queue pairs.
struct Crowd {
    a: Node,
    b: Node,
    clock: VirtualClock,
    from: Buffer,
    to: Buffer,
    qps: Vec<(Qpn, Qpn)>,
}

impl Crowd {
    fn new(count: usize) -> Crowd {
        let fabric = LoopbackFabric::new();
        let clock = VirtualClock::new();
        let (a, b) = (Node::on_clock(&fabric, 1, &clock), Node::on_clock(&fabric, 2, &clock));
        let (from, to) = (a.buffer(1 << 20), b.buffer(1 << 20));
        let qps = (0..count).map(|_| (a.qp(QpType::Rc), b.qp(QpType::Rc))).collect();
        let crowd = Crowd { a, b, clock, from, to, qps };
        crowd.connect(PATIENT);
        crowd
    }

    /// With this local ACK timeout.
    fn connect(&self, timeout: u8) {
        for &(here, there) in &self.qps {
            self.a.connect_with(here, ip(2), there, Mtu::M1024, timeout);
            self.b.connect_with(there, ip(1), here, Mtu::M1024, timeout);
        }
    }

    /// Posts a WRITE of `packets` full packets on queue pair number `index`, which is its cookie.
    fn write(&self, index: usize, packets: u64) {
        let op = SendOp::Write { va: self.to.addr(), rkey: self.to.mr.rkey };
        let sge = self.from.sge(0, packets as u32 * 1024);
        self.a.send(self.qps[index].0, index as u64, op, &[sge]);
    }

    /// Lets `a` send what it may while `b` is silent.
    fn send(&self) -> u64 {
        (0..20).for_each(|_| {
            self.a.device.drive();
        });
        self.a.counter("datapath_tx_packets")
    }

    /// Both work, a turn each; the queue pairs whose requests have completed.
    fn round(&self) -> Vec<usize> {
        self.a.device.drive();
        self.b.device.drive();
        let done = self.a.poll();
        common::assert_ok(&done);
        done.iter().map(|wc| wc.wr_id as usize).collect()
    }

    fn enter(&self, index: usize, state: QpState) {
        self.a.step(self.qps[index].0, &QpAttr::default(), state, M::empty());
    }
}

#[test]
fn ten_times_as_many_queue_pairs_have_no_more_in_flight() {
    let crowd = Crowd::new(10 * FULL);
    (0..10 * FULL).for_each(|index| crowd.write(index, 2 * FIRST_WINDOW));
    assert_eq!(crowd.send(), LIMIT);
}

#[test]
fn another_destination_has_a_limit_of_its_own() {
    let fabric = LoopbackFabric::new();
    let nodes = [1, 2, 3].map(|last| Node::inline(&fabric, last));
    let [a, b, c] = &nodes;
    let from = a.buffer(1 << 20);
    for peer in [b, c] {
        let to = peer.buffer(1 << 20);
        for _ in 0..FULL + 1 {
            let op = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
            let (here, there) = (a.qp(QpType::Rc), peer.qp(QpType::Rc));
            // On a busy machine the usual timeout would come before the count.
            a.connect_with(here, peer.device.address(), there, Mtu::M1024, PATIENT);
            a.send(here, 0, op, &[from.sge(0, 1 << 17)]);
        }
    }
    (0..20).for_each(|_| {
        a.device.drive();
    });
    assert_eq!(a.counter("datapath_tx_packets"), 2 * LIMIT);
}

#[test]
fn what_a_queue_pair_had_in_flight_is_for_others_when_it_ends() {
    type End = fn(&Crowd);
    let ends: [End; 3] = [
        |crowd| crowd.a.device.destroy_qp(crowd.qps[0].0).expect("it exists"),
        |crowd| crowd.enter(0, QpState::Reset),
        |crowd| crowd.enter(0, QpState::Err),
    ];
    for end in ends {
        let crowd = Crowd::new(FULL + 2);
        (0..FULL + 2).for_each(|index| crowd.write(index, 2 * FIRST_WINDOW));
        assert_eq!(crowd.send(), LIMIT);
        end(&crowd);
        assert_eq!(crowd.send(), LIMIT + FIRST_WINDOW, "the one that waited longest");
    }
}

#[test]
fn a_queue_pair_that_ends_while_it_waits_holds_nobody_up() {
    let crowd = Crowd::new(FULL + 3);
    (0..FULL + 3).for_each(|index| crowd.write(index, 2 * FIRST_WINDOW));
    crowd.send();
    crowd.a.device.destroy_qp(crowd.qps[FULL].0).expect("it exists");
    crowd.enter(FULL + 1, QpState::Reset);
    crowd.enter(0, QpState::Reset);
    assert_eq!(crowd.send(), LIMIT + FIRST_WINDOW);
}

#[test]
fn a_peer_that_is_silent_for_its_timeout_gives_way() {
    let crowd = Crowd::new(FULL + 1);
    (0..FULL + 1).for_each(|index| crowd.enter(index, QpState::Reset));
    crowd
        .qps
        .iter()
        .for_each(|qp| crowd.b.step(qp.1, &QpAttr::default(), QpState::Reset, M::empty()));
    crowd.connect(13);
    (0..FULL + 1).for_each(|index| crowd.write(index, 2 * FIRST_WINDOW));
    crowd.send();
    crowd.clock.advance(Duration::from_millis(40));
    assert!(crowd.send() > LIMIT && crowd.a.counter("ack_timeout") > 0);
    let last = crowd.qps[FULL].0;
    let (attr, _) = crowd.a.device.query_qp(last).expect("it exists");
    assert!(attr.sq_psn > 0x1000, "it had its turn");
}

#[test]
fn answers_do_not_wait_for_room() {
    let crowd = Crowd::new(FULL + 1);
    (0..FULL + 1).for_each(|index| crowd.write(index, 2 * FIRST_WINDOW));
    assert_eq!(crowd.send(), LIMIT);
    let (here, there) = crowd.qps[FULL];
    crowd.a.recv(here, 1, &[]);
    crowd.b.send(there, 2, SendOp::Send, &[]);
    assert_eq!(crowd.send(), LIMIT + 1, "the ACK, and nothing else");
    let target = crowd.b.buffer(4096);
    let op = SendOp::Read { va: crowd.from.addr(), rkey: crowd.from.mr.rkey };
    crowd.b.send(there, 3, op, &[target.sge(0, 4096)]);
    assert_eq!(crowd.send(), LIMIT + 1 + 4);
}

#[test]
fn everybody_gets_the_same_share() {
    const MESSAGES: usize = 6;
    let crowd = Crowd::new(3 * FULL);
    let count = crowd.qps.len();
    let messages = (0..count * MESSAGES).map(|message| message % count);
    messages.for_each(|index| crowd.write(index, 2 * FIRST_WINDOW));
    let mut done = vec![0; count];
    let mut rounds = 0;
    while done.iter().any(|count| *count < MESSAGES) {
        crowd.round().into_iter().for_each(|index| done[index] += 1);
        let (least, most) = (done.iter().min(), done.iter().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 4), "{done:?}");
        rounds += 1;
        assert!(rounds < 5_000, "somebody was forgotten: {done:?}");
    }
    assert_eq!(crowd.a.counter("ack_timeout"), 0, "no timer had to help");
}

#[test]
fn nobody_is_forgotten_while_others_come_to_their_end() {
    let crowd = Crowd::new(5 * FULL);
    let count = crowd.qps.len();
    (0..count).for_each(|index| crowd.write(index, 3 * FIRST_WINDOW + 7));
    let (mut done, mut gone) = (vec![false; count], vec![false; count]);
    for round in 0..5_000 {
        crowd.a.device.drive();
        if round < count && round % 3 == 0 {
            // Some of them have bytes in flight, some wait, some have just been called.
            let index = (round * 7) % count;
            if !std::mem::replace(&mut gone[index], true) {
                crowd.a.device.destroy_qp(crowd.qps[index].0).expect("it exists");
            }
        }
        crowd.b.device.drive();
        crowd.a.poll().iter().for_each(|wc| done[wc.wr_id as usize] = true);
    }
    assert!(done.iter().zip(&gone).all(|(done, gone)| *done || *gone));
    assert_eq!(crowd.a.counter("ack_timeout"), 0, "no timer had to help");
    settle(&[&crowd.a, &crowd.b]);
}

/// More unreliable queue pairs than take turns in a round have something to send, all the time. One that waits for room has its
/// turn all the same.
#[test]
fn who_waits_is_called_while_many_others_are_ready() {
    const OTHERS: usize = 200;
    let crowd = Crowd::new(FULL + 1);
    (0..=FULL).for_each(|index| crowd.write(index, 2 * FIRST_WINDOW));
    assert_eq!(crowd.send(), LIMIT);
    let op = SendOp::Write { va: crowd.to.addr(), rkey: crowd.to.mr.rkey };
    for _ in 0..OTHERS {
        let (here, there) = (crowd.a.qp(QpType::Uc), crowd.b.qp(QpType::Uc));
        crowd.a.connect_uc(here, ip(2), there);
        crowd.b.connect_uc(there, ip(1), here);
        // A post sends a quarter of a message.
        (0..8).for_each(|_| crowd.a.send(here, u64::MAX, op, &[crowd.from.sge(0, 1 << 20)]));
    }
    let waits =
        || crowd.a.device.query_qp(crowd.qps[FULL].0).expect("it exists").0.sq_psn == 0x1000;
    let mut done = 0;
    while waits() {
        done += crowd.round().len();
        // A quarter has ended with the posts.
        assert!(done < OTHERS * 6, "it waits until few others are left");
    }
}
