//! Packets that the kernel takes out of our buffer (docs/adr/037-send-in-place.md).

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use etherparse::{NetSlice, SlicedPacket};
use socket2::{Domain, Protocol, Socket, Type};
use uroce_datapath::{Datapath, Recipient, Route};
use uroce_testkit::icmp::too_big;
use uroce_testkit::namespace::{Namespace, Wire};
use uroce_udp::{UdpConfig, UdpDatapath};

use crate::ends::{bind, route};
use crate::sniffer::{sniff, sniffer};

/// Bytes of a packet with a payload of 1 KiB.
const LEN: usize = 1044;

/// Packets of a batch.
const BATCH: u16 = 40;

/// Batches before all of a route leaves in place.
const BATCHES_BEFORE: u16 = 32;

/// The bytes of a packet: its number, the identification that it was sealed for, and a pattern.
fn fill(packet: &mut [u8], number: u16) {
    packet.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at as u8) ^ (number as u8));
    packet[..2].copy_from_slice(&number.to_be_bytes());
}

fn recipient(route: &Route) -> Option<Recipient> {
    Some(Recipient { address: route.dst.ip(), period: 0 })
}

/// Commits a batch whose packets are numbered from `first` on, in place or not.
fn commit(path: &mut UdpDatapath, route: &Route, (first, packets): (u16, u16), in_place: bool) {
    path.tx_only_to(recipient(route));
    if in_place {
        path.tx_in_place(usize::from(packets));
    }
    for number in first..first + packets {
        fill(&mut path.tx_space().expect("room")[..LEN], number);
        let seal =
            &mut |id: u16, packet: &mut [u8]| packet[2..4].copy_from_slice(&id.to_be_bytes());
        path.tx_commit(route, LEN, seal);
    }
    path.tx_only_to(None);
}

fn flush_all(path: &mut UdpDatapath, packets: u16) {
    let flush = path.flush().expect("flush");
    assert_eq!((flush.sent, flush.dropped), (usize::from(packets), 0), "{:?}", path.last_problem());
}

/// Takes packets until `packets` are there, and checks that they are numbered from `first` on and unchanged.
fn take(path: &mut UdpDatapath, (first, packets): (u16, u16)) {
    let end = Instant::now() + Duration::from_secs(5);
    let mut next = first;
    while next < first + packets {
        assert!(Instant::now() < end, "{next} did not arrive");
        let left = usize::from(first + packets - next);
        let take = &mut |rx: uroce_datapath::RxPacket<'_>| {
            let mut expected = vec![0; LEN];
            fill(&mut expected, next);
            expected[2..4].copy_from_slice(&rx.payload[2..4]);
            assert!(rx.payload == expected, "packet {next} has changed");
            next += 1;
        };
        path.recv(left, take).expect("recv");
    }
}

/// Sends so many batches in place that the route has a connected socket.
fn warm_up(a: &mut UdpDatapath, b: &mut UdpDatapath, route: &Route) {
    for _ in 0..BATCHES_BEFORE {
        assert_eq!(a.stats().tx_in_place, 0);
        commit(a, route, (0, BATCH), true);
        flush_all(a, BATCH);
        take(b, (0, BATCH));
    }
}

#[test]
fn what_leaves_in_place_arrives_unchanged() {
    for addresses in [["127.0.0.1", "127.0.0.2"], ["::1", "::1"]] {
        let [mut a, mut b] = addresses.map(bind);
        let route = route(&mut a, b.local());
        warm_up(&mut a, &mut b, &route);
        // Several times round the buffer.
        for round in 1..=64 {
            commit(&mut a, &route, (100, BATCH), true);
            commit(&mut a, &route, (100 + BATCH, 3), false);
            flush_all(&mut a, BATCH + 3);
            commit(&mut a, &route, (200, BATCH), true);
            flush_all(&mut a, BATCH);
            take(&mut b, (100, BATCH + 3));
            take(&mut b, (200, BATCH));
            assert_eq!(a.stats().tx_in_place, round * u64::from(BATCH), "the second batch of each");
        }
    }
}

/// What is not read stays as it was while so much is unacknowledged as the datapath says.
#[test]
fn packets_stay_unchanged_as_long_as_the_datapath_says() {
    let [mut a, mut b] = ["127.0.0.1", "127.0.0.2"].map(bind);
    let route = route(&mut a, b.local());
    warm_up(&mut a, &mut b, &route);
    let kept = (a.caps().in_place as usize / LEN) as u16;
    assert!(kept >= 256, "a window of 256 packets and more: {kept}");
    let (mut sent, mut read) = (0, 0);
    for batch in (24..=BATCH).cycle().take(200) {
        // Nothing but short batches wastes as much of the ring.
        while sent + batch - read > kept {
            let oldest = (sent - read).min(50);
            take(&mut b, (read, oldest));
            read += oldest;
        }
        let before = a.stats().tx_in_place;
        commit(&mut a, &route, (sent, batch), true);
        flush_all(&mut a, batch);
        sent += batch;
        assert_eq!(a.stats().tx_in_place - before, u64::from(batch));
    }
    // A burst is built before it is known whether it fits.
    for _ in 0..4 {
        commit(&mut a, &route, (sent, BATCH), false);
    }
    flush_all(&mut a, 4 * BATCH);
    take(&mut b, (read, sent - read));
}

/// A peer on this host has the pages until it takes the datagrams: nothing for another one may be written there.
#[test]
fn a_peer_that_reads_nothing_sees_nothing_of_what_is_sent_to_another_one() {
    let [mut a, mut b, mut c] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(bind);
    let (to_b, to_c) = (route(&mut a, b.local()), route(&mut a, c.local()));
    warm_up(&mut a, &mut b, &to_b);
    for first in [0, BATCH] {
        commit(&mut a, &to_b, (first, BATCH), true);
        flush_all(&mut a, BATCH);
    }
    assert_eq!(a.stats().tx_in_place, u64::from(2 * BATCH));
    for n in 0..100 {
        for in_place in [false, true] {
            commit(&mut a, &to_c, (1000, BATCH), in_place);
            flush_all(&mut a, BATCH);
            take(&mut c, (1000, BATCH));
        }
        let expected = if n < BATCHES_BEFORE { 2 } else { 3 + n - BATCHES_BEFORE };
        assert_eq!(a.stats().tx_in_place, u64::from(expected * BATCH), "{n}");
    }
    take(&mut b, (0, 2 * BATCH));
}

/// The address of a peer may have gone to another one, and the peer may still read what it got.
#[test]
fn another_period_of_the_same_address_gets_other_memory() {
    let [mut a, mut b] = ["127.0.0.1", "127.0.0.2"].map(bind);
    let route = route(&mut a, b.local());
    warm_up(&mut a, &mut b, &route);
    commit(&mut a, &route, (0, BATCH), true);
    flush_all(&mut a, BATCH);
    let later = Recipient { address: route.dst.ip(), period: 1 };
    // As much as goes round the ring.
    for _ in 0..32 {
        a.tx_only_to(Some(later));
        for _ in 0..BATCH {
            a.tx_space().expect("room")[..LEN].fill(0xee);
            a.tx_commit(&route, LEN, &mut |_, _| ());
        }
        a.flush().expect("flush");
    }
    take(&mut b, (0, BATCH));
    assert_eq!(a.stats().tx_in_place, u64::from(BATCH));
}

/// READ responses to the same peer, say, would let the memory go round too soon.
#[test]
fn nothing_leaves_in_place_where_most_is_copied() {
    let [mut a, mut b] = ["127.0.0.1", "127.0.0.2"].map(bind);
    let route = route(&mut a, b.local());
    warm_up(&mut a, &mut b, &route);
    a.tx_only_to(recipient(&route));
    for n in 0..3 {
        fill(&mut a.tx_space().expect("room")[..LEN], n);
        a.tx_commit(&route, LEN, &mut |_, _| ());
        a.tx_break();
    }
    commit(&mut a, &route, (3, BATCH), true);
    flush_all(&mut a, 3 + BATCH);
    assert_eq!(a.stats().tx_in_place, u64::from(BATCH), "three are little");
    a.tx_only_to(recipient(&route));
    for n in 0..BATCH {
        fill(&mut a.tx_space().expect("room")[..LEN], n);
        a.tx_commit(&route, LEN, &mut |_, _| ());
    }
    a.tx_break();
    commit(&mut a, &route, (BATCH, BATCH), true);
    flush_all(&mut a, 2 * BATCH);
    assert_eq!(a.stats().tx_in_place, u64::from(BATCH), "half is copied, and so is the rest");
    take(&mut b, (0, 3 + BATCH));
    take(&mut b, (0, 2 * BATCH));
}

#[test]
fn short_batches_and_those_that_may_not_are_copied() {
    let [mut a, mut b] = ["127.0.0.1", "127.0.0.2"].map(bind);
    let route = route(&mut a, b.local());
    for _ in 0..3 * BATCHES_BEFORE {
        commit(&mut a, &route, (0, BATCH), false);
        flush_all(&mut a, BATCH);
        commit(&mut a, &route, (BATCH, 8), true);
        flush_all(&mut a, 8);
        take(&mut b, (0, BATCH + 8));
    }
    assert_eq!(a.stats().tx_in_place, 0);
    let config =
        UdpConfig { in_place: false, ..UdpConfig::new("127.0.0.3:0".parse().expect("one")) };
    let mut off = UdpDatapath::bind(&config).expect("bind");
    assert_eq!(off.caps().in_place, 0);
    let route = self::route(&mut off, b.local());
    for _ in 0..2 * BATCHES_BEFORE {
        commit(&mut off, &route, (0, BATCH), true);
        flush_all(&mut off, BATCH);
        take(&mut b, (0, BATCH));
    }
    assert_eq!(off.stats().tx_in_place, 0);
}

/// Batches that do not arrive may have wrong identifications.
#[test]
fn a_route_whose_batches_are_lost_leaves_its_connected_socket() {
    let [mut a, mut b] = ["127.0.0.1", "127.0.0.2"].map(bind);
    let route = route(&mut a, b.local());
    warm_up(&mut a, &mut b, &route);
    commit(&mut a, &route, (0, BATCH), true);
    // For whatever reason: that of another route is none.
    a.tx_break();
    commit(&mut a, &route, (BATCH, 1), false);
    flush_all(&mut a, BATCH + 1);
    take(&mut b, (0, BATCH + 1));
    commit(&mut a, &route, (0, BATCH), true);
    a.tx_break();
    a.tx_distrust();
    commit(&mut a, &route, (BATCH, 1), false);
    flush_all(&mut a, BATCH + 1);
    take(&mut b, (0, BATCH + 1));
    let sent = u64::from(2 * BATCH);
    assert_eq!(a.stats().tx_in_place, sent, "what was begun before leaves as it was begun");
    // Twice as many as the first time.
    for _ in 0..2 * BATCHES_BEFORE {
        commit(&mut a, &route, (0, BATCH), true);
        flush_all(&mut a, BATCH);
        take(&mut b, (0, BATCH));
        assert_eq!(a.stats().tx_in_place, sent);
    }
    commit(&mut a, &route, (0, BATCH), true);
    flush_all(&mut a, BATCH);
    take(&mut b, (0, BATCH));
    assert!(a.stats().tx_in_place > sent, "it has another socket");
}

/// Nobody listens there: the kernel says so to a connected socket, and to no other one.
#[test]
fn a28_an_icmp_message_costs_no_packet_of_a_connected_socket() {
    let mut a = bind("127.0.0.1");
    let route = route(&mut a, "127.0.0.2:9".parse().expect("address"));
    for _ in 0..2 * BATCHES_BEFORE {
        commit(&mut a, &route, (0, BATCH), true);
        flush_all(&mut a, BATCH);
    }
    let stats = a.stats();
    assert_eq!(stats.tx_in_place, u64::from(BATCHES_BEFORE * BATCH));
    assert!(stats.soft_errors > 0, "{stats:?}");
}

/// Anybody can forge such a message. A connected socket tells of it once, whatever is sent next.
#[test]
fn a28_a_forged_message_about_the_path_mtu_costs_no_packet_of_a_connected_socket() {
    let Some(wire) = Wire::new(9000) else { return };
    for (own, peer, protocol) in
        [("10.77.0.1", "10.77.0.2", Protocol::ICMPV4), ("fd77::1", "fd77::2", Protocol::ICMPV6)]
    {
        let mut b = wire.b.run(move || bind(peer));
        let (mut a, mut b, route) = wire.a.run(move || {
            let mut a = bind(own);
            let route = route(&mut a, b.local());
            warm_up(&mut a, &mut b, &route);
            (a, b, route)
        });
        wire.b.run(move || {
            let forger = Socket::new(Domain::for_address(route.src), Type::RAW, Some(protocol))
                .expect("root");
            let to_host = SocketAddr::new(route.src.ip(), 0);
            forger.send_to(&too_big(route.src, route.dst), &to_host.into()).expect("sent");
        });
        std::thread::sleep(Duration::from_millis(100));
        commit(&mut a, &route, (0, BATCH), true);
        a.tx_break();
        commit(&mut a, &route, (BATCH, 1), false);
        flush_all(&mut a, BATCH + 1);
        take(&mut b, (0, BATCH + 1));
        let stats = a.stats();
        assert_eq!((stats.soft_errors, stats.tx_in_place), (1, u64::from(BATCH)), "{own}");
        // The error may have been that of a batch which the kernel had counted: the route leaves its socket.
        commit(&mut a, &route, (0, BATCH), true);
        flush_all(&mut a, BATCH);
        take(&mut b, (0, BATCH));
        assert_eq!(a.stats().tx_in_place, u64::from(BATCH));
    }
}

/// What a queue of this host holds is still in the buffer of the socket, which is short here.
#[test]
fn b13_what_a_full_connected_socket_refuses_is_sent_later_unchanged() {
    let Some(wire) = Wire::new(9000) else { return };
    let mut b = wire.b.run(|| bind("10.77.0.2"));
    let (mut a, mut b, route) = wire.a.run(move || {
        let local = "10.77.0.1:0".parse().expect("address");
        let config = UdpConfig { send_buffer: 16 * 1024, ..UdpConfig::new(local) };
        let mut a = UdpDatapath::bind(&config).expect("bind");
        let route = route(&mut a, b.local());
        warm_up(&mut a, &mut b, &route);
        (a, b, route)
    });
    wire.a.sh("tc qdisc add dev wa root tbf rate 20mbit burst 70kb limit 4mb");
    let sniffer = wire.b.run(sniffer);
    for n in 0..4 {
        commit(&mut a, &route, (n * BATCH, BATCH), true);
        a.tx_break();
    }
    let mut sent = a.flush().expect("flush");
    assert!(sent.blocked && sent.sent < 160, "{sent:?}");
    // Beside the ring, of which a part is lent.
    commit(&mut a, &route, (4 * BATCH, 10), true);
    let end = Instant::now() + Duration::from_secs(10);
    while sent.sent < 170 {
        assert!(Instant::now() < end, "{sent:?}");
        std::thread::sleep(Duration::from_millis(10));
        sent.sent += a.flush().expect("flush").sent;
    }
    take(&mut b, (0, 170));
    let stats = a.stats();
    assert!(stats.blocked > 0 && stats.tx_dropped == 0, "{stats:?}");
    assert_eq!(stats.tx_in_place, u64::from(4 * BATCH));
    let mut numbers = Vec::new();
    for frame in sniff(&sniffer, b.local(), 5) {
        let sliced = SlicedPacket::from_ethernet(&frame).expect("frame");
        let Some(NetSlice::Ipv4(ip)) = sliced.net else { panic!("no IPv4") };
        for (packet, place) in frame[14 + 20 + 8..].chunks(LEN).zip(0..) {
            let expected = ip.header().identification().wrapping_add(place);
            assert_eq!(packet[2..4], expected.to_be_bytes());
            numbers.push(u16::from_be_bytes([packet[0], packet[1]]));
        }
    }
    assert_eq!(numbers, (0..170).collect::<Vec<u16>>());
}

/// The kernel may have counted what it refused, so the connected socket is given up with all that was numbered for it.
#[test]
fn a_refused_batch_ends_the_connected_socket_and_is_explained() {
    let Some(wire) = Wire::new(9000) else { return };
    let mut b = wire.b.run(|| bind("10.77.0.2"));
    let set_mtu = |mtu: &str| {
        let line = ["link", "set", "wa", "mtu", mtu];
        assert!(Command::new("ip").args(line).status().expect("ip").success());
    };
    // In the namespace, where connected sockets are to be opened.
    wire.a.run(move || {
        let mut a = bind("10.77.0.1");
        let route = route(&mut a, b.local());
        warm_up(&mut a, &mut b, &route);
        commit(&mut a, &route, (0, BATCH), true);
        set_mtu("1000");
        commit(&mut a, &route, (BATCH, 80), true);
        let flush = a.flush().expect("flush");
        assert_eq!((flush.sent, flush.dropped), (0, usize::from(BATCH) + 80));
        let text = a.last_problem().expect("a reason");
        assert!(text.contains("10.77.0.2") && text.contains("MTU of the path"), "{text}");
        set_mtu("9000");
        for _ in 0..2 * BATCHES_BEFORE {
            assert_eq!(a.stats().tx_in_place, 0);
            commit(&mut a, &route, (0, BATCH), true);
            flush_all(&mut a, BATCH);
            take(&mut b, (0, BATCH));
        }
        commit(&mut a, &route, (0, BATCH), true);
        flush_all(&mut a, BATCH);
        take(&mut b, (0, BATCH));
        assert_eq!(a.stats().tx_in_place, u64::from(BATCH), "it has a connected socket again");
    });
}

/// The ICRC covers the identification: each packet has the one that it was sealed for.
#[test]
fn each_packet_has_the_identification_that_it_was_sealed_for() {
    // Alone: what other tests send would push these frames out of the sniffer's buffer.
    if let Some(namespace) = Namespace::open() {
        namespace.run(check_identifications);
    }
}

fn check_identifications() {
    let [mut a, mut b] = ["127.0.0.1", "127.0.0.2"].map(bind);
    let marked = Route { hop_limit: 7, traffic_class: 0x2a, ..route(&mut a, b.local()) };
    warm_up(&mut a, &mut b, &marked);
    let sniffer = sniffer();
    for in_place in [true, false, true] {
        commit(&mut a, &marked, (0, BATCH), in_place);
        flush_all(&mut a, BATCH);
        commit(&mut a, &marked, (0, 1), false);
        flush_all(&mut a, 1);
        let frames = sniff(&sniffer, b.local(), 4);
        let mut single = Vec::new();
        for frame in &frames {
            let sliced = SlicedPacket::from_ethernet(frame).expect("frame");
            let Some(NetSlice::Ipv4(ip)) = sliced.net else { panic!("no IPv4") };
            let header = ip.header();
            assert!(header.dont_fragment());
            assert_eq!((header.ttl(), frame[15]), (7, 0x2a));
            let payload = &frame[14 + 20 + 8..];
            assert_eq!(
                payload[2..4],
                header.identification().to_be_bytes(),
                "the first of a batch"
            );
            for (packet, place) in payload.chunks(LEN).zip(0..) {
                let expected = header.identification().wrapping_add(place);
                assert_eq!(packet[2..4], expected.to_be_bytes());
            }
            single.push(payload.len() == LEN);
        }
        assert_eq!(single, [false, false, true, true], "a batch and one packet, seen twice each");
    }
    assert_eq!(a.stats().tx_in_place, 2 * u64::from(BATCH));
}
