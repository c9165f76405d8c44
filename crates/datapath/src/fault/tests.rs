use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use uroce_fault::{Direction, FaultInjector, PacketMeta, Plan};
use uroce_wire::{DropReason, Flow, icrc, verify};

use super::{Arrivals, FaultCounters, FaultDatapath, flow as flow_of, monotonic};
use crate::{Datapath, Fate, IpId, LoopbackDatapath, LoopbackFabric, PcapTap, Route, RxPacket};

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

/// What becomes of a packet that arrives, where the device drops the packets that come to it as `drops` says.
fn fate(rules: &str, drops: &[Option<DropReason>]) -> Fate {
    let plan: Plan = rules.parse().expect("rules");
    let mut injector = FaultInjector::new(&plan, 7);
    let mut arrivals = Arrivals { injector: &mut injector, now: Duration::ZERO };
    let mut payload = [0; LENGTH];
    (payload[0], payload[2], payload[3], payload[7]) = (WRITE_ONLY, 0xff, 0xff, 17);
    let fate = RefCell::default();
    let packet = RxPacket {
        src: at(2),
        dst: at(1),
        traffic_class: 0,
        hop_limit: 63,
        ip_id: IpId::Known(9),
        icrc_checked: false,
        following: None,
        fate: Some(&fate),
        payload: &payload,
    };
    let meta = PacketMeta {
        direction: Direction::Rx,
        flow: flow_of(at(2), at(1)),
        ip_id: 9,
        traffic_class: 0,
        tag: 63,
    };
    let mut drops = drops.iter();
    arrivals.handle(&meta, &packet, &mut |packet| {
        let reason = *drops.next().expect("no more packets");
        if let (Some(reason), Some(fate)) = (reason, packet.fate) {
            fate.replace(Fate::Dropped(reason));
        }
    });
    assert_eq!(drops.next(), None, "{rules}: all came");
    fate.into_inner()
}

#[test]
fn a_capture_tells_of_each_packet_what_became_of_itself() {
    const WHY: DropReason = DropReason::BadIcrc;
    let faulted = |rules: &str, drops: &[_]| match fate(rules, drops) {
        Fate::Faulted { what, drop } => {
            assert!(what.starts_with("fault: "), "{what}");
            drop
        }
        other => panic!("{rules}: {other:?}"),
    };
    assert_eq!(faulted("rx -> dup", &[None, Some(WHY)]), None, "the copy was dropped");
    assert_eq!(faulted("rx -> dup", &[Some(WHY), None]), Some(WHY), "the packet was");
    assert_eq!(faulted("rx -> corrupt=payload", &[Some(WHY)]), Some(WHY));
    assert_eq!(faulted("rx -> corrupt=payload, dup", &[None, Some(WHY)]), None);
    assert_eq!(fate("rx -> corrupt=payload quiet", &[Some(WHY)]), Fate::Dropped(WHY));
    assert_eq!(fate("rx -> dup quiet", &[None, None]), Fate::Taken);
}

#[test]
fn what_is_sent_keeps_its_comments_whatever_a_rule_does_to_it() {
    let path = std::env::temp_dir().join(format!("live-held-{}.pcapng", std::process::id()));
    let fabric = LoopbackFabric::new();
    let plan: Plan = "tx -> hold=1 count=1; tx -> dup count=1".parse().expect("rules");
    let tap =
        PcapTap::create(Box::new(fabric.attach(at(1)).expect("free")), &path).expect("a file");
    let recorder = tap.writer().clone();
    let counters = Arc::new(FaultCounters::new(&plan));
    let mut near = FaultDatapath::new(tap, &plan, 7, counters).recording(recorder);
    for psn in 0..3 {
        assert!(Datapath::tx_space(&mut near).is_some());
        Datapath::tx_comment(&mut near, &format!("retransmission: number {psn}"));
        send(&mut near, at(2), psn);
    }
    Datapath::flush(&mut near).expect("taken");
    drop(near);
    let bytes = std::fs::read(&path).expect("written");
    let _ = std::fs::remove_file(&path);
    let text = String::from_utf8_lossy(&bytes);
    for said in ["number 0", "number 1", "number 2", "fault: "] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.matches("fault: ").count() >= 3, "held, doubled, and the copy: {text}");
}
