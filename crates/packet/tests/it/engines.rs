//! Several engines of one process on the packet sockets of one address.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_datapath::{
    ChannelDatapath, Datapath, IpId, RedirectTarget, Route, RxPacket, SharedPort,
};
use uroce_packet::{PacketConfig, PacketDatapath};
use uroce_testkit::namespace::{Namespace, Wire};
use uroce_wire::{Flow, ROCE_PORT, Slot, icrc, verify};

/// The engines at the far end.
const ENGINES: u8 = 3;
/// Addresses of the sender and of the engines, and a group that they can join.
const ENDS: [(&str, &str, &str); 2] =
    [("10.77.0.1", "10.77.0.2", "239.1.2.3"), ("fd77::1", "fd77::2", "ff12::1234")];
/// Behind the QPN: who a packet to QP 1 is for.
const NAMED: usize = 8;
const SIZE: usize = 200;

/// QP 1 packets of these tests name their addressee in plain.
fn addressee(rx: &RxPacket<'_>) -> RedirectTarget {
    match rx.payload.get(NAMED..NAMED + 2) {
        Some(&[b's', number]) => {
            Slot::new(number).map_or(RedirectTarget::Here, RedirectTarget::Slot)
        }
        Some(&[b'c', service]) => RedirectTarget::Service(service.into()),
        Some(b"**") => RedirectTarget::Everyone,
        _ => RedirectTarget::Here,
    }
}

fn addr(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("address"), ROCE_PORT)
}

type Engines = Vec<ChannelDatapath<PacketDatapath>>;

fn open(namespace: &Namespace, ip: &str) -> Engines {
    let config = PacketConfig::new(addr(ip));
    let engines = NonZeroU8::new(ENGINES).expect("not 0");
    namespace.run(move || {
        let all = PacketDatapath::open_several(&config, engines).expect("open");
        ChannelDatapath::connect(all, addressee).expect("descriptors")
    })
}

struct Sender {
    path: PacketDatapath,
    route: Route,
}

impl Sender {
    fn new(wire: &Wire, from: &str, to: &str) -> Self {
        let config = PacketConfig::new(addr(from));
        let mut path = wire.a.run(move || PacketDatapath::open(&config).expect("open"));
        let src = SocketAddr::new(path.local().ip(), path.source_port(0xD234));
        let route = Route { src, dst: addr(to), hop_limit: 64, traffic_class: 0 };
        Self { path, route }
    }

    /// Sends packets to these QPNs in one burst, of one size and with right ICRCs: they travel as one. Each has
    /// its place in the burst behind the QPN, and `named` there.
    fn send(&mut self, qpns: &[[u8; 3]], named: [u8; 2]) {
        let Route { src, dst, .. } = self.route;
        let flow =
            Flow { src: src.ip(), dst: dst.ip(), src_port: src.port(), dst_port: dst.port() };
        for (number, qpn) in (0u8..).zip(qpns) {
            let space = &mut self.path.tx_space().expect("room")[..SIZE];
            space.fill(number);
            space[Slot::OFFSET..NAMED].copy_from_slice(qpn);
            space[NAMED..NAMED + 2].copy_from_slice(&named);
            self.path.tx_commit(&self.route, SIZE, &mut |id, packet| {
                let (covered, trailer) = packet.split_last_chunk_mut::<4>().expect("long enough");
                *trailer = icrc(&flow, id, covered).to_le_bytes();
            });
        }
        let flush = self.path.flush().expect("flush");
        assert_eq!(flush.sent, qpns.len(), "{:?}", self.path.last_problem());
    }
}

/// The numbers of the packets that each engine gets until there are `count`, with a word to each about its
/// headers; and a moment longer.
fn take(engines: &mut Engines, count: usize) -> Vec<Vec<u8>> {
    let mut got = vec![Vec::new(); engines.len()];
    let mut end = Instant::now() + Duration::from_secs(5);
    let mut complete = false;
    while Instant::now() < end {
        for (engine, got) in engines.iter_mut().zip(&mut got) {
            // A limit that no burst is a multiple of.
            let each = engine.recv(7, &mut |rx| {
                let id = if let IpId::Known(id) = rx.ip_id { id } else { 0 };
                let (src, dst) = (rx.src, rx.dst);
                let (src_port, dst_port) = (src.port(), dst.port());
                let flow = Flow { src: src.ip(), dst: dst.ip(), src_port, dst_port };
                assert!(verify(&flow, id, rx.payload) && rx.hop_limit == 64, "{rx:?}");
                got.push(rx.payload[NAMED + 2]);
            });
            each.expect("receive");
        }
        if !complete && got.iter().map(Vec::len).sum::<usize>() >= count {
            (complete, end) = (true, Instant::now() + Duration::from_millis(20));
        }
    }
    got
}

#[test]
fn the_kernel_gives_each_engine_the_packets_of_its_slot() {
    for (from, to, _) in ENDS {
        let Some(wire) = Wire::new(1500) else { return };
        let mut engines = open(&wire.b, to);
        let slots: Vec<_> = engines.iter().map(|engine| engine.slot().get()).collect();
        assert_eq!(slots, [1, 2, 3]);
        let mut sender = Sender::new(&wire, from, to);
        for slot in [1, 2, 3, 3, 2, 1] {
            sender.send(&[[slot, 0, 9]; 20], [0; 2]);
            let got = take(&mut engines, 20);
            for (engine, got) in (1..).zip(&got) {
                let expected = if engine == slot { 20 } else { 0 };
                assert_eq!(got.len(), expected, "slot {slot}, engine {engine}");
            }
        }
        // What names no engine stays with the first.
        sender.send(&[[0, 0, 1], [4, 0, 0], [254, 1, 1]], [0; 2]);
        assert_eq!(take(&mut engines, 3), [vec![0, 1, 2], vec![], vec![]]);
        for (engine, packets) in engines.iter().zip([43, 40, 40]) {
            let stats = engine.stats();
            assert_eq!((stats.rx_packets, stats.rx_forwarded, stats.rx_adopted), (packets, 0, 0));
            assert_eq!((stats.rx_dropped, stats.rx_unforwarded), (0, 0));
        }
    }
}

#[test]
fn packets_that_arrive_as_one_reach_each_of_their_engines_in_order() {
    for (from, to, _) in ENDS {
        let Some(wire) = Wire::new(1500) else { return };
        let mut engines = open(&wire.b, to);
        let mut sender = Sender::new(&wire, from, to);
        for first in 0..ENGINES {
            let slot = |n: u8| (first + n) % ENGINES + 1;
            let qpns: Vec<_> = (0..60).map(|n| [slot(n), 0, 5]).collect();
            sender.send(&qpns, [0; 2]);
            let got = take(&mut engines, 60);
            for (engine, got) in (1..).zip(&got) {
                let expected: Vec<u8> = (0..60).filter(|&n| slot(n) == engine).collect();
                assert_eq!(*got, expected, "to engine {engine}, first to {first}");
            }
        }
        let stats: Vec<_> = engines.iter().map(|engine| engine.stats()).collect();
        for stats in stats {
            assert_eq!((stats.rx_packets, stats.rx_forwarded, stats.rx_adopted), (60, 40, 40));
            assert_eq!(stats.rx_bytes, 60 * SIZE as u64);
        }
    }
}

#[test]
fn a_packet_to_qp_1_finds_the_engine_that_it_names() {
    let Some(wire) = Wire::new(1500) else { return };
    let (from, to, _) = ENDS[0];
    let mut engines = open(&wire.b, to);
    let mut sender = Sender::new(&wire, from, to);
    engines[2].claim_service(7).expect("free");
    engines[2].claim_service(7).expect("ours");
    engines[1].claim_service(7).expect_err("taken");
    engines[1].release_service(7);
    let mut lengths = |named: [u8; 2], count| {
        sender.send(&[[0, 0, 1]], named);
        take(&mut engines, count).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(lengths([b's', 2], 1), [0, 1, 0]);
    assert_eq!(lengths([b's', 1], 1), [1, 0, 0]);
    assert_eq!(lengths([b's', 9], 1), [1, 0, 0], "no engine has that slot");
    assert_eq!(lengths([b'c', 7], 1), [0, 0, 1]);
    assert_eq!(lengths([b'c', 8], 1), [1, 0, 0], "no engine takes calls to it");
    assert_eq!(lengths(*b"**", 3), [1, 1, 1]);
    engines[2].release_service(7);
    engines[1].claim_service(7).expect("free again");
}

#[test]
fn each_member_of_a_group_hears_it_once_until_it_leaves() {
    for (from, to, group) in ENDS {
        let Some(wire) = Wire::new(1500) else { return };
        let mut engines = open(&wire.b, to);
        let mut sender = Sender::new(&wire, from, group);
        let group: IpAddr = group.parse().expect("group");
        let mut check = |engines: &mut Engines, members: [usize; 3]| {
            sender.send(&[[0xff; 3]; 5], [0; 2]);
            let got = take(engines, 5 * members.iter().sum::<usize>());
            assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), members.map(|n| 5 * n));
        };
        engines[0].join(addr(to).ip()).expect_err("no group");
        engines[1].join(group).expect("joined");
        check(&mut engines, [0, 1, 0]);
        engines[2].join(group).expect("joined");
        engines[2].join(group).expect("a second time");
        check(&mut engines, [0, 1, 1]);
        engines[0].join(group).expect("joined");
        check(&mut engines, [1, 1, 1]);
        engines[1].leave(group).expect("left");
        check(&mut engines, [1, 0, 1]);
        engines[0].leave(group).expect("left");
        // The last one leaves what another one joined first.
        engines[2].leave(group).expect("left");
        check(&mut engines, [0, 0, 0]);
        assert!(!wire.b.sh("ip maddr show dev wb").contains(&group.to_string()));
    }
}

#[test]
fn an_engine_that_sleeps_is_woken_by_what_another_one_got() {
    let Some(wire) = Wire::new(1500) else { return };
    let (from, to, _) = ENDS[0];
    let mut engines = open(&wire.b, to);
    let mut sender = Sender::new(&wire, from, to);
    let waiter = engines[2].waiter().expect("a descriptor");
    let readable = |patience: i64| {
        let wait = Timespec { tv_sec: 0, tv_nsec: patience };
        poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&wait)).expect("poll") == 1
    };
    for _ in 0..3 {
        assert!(!engines[2].arm() && !readable(1_000_000));
        sender.send(&[[1, 0, 9], [3, 0, 9]], [0; 2]);
        let end = Instant::now() + Duration::from_secs(5);
        while engines[0].recv(64, &mut |_| ()).expect("receive") == 0 {
            assert!(Instant::now() < end, "it never arrives");
        }
        assert!(readable(900_000_000));
        assert!(engines[2].arm(), "no time to sleep");
        assert_eq!(take(&mut engines, 1)[2], [1]);
    }
}

/// Packets of a message are written behind each other, as by one engine alone.
#[test]
fn engines_offer_room_for_as_many_packets_as_their_datapath() {
    let Some(wire) = Wire::new(1500) else { return };
    for engine in open(&wire.b, ENDS[0].1) {
        assert!(engine.tx_packets() > 1);
    }
}
