use std::net::SocketAddr;
use std::sync::Arc;

use uroce_fault::Plan;
use uroce_wire::{Flow, icrc, verify};

use super::{FaultCounters, FaultDatapath, monotonic};
use crate::{Datapath, LoopbackDatapath, LoopbackFabric, Route};

/// RC WRITE ONLY of 16 bytes for queue pair 17.
const WRITE_ONLY: u8 = 0x0a;
const LENGTH: usize = 12 + 16 + 16 + 4;

fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4791))
}

/// Two ends; the first has faults.
struct Ends {
    near: FaultDatapath<LoopbackDatapath>,
    far: LoopbackDatapath,
    counters: Arc<FaultCounters>,
}

fn ends(rules: &str) -> Ends {
    let fabric = LoopbackFabric::new();
    let plan: Plan = rules.parse().expect("rules");
    let counters = Arc::new(FaultCounters::new(&plan));
    let near = fabric.attach(at(1)).expect("free");
    let near = FaultDatapath::new(near, &plan, 7, Arc::clone(&counters));
    Ends { near, far: fabric.attach(at(2)).expect("free"), counters }
}

/// Sends a WRITE with packet sequence number `psn`.
fn send(from: &mut dyn Datapath, to: SocketAddr, psn: u8) {
    let route = Route { src: from.local(), dst: to, hop_limit: 63, traffic_class: 2 };
    let space = from.tx_space().expect("room");
    space[..LENGTH].fill(0);
    (space[0], space[2], space[3]) = (WRITE_ONLY, 0xff, 0xff);
    (space[7], space[8], space[11]) = (17, 0x80, psn);
    space[12 + 15] = 16;
    from.tx_commit(&route, LENGTH, &mut |id, packet| {
        let (covered, trailer) = packet.split_last_chunk_mut().expect("long enough");
        *trailer = icrc(&flow(route.src, to), id, covered).to_le_bytes();
    });
}

fn flow(src: SocketAddr, dst: SocketAddr) -> Flow {
    Flow { src: src.ip(), dst: dst.ip(), src_port: src.port(), dst_port: dst.port() }
}

/// Sequence numbers of what arrives, and whether its ICRC is right.
fn arrived(at: &mut dyn Datapath) -> Vec<(u8, bool)> {
    let mut all = Vec::new();
    let mut sink = |packet: crate::RxPacket<'_>| {
        let id = packet.ip_id.known_or_zero();
        all.push((packet.payload[11], verify(&flow(packet.src, packet.dst), id, packet.payload)));
        assert_eq!(packet.hop_limit, 63);
    };
    while at.recv(64, &mut sink).expect("readable") > 0 {}
    all
}

impl Ends {
    fn applied(&self) -> Vec<u64> {
        self.counters.rules().iter().map(|rule| rule.applied).collect()
    }

    /// Sends four packets out and returns what arrives.
    fn out(&mut self) -> Vec<(u8, bool)> {
        (0..4).for_each(|psn| send(&mut self.near, at(2), psn));
        self.near.flush().expect("taken");
        arrived(&mut self.far)
    }

    /// Lets four packets come in and returns what arrives.
    fn back(&mut self) -> Vec<(u8, bool)> {
        (0..4).for_each(|psn| send(&mut self.far, at(1), psn));
        self.far.flush().expect("taken");
        arrived(&mut self.near)
    }
}

fn right(psns: &[u8]) -> Vec<(u8, bool)> {
    psns.iter().map(|psn| (*psn, true)).collect()
}

#[test]
fn one_packet_is_lost_on_its_way_out_or_in() {
    let mut ends = ends("tx -> drop skip=1 count=1; rx -> drop skip=2 count=1");
    assert_eq!(ends.out(), right(&[0, 2, 3]));
    assert_eq!(ends.back(), right(&[0, 1, 3]));
    assert_eq!(ends.applied(), [1, 1]);
    assert_eq!(Datapath::stats(&ends.near).rx_dropped, 1);
}

#[test]
fn a_copy_comes_directly_behind_its_original() {
    let mut ends = ends("tx -> dup skip=1 count=1; rx -> dup=2 skip=2 count=1");
    assert_eq!(ends.out(), right(&[0, 1, 1, 2, 3]));
    assert_eq!(ends.back(), right(&[0, 1, 2, 2, 2, 3]));
}

#[test]
fn damage_is_seen_by_the_icrc_and_repaired_on_request() {
    let mut ends = self::ends(
        "tx -> corrupt=payload skip=1 count=1; rx -> corrupt=payload, fix-icrc skip=1 count=1",
    );
    assert_eq!(ends.out(), [(0, true), (1, false), (2, true), (3, true)]);
    assert_eq!(ends.back(), right(&[0, 1, 2, 3]));
}

#[test]
fn a_field_that_is_set_is_under_a_right_icrc() {
    let mut ends = ends("tx -> set:psn=200 skip=1 count=1");
    assert_eq!(ends.out(), right(&[0, 200, 2, 3]));
}

#[test]
fn a_delayed_packet_comes_later_and_the_datapath_says_when() {
    let mut ends = ends("tx -> delay=20ms skip=1 count=1; rx -> delay=20ms skip=1 count=1");
    let began = monotonic();
    assert_eq!(ends.out(), right(&[0, 2, 3]));
    assert_eq!(ends.back(), right(&[0, 2, 3]));
    let mut late = Vec::new();
    while late.len() < 2 {
        let due = Datapath::poll_timeout(&ends.near).expect("something waits");
        assert!(due >= began + 20_000_000);
        std::thread::sleep(std::time::Duration::from_nanos(due.saturating_sub(monotonic())));
        assert!(Datapath::arm(&mut ends.near), "it is due");
        late.extend(arrived(&mut ends.near));
        late.extend(arrived(&mut ends.far));
    }
    assert_eq!(late, right(&[1, 1]));
    assert_eq!(Datapath::poll_timeout(&ends.near), None);
    assert!(!Datapath::arm(&mut ends.near));
}

#[test]
fn a_held_packet_lets_others_pass() {
    let mut ends = ends("tx -> hold=2 skip=1 count=1; rx -> hold=1 skip=1 count=1");
    assert_eq!(ends.out(), right(&[0, 2, 3, 1]));
    assert_eq!(ends.back(), right(&[0, 2, 1, 3]));
}

#[test]
fn trains_are_kept_only_where_no_rule_looks_at_what_is_sent() {
    for (rules, segments) in [("rx -> drop", None), ("any -> drop count=1", Some(1))] {
        let ends = ends(rules);
        let caps = Datapath::caps(&ends.near);
        assert_eq!(caps.segments, segments.unwrap_or(ends.far.caps().segments), "{rules}");
    }
}

#[test]
fn what_a_rule_could_not_do_is_counted_with_the_reason() {
    // Nothing has shown the number of the queue pair that an answer would have to name.
    let mut ends = ends("rx op=write -> drop, answer:cnp");
    assert_eq!(ends.back(), right(&[0, 1, 2, 3]));
    let rule = &ends.counters.rules()[0];
    assert_eq!((rule.matched, rule.applied, rule.not_applied), (4, 0, 4));
    assert!(rule.reason.is_some_and(|reason| reason.to_string().contains("QPN unknown")));
}

#[test]
fn a_rule_of_one_direction_leaves_the_other_alone() {
    let mut ends = ends("rx -> drop");
    assert_eq!(ends.out(), right(&[0, 1, 2, 3]));
    assert_eq!(ends.back(), []);
    assert_eq!(ends.applied(), [4]);
}
