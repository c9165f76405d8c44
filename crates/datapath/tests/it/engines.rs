//! Several engines of a process, each with an address of a switch in memory.

use std::net::{IpAddr, SocketAddr};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_datapath::{
    ChannelDatapath, Datapath, LoopbackDatapath, LoopbackFabric, RedirectTarget, Route, RxPacket,
};
use uroce_wire::Slot;

/// Behind the QPN: who a packet to QP 1 is for.
const NAMED: usize = 8;

type Engine = ChannelDatapath<LoopbackDatapath>;

fn addr(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4791))
}

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

/// So many engines at 10.0.0.1 and up, and somebody who sends to them.
fn engines(count: u8) -> (Vec<Engine>, LoopbackDatapath) {
    let fabric = LoopbackFabric::new();
    let inners = (1..=count).map(|last| fabric.attach(addr(last)).expect("free")).collect();
    let engines = ChannelDatapath::connect(inners, addressee).expect("descriptors");
    (engines, fabric.attach(addr(200)).expect("free"))
}

fn send(from: &mut LoopbackDatapath, dst: SocketAddr, bytes: &[u8]) {
    from.tx_space().expect("room")[..bytes.len()].copy_from_slice(bytes);
    let route = Route { src: addr(200), dst, hop_limit: 64, traffic_class: 0 };
    from.tx_commit(&route, bytes.len(), &mut |_, _| ());
    assert_eq!(from.flush().expect("flush").sent, 1);
}

/// A packet to a queue pair of that slot, with `named` behind the number.
fn to_slot(slot: u8, low: u8, named: &[u8]) -> Vec<u8> {
    [&[0; Slot::OFFSET][..], &[slot, 0, low], named].concat()
}

fn received(engine: &mut Engine) -> usize {
    let mut count = 0;
    engine.recv(100, &mut |_| count += 1).expect("recv");
    count
}

/// What each engine has, once all have looked twice.
fn all(engines: &mut [Engine]) -> Vec<usize> {
    let mut counts = vec![0; engines.len()];
    for _ in 0..2 {
        for (engine, count) in engines.iter_mut().zip(&mut counts) {
            *count += received(engine);
            engine.arm();
        }
    }
    counts
}

#[test]
fn there_are_64_engines_at_most_and_each_has_its_slot() {
    let (engines, _) = engines(64);
    for (number, mut engine) in (1..).zip(engines) {
        assert_eq!(engine.shared_port().expect("shared").slot().get(), number);
    }
    let fabric = LoopbackFabric::new();
    let inners: Vec<_> = (1..=65).map(|last| fabric.attach(addr(last)).expect("free")).collect();
    let error = ChannelDatapath::connect(inners, addressee).map(drop).expect_err("too many");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn a_packet_goes_where_its_slot_says_wherever_it_arrived() {
    let (mut engines, mut from) = engines(3);
    for arrives in 1..=3 {
        for slot in 1..=3u8 {
            send(&mut from, addr(arrives), &to_slot(slot, 9, &[]));
            let expected: Vec<_> = (1..=3).map(|engine| usize::from(engine == slot)).collect();
            assert_eq!(all(&mut engines), expected, "slot {slot} by engine {arrives}");
        }
    }
    for (n, engine) in engines.iter().enumerate() {
        let stats = engine.stats();
        assert_eq!((stats.rx_packets, stats.rx_adopted, stats.rx_forwarded), (3, 2, 2), "{n}");
        assert_eq!((stats.rx_bytes, stats.rx_dropped, stats.rx_unforwarded), (24, 0, 0));
    }
}

#[test]
fn what_names_no_engine_stays_where_it_arrived() {
    let (mut engines, mut from) = engines(2);
    let short: &[u8] = &[0; Slot::OFFSET];
    for bytes in [to_slot(0, 9, &[]), to_slot(3, 9, &[]), to_slot(255, 9, &[]), short.to_vec()] {
        send(&mut from, addr(2), &bytes);
        assert_eq!(all(&mut engines), [0, 1], "{bytes:?}");
    }
    let cut = [&[0; Slot::OFFSET][..], &[1, 0]].concat();
    send(&mut from, addr(2), &cut);
    assert_eq!(all(&mut engines), [0, 1], "a number that is cut");
    assert_eq!(engines[1].stats().rx_forwarded, 0);
}

#[test]
fn a_packet_to_qp_1_goes_to_whom_it_names() {
    let (mut engines, mut from) = engines(3);
    engines[2].shared_port().expect("shared").claim_service(7).expect("free");
    let mut named = |named: &[u8], expected: [usize; 3]| {
        send(&mut from, addr(1), &to_slot(0, 1, named));
        assert_eq!(all(&mut engines), expected, "{named:?}");
    };
    named(&[b's', 2], [0, 1, 0]);
    named(&[b's', 9], [1, 0, 0]);
    named(&[b'c', 7], [0, 0, 1]);
    named(&[b'c', 8], [1, 0, 0]);
    named(b"**", [1, 1, 1]);
    named(b"", [1, 0, 0]);
}

#[test]
fn a_service_has_one_owner_until_that_one_releases_it() {
    let (mut engines, _) = engines(2);
    let [one, two] = &mut engines[..] else { panic!("two") };
    let (one, two) = (one.shared_port().expect("shared"), two.shared_port().expect("shared"));
    one.claim_service(7).expect("free");
    one.claim_service(7).expect("ours already");
    let error = two.claim_service(7).expect_err("taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    two.release_service(7);
    two.claim_service(7).expect_err("it was not theirs to release");
    two.claim_service(8).expect("another one");
    one.release_service(7);
    two.claim_service(7).expect("free again");
}

#[test]
fn a_group_reaches_its_members_and_is_counted_when_there_is_none() {
    let (mut engines, mut from) = engines(3);
    let group = SocketAddr::from(([239, 1, 2, 3], 4791));
    let error = engines[0].join(addr(9).ip()).expect_err("no group");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    let ip: IpAddr = group.ip();
    engines[0].join(ip).expect("joined");
    engines[2].join(ip).expect("joined");
    send(&mut from, group, b"x");
    assert_eq!(all(&mut engines), [1, 0, 1], "by the first member, to all of them");
    engines[0].leave(ip).expect("left");
    send(&mut from, group, b"x");
    assert_eq!(all(&mut engines), [0, 0, 1], "the first one's datapath still hears it");
    engines[2].leave(ip).expect("left");
    send(&mut from, group, b"x");
    // The switch still has the first as a member: another one has left in its place.
    assert_eq!(all(&mut engines), [0, 0, 0]);
    assert_eq!(engines[0].stats().rx_dropped, 1);
}

#[test]
fn half_of_the_limit_is_left_for_what_the_engine_receives_itself() {
    let (mut engines, mut from) = engines(2);
    for _ in 0..10 {
        send(&mut from, addr(1), &to_slot(2, 0, b"other"));
        send(&mut from, addr(2), &to_slot(2, 0, b"own"));
    }
    assert_eq!(received(&mut engines[0]), 0);
    engines[0].arm();
    let mut got = vec![];
    let count = engines[1].recv(6, &mut |rx| got.push(rx.payload[8..].to_vec()));
    assert_eq!(count.expect("recv"), 6);
    assert_eq!(got.iter().filter(|bytes| *bytes == b"other").count(), 3);
    let count = engines[1].recv(100, &mut |rx| got.push(rx.payload[8..].to_vec()));
    assert_eq!(count.expect("recv"), 14);
    assert_eq!(got.iter().filter(|bytes| *bytes == b"own").count(), 10);
}

#[test]
fn a_sleeper_is_woken_by_what_another_one_received() {
    let (mut engines, mut from) = engines(2);
    let waiter = engines[1].waiter().expect("a descriptor");
    let readable = || {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&now)).expect("poll") == 1
    };
    for _ in 0..3 {
        assert!(!engines[1].arm() && !readable());
        send(&mut from, addr(1), &to_slot(2, 0, &[]));
        assert!(!readable(), "nobody has looked at it yet");
        assert_eq!(received(&mut engines[0]), 0);
        assert!(readable() && engines[1].arm());
        assert_eq!(received(&mut engines[1]), 1);
    }
}

#[test]
fn what_is_for_an_engine_that_has_ended_is_dropped_and_counted() {
    let (mut engines, mut from) = engines(2);
    drop(engines.pop());
    for _ in 0..3 {
        send(&mut from, addr(1), &to_slot(2, 0, &[]));
    }
    assert_eq!(all(&mut engines), [0]);
    let stats = engines[0].stats();
    assert_eq!((stats.rx_unforwarded, stats.rx_forwarded, stats.rx_packets), (3, 0, 0));
}

/// As between processes: any sender can cause such packets, and each is work for all engines.
#[test]
fn a41_packets_for_all_engines_are_rare() {
    let (mut engines, mut from) = engines(8);
    let begin = std::time::Instant::now();
    for _ in 0..100 {
        send(&mut from, addr(1), &to_slot(0, 1, b"**"));
        received(&mut engines[0]);
    }
    let tenths = begin.elapsed().as_millis() as u64 / 100 + 2;
    let stats = engines[0].stats();
    let copies = stats.rx_forwarded + stats.rx_unforwarded;
    assert!((7..=7 * 2 * tenths).contains(&copies), "{copies} in {tenths}");
    assert_eq!(stats.rx_packets, 100, "each is for the one that it came to as well");
}
