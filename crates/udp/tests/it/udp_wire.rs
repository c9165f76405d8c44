//! What the UDP datapath puts on the wire and takes from it.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use socket2::{Domain, Protocol, Socket, Type};
use uroce_datapath::{Datapath, Flush, Route};
use uroce_testkit::icmp::too_big;
use uroce_testkit::namespace::{Namespace, Wire};
use uroce_udp::{UdpConfig, UdpDatapath};

use crate::ends::{bind, bind_with, route};
use crate::sniffer::{sniff, sniffer};

fn put(path: &mut UdpDatapath, route: &Route, payload: &[u8]) {
    path.tx_space().expect("room")[..payload.len()].copy_from_slice(payload);
    path.tx_commit(route, payload.len(), &mut |_, _| ());
}

#[test]
fn e4_e6_e11_without_offload_ipv4_packets_have_identification_0_and_no_udp_checksum() {
    // Alone: what other tests send would push these frames out of the sniffer's buffer.
    if let Some(namespace) = Namespace::open() {
        namespace.run(check_ipv4_packets_without_offload);
    }
}

fn check_ipv4_packets_without_offload() {
    let sniffer = sniffer();
    let (mut a, b) = (bind_with("127.0.0.1", false), bind_with("127.0.0.2", false));
    let plain = route(&mut a, b.local());
    let marked = Route { hop_limit: 7, traffic_class: 0x2a, ..plain };
    for _ in 0..10 {
        put(&mut a, &plain, &[1; 1084]);
        put(&mut a, &marked, &[2; 300]);
    }
    a.flush().expect("flush");
    let frames = sniff(&sniffer, b.local(), 40);
    assert_eq!(frames.len(), 40);
    for frame in frames {
        let sliced = SlicedPacket::from_ethernet(&frame).expect("frame");
        let Some(NetSlice::Ipv4(ip)) = sliced.net else { panic!("no IPv4") };
        let header = ip.header();
        assert_eq!((header.identification(), header.dont_fragment()), (0, true));
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
        assert_eq!((udp.source_port(), udp.checksum()), (plain.src.port(), 0));
        let marks = (header.ttl(), frame[15]);
        let expected = if udp.payload()[0] == 1 { (64, 0) } else { (7, 0x2a) };
        assert_eq!(marks, expected);
    }
}

#[test]
fn e6_without_offload_ipv6_packets_have_no_udp_checksum() {
    if let Some(namespace) = Namespace::open() {
        namespace.run(check_ipv6_packets_without_offload);
    }
}

fn check_ipv6_packets_without_offload() {
    let sniffer = sniffer();
    let (mut a, b) = (bind_with("::1", false), bind_with("::1", false));
    let route = Route { hop_limit: 9, traffic_class: 0x2a, ..route(&mut a, b.local()) };
    put(&mut a, &route, &[1; 1084]);
    a.flush().expect("flush");
    let frames = sniff(&sniffer, b.local(), 1);
    let sliced = SlicedPacket::from_ethernet(&frames[0]).expect("frame");
    let Some(NetSlice::Ipv6(ip)) = sliced.net else { panic!("no IPv6") };
    assert_eq!((ip.header().hop_limit(), ip.header().traffic_class()), (9, 0x2a));
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
    assert_eq!(udp.checksum(), 0);
}

#[test]
fn e13_a_packet_above_the_mtu_is_dropped_counted_and_explained() {
    let Some(wire) = Wire::new(1500) else { return };
    wire.a.run(|| {
        let mut a = bind("10.77.0.1");
        let route = route(&mut a, "10.77.0.2:4791".parse().expect("address"));
        put(&mut a, &route, &[1; 4196]);
        put(&mut a, &route, &[1; 4196]);
        let flush = a.flush().expect("flush");
        assert_eq!(flush, Flush { sent: 0, dropped: 2, blocked: false });
        assert_eq!((a.stats().tx_packets, a.stats().tx_dropped), (0, 2));
        let text = a.last_problem().expect("a reason");
        assert!(text.contains("10.77.0.2") && text.contains("MTU"), "{text}");
    });
}

#[test]
fn a_packet_without_a_route_is_explained() {
    let mut a = bind("127.0.0.1");
    let dst = "[::1]:4791".parse().expect("address");
    let to_v6 = route(&mut a, dst);
    put(&mut a, &to_v6, b"wrong IP version");
    assert_eq!(a.flush().expect("flush").dropped, 1);
    assert!(a.last_problem().is_some_and(|text| text.contains("::1")));
}

#[test]
fn a_packet_longer_than_a_receive_buffer_is_dropped_and_counted() {
    let mut b = bind("127.0.0.2");
    let a = UdpSocket::bind("127.0.0.1:0").expect("bind");
    for length in [9216, 9217, 20_000, 8] {
        a.send_to(&vec![7; length], b.local()).expect("send");
    }
    let mut lengths = Vec::new();
    while b.recv(64, &mut |packet| lengths.push(packet.payload.len())).expect("recv") > 0 {}
    assert_eq!(lengths, [9216, 8]);
    assert_eq!((b.stats().rx_packets, b.stats().rx_truncated), (2, 2));
}

#[test]
fn a_message_that_comes_alone_costs_one_call_and_many_cost_few() {
    let mut b = bind("127.0.0.2");
    let a = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let to = b.local();
    for round in 0..5 {
        a.send_to(&[round; 20], to).expect("send");
        let before = b.stats().syscalls;
        assert_eq!(
            b.recv(64, &mut |packet| assert_eq!(packet.payload, [round; 20])).expect("recv"),
            1
        );
        assert_eq!(b.stats().syscalls - before, 1, "round {round}");
        assert_eq!(b.recv(64, &mut |_| ()).expect("recv"), 0);
    }
    for n in 0..40 {
        a.send_to(&[n; 20], to).expect("send");
    }
    let before = b.stats().syscalls;
    let mut got = Vec::new();
    while b.recv(64, &mut |packet| got.push(packet.payload[0])).expect("recv") > 0 {}
    assert!(got.iter().copied().eq(0..40), "{got:?}");
    let calls = b.stats().syscalls - before;
    assert!(calls <= 8, "{calls}: one, one, then 16 at a time");
}

#[test]
fn a_taken_source_port_is_replaced_by_the_next() {
    let mut a = bind("127.0.0.1");
    let squatter = UdpSocket::bind("127.0.0.1:65535").expect("bind");
    let port = a.source_port(65535);
    assert!((0xC000..0xC100).contains(&port), "{port}");
    drop(squatter);
    assert_eq!(a.source_port(65535), port);
    assert!(a.source_port(0x1234) >= 0xC000);
}

#[test]
fn e16_no_more_source_ports_are_opened_than_configured() {
    let local = "127.0.0.1:0".parse().expect("address");
    let config = UdpConfig { source_ports: 3, ..UdpConfig::new(local) };
    let mut a = UdpDatapath::bind(&config).expect("bind");
    let mut ports: Vec<u16> = (0..100).map(|n| a.source_port(0xD000 + n * 3)).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
}

#[test]
fn e1_what_strangers_send_to_a_source_port_goes_nowhere() {
    let mut a = bind("127.0.0.1");
    let port = a.source_port(0xE321);
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("bind");
    for _ in 0..100 {
        stranger.send_to(&[0; 1000], ("127.0.0.1", port)).expect("send");
    }
    assert_eq!(a.recv(64, &mut |_| ()).expect("recv"), 0);
}

/// The kernel would believe it for ten minutes.
#[test]
fn a28_a_forged_message_about_the_path_mtu_costs_no_packet() {
    let Some(wire) = Wire::new(1500) else { return };
    for (own, peer, protocol) in [
        ("10.77.0.1", "10.77.0.2:4791", Protocol::ICMPV4),
        ("fd77::1", "[fd77::2]:4791", Protocol::ICMPV6),
    ] {
        let peer: SocketAddr = peer.parse().expect("address");
        let (mut a, route) = wire.a.run(move || {
            let mut a = bind(own);
            let route = route(&mut a, peer);
            (a, route)
        });
        let to = route.src;
        wire.b.run(move || {
            let forger =
                Socket::new(Domain::for_address(to), Type::RAW, Some(protocol)).expect("root");
            let to_host = SocketAddr::new(to.ip(), 0);
            forger.send_to(&too_big(to, peer), &to_host.into()).expect("sent");
        });
        std::thread::sleep(Duration::from_millis(100));
        put(&mut a, &route, &[1; 1400]);
        put(&mut a, &route, &[1; 1400]);
        let flush = a.flush().expect("flush");
        assert_eq!(flush, Flush { sent: 2, dropped: 0, blocked: false }, "{:?}", a.last_problem());
    }
}

/// The loss that is most common of all is to be seen in the counters.
#[test]
fn what_finds_no_room_in_the_receive_buffer_is_counted() {
    let local = "127.0.0.2:0".parse().expect("address");
    let config = UdpConfig { recv_buffer: 32 << 10, ..UdpConfig::new(local) };
    let mut b = UdpDatapath::bind(&config).expect("bind");
    let a = UdpSocket::bind("127.0.0.1:0").expect("bind");
    for _ in 0..1000 {
        a.send_to(&[7; 1000], b.local()).expect("send");
    }
    while b.recv(64, &mut |_| ()).expect("recv") > 0 {}
    let stats = b.stats();
    assert!(stats.rx_packets < 1000, "the buffer has an end");
    assert_eq!(stats.rx_packets + stats.rx_dropped, 1000);
}
