//! The UDP datapath beside plain sockets of the standard library.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use uroce_datapath::{Datapath, Flush, IpId, Route};
use uroce_testkit::namespace::Wire;
use uroce_udp::{UdpConfig, UdpDatapath};

use crate::ends::{bind_with, route};

fn plain(address: &str) -> UdpSocket {
    let address: std::net::IpAddr = address.parse().expect("address");
    let socket = UdpSocket::bind((address, 0)).expect("free");
    SockRef::from(&socket).set_recv_buffer_size(4 << 20).expect("a size");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    socket
}

fn put(path: &mut UdpDatapath, route: &Route, payload: &[u8]) -> u16 {
    let mut identification = 0;
    path.tx_space().expect("room")[..payload.len()].copy_from_slice(payload);
    path.tx_commit(route, payload.len(), &mut |id, bytes| {
        assert_eq!(bytes, payload);
        identification = id;
    });
    identification
}

/// Payloads until there are `count`, each with its sender.
fn take(path: &mut UdpDatapath, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut got, end) = (vec![], Instant::now() + Duration::from_secs(10));
    while got.len() < count {
        assert!(Instant::now() < end, "{} of {count}", got.len());
        path.recv(64, &mut |rx| got.push((rx.src, rx.payload.to_vec()))).expect("recv");
    }
    got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_plain_socket_receives_what_was_committed_however_it_was_joined(
        runs in prop::collection::vec((1usize..12, 1usize..1200), 1..6),
        offload: bool,
        v6: bool,
    ) {
        let address = if v6 { "::1" } else { "127.0.0.1" };
        // Without offload there is no UDP checksum, and then a plain socket takes no IPv6 packet.
        let (mut a, b) = (bind_with(address, offload || v6), plain(address));
        let route = route(&mut a, b.local_addr().expect("bound"));
        let mut sent = vec![];
        for (count, size) in runs {
            for n in 0..count {
                sent.push(vec![(sent.len() + n) as u8; size]);
                put(&mut a, &route, sent.last().expect("one"));
            }
        }
        let flush = a.flush().expect("flush");
        prop_assert_eq!(flush, Flush { sent: sent.len(), dropped: 0, blocked: false });
        let mut room = [0; 2000];
        for payload in &sent {
            let (length, from) = b.recv_from(&mut room).expect("it arrives");
            prop_assert_eq!(&room[..length], &payload[..]);
            prop_assert_eq!(from, route.src);
        }
        let bytes: usize = sent.iter().map(Vec::len).sum();
        let stats = a.stats();
        prop_assert_eq!((stats.tx_packets, stats.tx_bytes), (sent.len() as u64, bytes as u64));
    }

    #[test]
    fn what_plain_sockets_send_is_handed_over_with_its_sender_and_within_the_limit(
        sizes in prop::collection::vec(1usize..3000, 1..20), limit in 1usize..7, offload: bool,
    ) {
        let (a, mut b) = (plain("127.0.0.1"), bind_with("127.0.0.1", offload));
        let from = a.local_addr().expect("bound");
        for (n, size) in sizes.iter().enumerate() {
            a.send_to(&vec![n as u8; *size], b.local()).expect("sent");
        }
        let mut got = vec![];
        while got.len() < sizes.len() {
            let before = got.len();
            let local = b.local();
            let count = b.recv(limit, &mut |rx| {
                assert_eq!((rx.src, rx.dst), (from, local));
                assert!(matches!(rx.ip_id, IpId::Hidden(_)) && rx.hop_limit == 64);
                got.push(rx.payload.to_vec());
            });
            prop_assert_eq!(count.expect("recv"), got.len() - before);
            prop_assert!(got.len() - before <= limit);
        }
        let sent: Vec<_> = sizes.iter().enumerate().map(|(n, size)| vec![n as u8; *size]).collect();
        prop_assert_eq!(got, sent);
    }
}

#[test]
fn hop_limit_and_traffic_class_are_those_of_the_route_and_only_of_its_packets() {
    for address in ["127.0.0.1", "::1"] {
        let (mut a, mut b) = (bind_with(address, true), bind_with(address, true));
        let dst = b.local();
        let plain = route(&mut a, dst);
        let cases = [(64, 0), (1, 0x6a), (255, 0xff), (0, 2), (64, 0x6a), (63, 0)];
        for (hop_limit, traffic_class) in cases {
            put(&mut a, &Route { hop_limit, traffic_class, ..plain }, &[7; 64]);
        }
        a.flush().expect("flush");
        let (mut got, end) = (vec![], Instant::now() + Duration::from_secs(10));
        while got.len() < cases.len() && Instant::now() < end {
            b.recv(64, &mut |rx| got.push((rx.hop_limit, rx.traffic_class))).expect("recv");
        }
        let expected = cases.map(|(hops, class)| (if hops == 0 { 1 } else { hops }, class));
        assert_eq!(got, expected, "{address}: 0 is sent as 1");
    }
}

#[test]
fn the_identification_is_the_place_in_the_batch_and_zero_with_ipv6() {
    let mut a = bind_with("127.0.0.1", true);
    let to = route(&mut a, "127.0.0.1:9".parse().expect("address"));
    let ids = [100, 100, 40, 40, 100].map(|size| put(&mut a, &to, &vec![0; size]));
    assert_eq!(ids, [0, 1, 2, 0, 0]);
    a.tx_break();
    assert_eq!(put(&mut a, &to, &[0; 100]), 0);
    let mut a = bind_with("::1", true);
    let to = route(&mut a, "[::1]:9".parse().expect("address"));
    assert_eq!([100, 100].map(|size| put(&mut a, &to, &vec![0; size])), [0, 0]);
    let mut a = bind_with("127.0.0.1", false);
    let to = route(&mut a, "127.0.0.1:9".parse().expect("address"));
    assert_eq!([100, 100].map(|size| put(&mut a, &to, &vec![0; size])), [0, 0]);
}

#[test]
fn what_a_configuration_asks_too_much_or_too_little_of_is_brought_into_its_limits() {
    let local: SocketAddr = "127.0.0.1:0".parse().expect("address");
    for (source_ports, batch) in [(0, 0), (usize::MAX, usize::MAX)] {
        let config = UdpConfig { source_ports, batch, ..UdpConfig::new(local) };
        let mut path = UdpDatapath::bind(&config).expect("bind");
        assert!((1..=16).contains(&path.caps().rx_batch), "{batch}");
        let port = path.source_port(0x1234);
        assert_eq!(path.source_port(0x1234), port);
        assert!(port >= 0xC000);
    }
}

#[test]
fn a_burst_has_as_many_packets_as_the_capabilities_say() {
    for offload in [false, true] {
        let mut a = bind_with("127.0.0.1", offload);
        let sink = plain("127.0.0.1");
        let to = route(&mut a, sink.local_addr().expect("bound"));
        let mut count = 0;
        while a.tx_space().is_some() {
            put(&mut a, &to, &[1; 8]);
            count += 1;
        }
        assert_eq!(count, a.caps().tx_batch);
        assert_eq!(a.flush().expect("flush").sent, count);
        assert!(a.tx_space().is_some() && a.last_problem().is_none());
    }
}

#[test]
fn an_empty_datagram_is_refused_and_counted_as_too_short() {
    let (a, mut b) = (plain("127.0.0.1"), bind_with("127.0.0.1", true));
    a.send_to(&[], b.local()).expect("sent");
    a.send_to(b"x", b.local()).expect("sent");
    assert_eq!(take(&mut b, 1)[0].1, b"x");
    let stats = b.stats();
    assert_eq!((stats.rx_refused.too_short, stats.rx_dropped, stats.rx_packets), (1, 1, 1));
}

#[test]
fn a_receiver_that_left_something_over_does_not_sleep() {
    let (a, mut b) = (plain("127.0.0.1"), bind_with("127.0.0.1", true));
    assert!(!b.arm());
    for n in 0..20 {
        a.send_to(&[n], b.local()).expect("sent");
    }
    let waiter = b.waiter().expect("a descriptor");
    let mut got = 0;
    while got < 20 {
        // Either there is something in our memory, or the descriptor says so.
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&now)) == Ok(1);
        assert!(b.arm() || ready, "{got} of 20");
        got += b.recv(3, &mut |_| ()).expect("recv");
    }
    assert!(!b.arm());
}

#[test]
fn a28_a_closed_port_at_the_other_end_costs_no_packet() {
    let mut a = bind_with("127.0.0.1", true);
    let closed = plain("127.0.0.1").local_addr().expect("bound");
    let open = plain("127.0.0.1");
    let (nowhere, there) =
        (route(&mut a, closed), route(&mut a, open.local_addr().expect("bound")));
    for n in 0..10 {
        put(&mut a, &nowhere, &[n; 9]);
        put(&mut a, &there, &[n; 9]);
        let flush = a.flush().expect("an ICMP message is no failure");
        assert_eq!((flush.dropped, flush.blocked), (0, false));
        let mut room = [0; 20];
        assert_eq!(open.recv(&mut room).expect("it arrives"), 9);
        assert_eq!(room[0], n);
    }
}

#[test]
fn groups_that_were_joined_are_heard_beside_our_own_address() {
    let Some(wire) = Wire::new(1500) else { return };
    for (ours, theirs, group) in
        [("10.77.0.1", "10.77.0.2", "239.1.2.3"), ("fd77::1", "fd77::2", "ff12::1234")]
    {
        let open = |ip: &'static str, port| {
            let local = SocketAddr::new(ip.parse().expect("address"), port);
            move || UdpDatapath::bind(&UdpConfig::new(local)).expect("bind")
        };
        let mut a = wire.a.run(open(ours, 4791));
        let mut b = wire.b.run(open(theirs, 4791));
        let group: std::net::IpAddr = group.parse().expect("group");
        let mut b = wire.b.run(move || {
            b.join(group).expect("joined");
            b.join(group).expect("a member already");
            b
        });
        for dst in [SocketAddr::new(group, 4791), b.local()] {
            let to = route(&mut a, dst);
            put(&mut a, &to, b"x");
        }
        assert_eq!(a.flush().expect("flush").sent, 2);
        assert_eq!(take(&mut b, 2).len(), 2);
        b.leave(group).expect("left");
        b.leave(group).expect("not a member");
        for dst in [SocketAddr::new(group, 4791), b.local()] {
            let to = route(&mut a, dst);
            put(&mut a, &to, b"y");
        }
        a.flush().expect("flush");
        assert_eq!(take(&mut b, 1).len(), 1, "only that to our own address");
        assert_eq!(b.recv(9, &mut |_| ()).expect("recv"), 0);
    }
}
