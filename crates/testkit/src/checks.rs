//! What every datapath must do. Each check takes endpoints that can reach each other, by name, and
//! fails with the name of those that do not comply.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_datapath::{Datapath, IpId, Route, RxPacket};
use uroce_wire::Slot;

use crate::allocations::allocations;

/// Three endpoints that can reach each other.
pub type Trio = [Box<dyn Datapath>; 3];

/// Trios with the names of their datapaths.
pub type Trios = Vec<(&'static str, Trio)>;

/// A received packet with its bytes copied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Got {
    src: SocketAddr,
    dst: SocketAddr,
    traffic_class: u8,
    hop_limit: u8,
    ip_id: IpId,
    payload: Vec<u8>,
}

impl From<RxPacket<'_>> for Got {
    fn from(packet: RxPacket<'_>) -> Self {
        let RxPacket { src, dst, traffic_class, hop_limit, ip_id, payload, .. } = packet;
        Self { src, dst, traffic_class, hop_limit, ip_id, payload: payload.to_vec() }
    }
}

fn route(from: &mut dyn Datapath, to: &dyn Datapath) -> Route {
    let port = from.source_port(0xD234);
    let src = SocketAddr::new(from.local().ip(), port);
    Route { src, dst: to.local(), hop_limit: 64, traffic_class: 0 }
}

/// Commits a packet; returns the identification that it shall carry.
fn put(path: &mut dyn Datapath, route: &Route, payload: &[u8]) -> u16 {
    path.tx_space().expect("room")[..payload.len()].copy_from_slice(payload);
    let mut sealed = None;
    path.tx_commit(route, payload.len(), &mut |id, bytes| {
        assert_eq!(bytes, payload);
        assert!(sealed.replace(id).is_none(), "seal is called once");
    });
    let id = sealed.expect("seal is called");
    assert!(id == 0 || route.dst.is_ipv4());
    id
}

/// Receives until `count` packets are there or two seconds have passed.
fn take(path: &mut dyn Datapath, count: usize) -> Vec<Got> {
    let end = Instant::now() + Duration::from_secs(2);
    let mut got = Vec::new();
    while got.len() < count && Instant::now() < end {
        path.recv(64, &mut |packet| got.push(packet.into())).expect("recv");
    }
    got
}

fn readable(path: &dyn Datapath, wait: Duration) -> bool {
    let waiter = path.waiter().expect("waiter");
    let mut fds = [PollFd::new(&waiter, PollFlags::IN)];
    let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
    poll(&mut fds, Some(&wait)).expect("poll") == 1
}

/// Full batches arrive whole and in order, up to the largest packet.
pub fn full_batches_of_many_sizes_arrive_whole_and_in_order(trios: Trios) {
    for (name, [mut a, mut b, _]) in trios {
        let route = route(&mut a, &b);
        // Packets of one size can travel as one; others cannot.
        let sizes = [16usize, 108, 1084, 4156, 4196].into_iter();
        for (base, kinds) in sizes.flat_map(|base| [(base, 1), (base, 3), (base, 40)]) {
            let mut sent = Vec::new();
            let batch = batch(&a, &b);
            while sent.len() < batch && a.tx_space().is_some() {
                let n = sent.len();
                let payload = vec![n as u8; base - n % kinds % 16];
                put(&mut a, &route, &payload);
                sent.push(payload);
            }
            assert!(sent.len() >= batch.min(16), "{name}");
            let flush = a.flush().expect("flush");
            let count = sent.len();
            assert_eq!((flush.sent, flush.dropped, flush.blocked), (count, 0, false), "{name}");
            let got: Vec<_> = take(&mut b, count).into_iter().map(|got| got.payload).collect();
            assert_eq!(got, sent, "{name} {base}");
        }
        let (sent, got) = (a.stats(), b.stats());
        assert_eq!(sent.tx_packets, got.rx_packets, "{name}");
        assert_eq!(sent.tx_bytes, got.rx_bytes, "{name}");
    }
}

/// A full batch, or less when this system grants only a small receive buffer.
fn batch(from: &dyn Datapath, to: &dyn Datapath) -> usize {
    let small = (1..1_000_000).contains(&to.stats().recv_buffer);
    if small { 16 } else { from.caps().tx_batch }
}

/// Hop limit, traffic class, addresses and identification arrive as sent.
pub fn the_header_fields_arrive_as_sent(trios: Trios) {
    for (name, [mut a, mut b, _]) in trios {
        for (hop_limit, traffic_class) in [(64, 0), (1, 0), (255, 0x6b), (64, 0xff)] {
            let route = Route { hop_limit, traffic_class, ..route(&mut a, &b) };
            let id = put(&mut a, &route, b"header");
            a.flush().expect("flush");
            let [got] = take(&mut b, 1).try_into().expect("one packet");
            assert_eq!((got.hop_limit, got.traffic_class), (hop_limit, traffic_class), "{name}");
            assert_eq!((got.src, got.dst), (route.src, b.local()), "{name}");
            let expected = match (b.local().is_ipv4(), b.caps().headers_visible) {
                (true, true) => IpId::Known(id),
                (true, false) => IpId::Hidden(0),
                (false, _) => IpId::NotPresent,
            };
            assert_eq!(got.ip_id, expected, "{name}");
        }
    }
}

/// The port that `source_port` promised is the one on the wire.
pub fn the_promised_source_port_is_the_real_one_and_stays(trios: Trios) {
    for (name, [mut a, mut b, _]) in trios {
        let wanted: Vec<u16> = (0..24).map(|n| 0xC100 + n * 7).collect();
        let promised: Vec<u16> = wanted.iter().map(|&port| a.source_port(port)).collect();
        let again: Vec<u16> = wanted.iter().map(|&port| a.source_port(port)).collect();
        assert_eq!(promised, again, "{name}");
        for &port in &promised {
            assert!(port >= 0xC000, "{name}");
            let src = SocketAddr::new(a.local().ip(), port);
            put(&mut a, &Route { src, dst: b.local(), hop_limit: 64, traffic_class: 0 }, b"port");
        }
        a.flush().expect("flush");
        let got: Vec<u16> = take(&mut b, 24).iter().map(|got| got.src.port()).collect();
        assert_eq!(got, promised, "{name}");
    }
}

/// A packet reaches its destination alone.
pub fn no_other_endpoint_sees_a_packet(trios: Trios) {
    for (name, [mut a, mut b, mut c]) in trios {
        let to_b = route(&mut a, &b);
        put(&mut a, &to_b, b"for b");
        a.flush().expect("flush");
        assert_eq!(take(&mut b, 1).len(), 1, "{name}");
        assert_eq!(c.recv(64, &mut |_| ()).expect("recv"), 0, "{name}");
        assert_eq!(a.recv(64, &mut |_| ()).expect("recv"), 0, "{name}");
    }
}

/// `recv` never hands over more than it was asked for.
pub fn recv_obeys_its_limit(trios: Trios) {
    for (name, [mut a, mut b, _]) in trios {
        let route = route(&mut a, &b);
        for n in 0..10u8 {
            put(&mut a, &route, &[n]);
        }
        a.flush().expect("flush");
        assert_eq!(b.recv(0, &mut |_| ()).expect("recv"), 0, "{name}");
        let mut got = Vec::new();
        let first = b.recv(3, &mut |packet| got.push(packet.payload[0])).expect("recv");
        assert_eq!(first, 3, "{name}");
        while got.len() < 10 {
            b.recv(4, &mut |packet| got.push(packet.payload[0])).expect("recv");
        }
        assert_eq!(got, (0..10).collect::<Vec<u8>>(), "{name}");
    }
}

/// The waiter is readable when something is there, and not before.
pub fn the_waiter_wakes_an_armed_receiver(trios: Trios) {
    for (name, [mut a, mut b, _]) in trios {
        let route = route(&mut a, &b);
        for _ in 0..3 {
            assert!(!b.arm(), "{name}");
            assert!(!readable(&b, Duration::ZERO), "{name}");
            put(&mut a, &route, b"wake");
            a.flush().expect("flush");
            assert!(readable(&b, Duration::from_millis(900)), "{name}");
            assert_eq!(take(&mut b, 1).len(), 1, "{name}");
        }
        put(&mut a, &route, b"early");
        a.flush().expect("flush");
        assert!(b.arm() || readable(&b, Duration::from_millis(900)), "{name}");
    }
}

/// A receiver that arms and waits gets every packet of a sender in another thread.
pub fn no_wake_up_is_lost_between_two_threads(trios: Trios) {
    for (name, [mut a, mut b, _]) in trios {
        let route = route(&mut a, &b);
        let packets = 2000;
        let seen = Arc::new(AtomicUsize::new(0));
        let report = Arc::clone(&seen);
        let receiver = std::thread::spawn(move || {
            let mut got = 0;
            let waiter = b.waiter().expect("waiter");
            while got < packets {
                got += b.recv(64, &mut |_| ()).expect("recv");
                report.store(got, Ordering::Release);
                if got < packets && !b.arm() {
                    let mut fds = [PollFd::new(&waiter, PollFlags::IN)];
                    let wait = Timespec { tv_sec: 5, tv_nsec: 0 };
                    if poll(&mut fds, Some(&wait)).expect("poll") == 0 {
                        break;
                    }
                }
            }
            got
        });
        for n in 0..packets {
            put(&mut a, &route, &[1; 64]);
            a.flush().expect("flush");
            // Let the receiver fall asleep now and then, and no ring fill up.
            while n % 16 == 0 && n > seen.load(Ordering::Acquire) + 32 && !receiver.is_finished() {
                std::thread::yield_now();
            }
            (0..2000).for_each(|_| std::hint::spin_loop());
        }
        assert_eq!(receiver.join().expect("receiver"), packets, "{name}");
    }
}

/// Packets to an address without a listener do not disturb others.
pub fn a_packet_without_a_receiver_harms_nothing(trios: Trios) {
    for (name, [mut a, mut b, c]) in trios {
        let (to_b, to_c) = (route(&mut a, &b), route(&mut a, &c));
        drop(c);
        for _ in 0..3 {
            put(&mut a, &to_c, b"absent");
            put(&mut a, &to_b, b"receiver");
            a.flush().expect("flush");
            assert_eq!(take(&mut b, 1).len(), 1, "{name}");
            assert_eq!(a.recv(64, &mut |_| ()).expect("recv"), 0, "{name}");
        }
    }
}

/// Members of a group hear it until they leave; others never do.
pub fn group_is_heard(name: &str, [mut a, mut b, mut c]: Trio, group: IpAddr) {
    b.join(group).expect("join");
    b.join(group).expect("join twice");
    let dst = SocketAddr::new(group, b.local().port());
    let route = Route { dst, traffic_class: 0x20, ..route(&mut a, &b) };
    put(&mut a, &route, b"to all");
    assert!(!b.arm());
    a.flush().expect("flush");
    assert!(readable(&b, Duration::from_millis(900)), "{name} {:?}", a.last_problem());
    let got = take(&mut b, 1);
    assert_eq!((got[0].dst, got[0].traffic_class, got[0].hop_limit), (dst, 0x20, 64), "{name}");
    assert_eq!(c.recv(64, &mut |_| ()).expect("recv"), 0, "{name}");
    b.leave(group).expect("leave");
    put(&mut a, &route, b"to all");
    a.flush().expect("flush");
    assert!(!b.arm() && !readable(&b, Duration::from_millis(50)), "{name}");
    assert_eq!(b.recv(64, &mut |_| ()).expect("recv"), 0, "{name}");
}

/// Only multicast addresses can be joined.
pub fn a_unicast_address_is_no_group(trios: Trios) {
    for (name, [mut a, ..]) in trios {
        let address = a.local().ip();
        assert!(a.join(address).is_err(), "{name}");
        assert!(a.leave(address).is_ok(), "{name}");
    }
}

/// Full bursts in packets of many sizes and in GSO batches; returns packets sent and received.
fn rounds(
    a: &mut dyn Datapath,
    b: &mut dyn Datapath,
    routes: &[Route],
    rounds: usize,
) -> (usize, usize) {
    let (mut sent, mut received) = (0, 0);
    let slot = b.shared_port().map_or(0, |port| port.slot().get());
    for round in 0..rounds {
        let mut n = 0;
        while let Some(space) = a.tx_space() {
            let len = if round % 2 == 0 { 64 + (n * 37 + round) % 4000 } else { 1084 };
            space[..len].fill(n as u8);
            space[Slot::OFFSET] = slot;
            a.tx_commit(&routes[n / 8 % routes.len()], len, &mut |_, packet| packet[0] = 1);
            n += 1;
        }
        sent += a.flush().expect("flush").sent;
        received +=
            b.recv(usize::MAX, &mut |packet| assert_eq!(packet.payload[0], 1)).expect("recv");
        b.arm();
    }
    (sent, received)
}

/// No packet of many between these two allocates.
pub fn nothing_is_allocated(mut a: Box<dyn Datapath>, mut b: Box<dyn Datapath>) {
    let ports = [0xC001, 0xC002, 0xC003].map(|wanted| a.source_port(wanted));
    let routes = [(0, 64, 0), (1, 64, 0x20), (2, 9, 3)].map(|(port, hop_limit, traffic_class)| {
        let src = SocketAddr::new(a.local().ip(), ports[port]);
        Route { src, dst: b.local(), hop_limit, traffic_class }
    });
    rounds(&mut a, &mut b, &routes, 40);
    let before = allocations();
    assert!(before > 0, "the counter works");
    let (sent, received) = rounds(&mut a, &mut b, &routes, 100);
    assert_eq!(allocations() - before, 0);
    assert!(sent >= 100 * 40, "{sent} packets");
    assert_eq!(received, sent);
}

/// Makes a test of each check. `$run` takes a check and calls it with [`Trios`].
#[macro_export]
macro_rules! check_every_datapath {
    ($run:expr) => {
        #[test]
        fn full_batches_of_many_sizes_arrive_whole_and_in_order() {
            $run($crate::checks::full_batches_of_many_sizes_arrive_whole_and_in_order);
        }

        #[test]
        fn e7_e8_the_header_fields_arrive_as_sent() {
            $run($crate::checks::the_header_fields_arrive_as_sent);
        }

        #[test]
        fn e16_the_promised_source_port_is_the_real_one_and_stays() {
            $run($crate::checks::the_promised_source_port_is_the_real_one_and_stays);
        }

        #[test]
        fn no_other_endpoint_sees_a_packet() {
            $run($crate::checks::no_other_endpoint_sees_a_packet);
        }

        #[test]
        fn recv_obeys_its_limit() {
            $run($crate::checks::recv_obeys_its_limit);
        }

        #[test]
        fn the_waiter_wakes_an_armed_receiver() {
            $run($crate::checks::the_waiter_wakes_an_armed_receiver);
        }

        #[test]
        fn no_wake_up_is_lost_between_two_threads() {
            $run($crate::checks::no_wake_up_is_lost_between_two_threads);
        }

        #[test]
        fn a_packet_without_a_receiver_harms_nothing() {
            $run($crate::checks::a_packet_without_a_receiver_harms_nothing);
        }

        #[test]
        fn a_unicast_address_is_no_group() {
            $run($crate::checks::a_unicast_address_is_no_group);
        }
    };
}
