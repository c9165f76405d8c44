//! What the AF_PACKET datapath puts on the wire and takes from it, between network namespaces.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use rustix::net::sockopt;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use socket2::{Domain, Protocol, Socket, Type};
use uroce_datapath::{Datapath, IpId, Route};
use uroce_host::BindError;
use uroce_packet::{FramePort, Offload, PacketConfig, PacketDatapath, PacketError};
use uroce_testkit::icmp::too_big;
use uroce_testkit::namespace::{Namespace, Wire};
use uroce_udp::{UdpConfig, UdpDatapath};
use uroce_wire::{
    Flow, Ipv4, ROCE_PORT, UdpPorts, icrc, parse_ethernet, verify, write_ethernet, write_ipv4_udp,
};

const V4: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
const V6: [&str; 2] = ["fd77::1", "fd77::2"];

fn addr(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("address"), ROCE_PORT)
}

fn open(namespace: &Namespace, ip: &str) -> PacketDatapath {
    let config = PacketConfig::new(addr(ip));
    namespace.run(move || PacketDatapath::open(&config).expect("open"))
}

fn open_udp(namespace: &Namespace, ip: &str, offload: bool) -> UdpDatapath {
    let config = UdpConfig { offload, ..UdpConfig::new(addr(ip)) };
    namespace.run(move || UdpDatapath::bind(&config).expect("bind"))
}

fn route(from: &mut dyn Datapath, dst: SocketAddr) -> Route {
    let src = SocketAddr::new(from.local().ip(), from.source_port(0xD234));
    Route { src, dst, hop_limit: 64, traffic_class: 0 }
}

fn flow(src: SocketAddr, dst: SocketAddr) -> Flow {
    Flow { src: src.ip(), dst: dst.ip(), src_port: src.port(), dst_port: dst.port() }
}

/// Commits a packet of `len` bytes with its number in front and a right ICRC at its end.
fn put(path: &mut dyn Datapath, route: &Route, number: u32, len: usize) {
    let space = path.tx_space().expect("room");
    space[..len].fill(number as u8);
    space[..4].copy_from_slice(&number.to_be_bytes());
    path.tx_commit(route, len, &mut |id, packet| {
        let (covered, trailer) = packet.split_last_chunk_mut::<4>().expect("long enough");
        *trailer = icrc(&flow(route.src, route.dst), id, covered).to_le_bytes();
    });
}

/// A packet as it arrived: its number, and whether its ICRC is right by the header fields that the
/// datapath reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Got {
    number: u32,
    right: bool,
    ip_id: IpId,
}

fn take(path: &mut dyn Datapath, count: usize) -> Vec<Got> {
    let end = Instant::now() + Duration::from_secs(3);
    let mut got = Vec::new();
    while got.len() < count && Instant::now() < end {
        path.recv(64, &mut |packet| {
            let flow = flow(packet.src, packet.dst);
            let id = if let IpId::Known(id) = packet.ip_id { id } else { 0 };
            let number = u32::from_be_bytes(*packet.payload.first_chunk().expect("number"));
            let right = verify(&flow, id, packet.payload);
            got.push(Got { number, right, ip_id: packet.ip_id });
        })
        .expect("recv");
    }
    got
}

/// Bursts of GSO batches and of odd packets; checks that all arrive in order with right ICRCs, and returns
/// how many.
fn exchange(a: &mut dyn Datapath, b: &mut dyn Datapath, size: usize) -> usize {
    let route = route(a, b.local());
    let mut number = 0;
    for round in 0..40 {
        let first = number;
        while number - first < 60 && a.tx_space().is_some() {
            // Every fourth burst is of many sizes.
            let odd = if round % 4 == 3 { number as usize % 7 * 4 } else { 0 };
            put(a, &route, number, size - odd);
            number += 1;
        }
        let flush = a.flush().expect("flush");
        assert_eq!(flush.dropped, 0, "{:?}", a.last_problem());
        let got = take(b, (number - first) as usize);
        let numbers: Vec<u32> = got.iter().map(|got| got.number).collect();
        let (sent, received) = (a.stats(), b.stats());
        let all: Vec<u32> = (first..number).collect();
        assert_eq!(numbers, all, "round {round}: {sent:?}, {received:?}");
        let hidden = |got: &&Got| !matches!(got.ip_id, IpId::Hidden(_)) && !got.right;
        assert_eq!(got.iter().find(hidden), None, "round {round}");
    }
    number as usize
}

/// A socket that sees all frames of a namespace, also those that leave.
fn sniffer(namespace: &Namespace) -> Socket {
    namespace.run(|| {
        let everything = Protocol::from(i32::from(0x0003u16.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), Some(everything));
        let socket = socket.expect("packet socket");
        sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).expect("buffer");
        socket
    })
}

/// All frames that the sniffer has seen.
fn frames(mut socket: &Socket) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 1 << 17];
    std::iter::from_fn(|| {
        let length = socket.read(&mut buffer).ok()?;
        Some(buffer[..length].to_vec())
    })
    .collect()
}

/// The frames among `frames` that are RoCE.
fn roce(frames: &[Vec<u8>]) -> Vec<&[u8]> {
    frames.iter().map(Vec::as_slice).filter(|frame| parse_ethernet(frame).is_ok()).collect()
}

/// True if the UDP checksum is 0 (none) or right.
fn udp_checksum_is_right(frame: &[u8]) -> bool {
    let sliced = SlicedPacket::from_ethernet(frame).expect("frame");
    let (Some(TransportSlice::Udp(udp)), Some(net)) = (sliced.transport, sliced.net) else {
        panic!("no UDP");
    };
    let header = udp.to_header();
    let right = match net {
        NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()),
        NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
        NetSlice::Arp(_) => panic!("ARP"),
    };
    header.checksum == 0 || header.checksum == right.expect("checksum")
}

/// The path MTU's largest packets on a link of that MTU: BTH, payload, ICRC.
const LINKS: [(usize, usize); 2] = [(1500, 1024 + 16), (9000, 4096 + 16)];

#[test]
fn e6_e10_a_link_that_cuts_super_packets_leaves_every_icrc_and_checksum_right() {
    for ((mtu, size), ips) in LINKS.into_iter().flat_map(|link| [(link, V4), (link, V6)]) {
        let Some(wire) = Wire::new(mtu) else { return };
        // Checksums are filled in too: by default a veth leaves even them to the other end.
        wire.a.sh("ethtool -K wa tx-udp-segmentation off tx off");
        let (mut a, mut b) = (open(&wire.a, ips[0]), open(&wire.b, ips[1]));
        let sniffer = sniffer(&wire.b);
        let packets = exchange(&mut a, &mut b, size);
        let seen = frames(&sniffer);
        let seen = roce(&seen);
        assert_eq!(seen.len(), packets, "{mtu} {ips:?}");
        for frame in seen {
            assert!(frame.len() <= mtu + 14);
            assert!(parse_ethernet(frame).expect("RoCE").icrc_is_right());
            assert!(udp_checksum_is_right(frame));
        }
    }
}

#[test]
fn a_link_that_does_not_cut_carries_each_gso_batch_as_one_frame() {
    for ((mtu, size), ips) in LINKS.into_iter().flat_map(|link| [(link, V4), (link, V6)]) {
        let Some(wire) = Wire::new(mtu) else { return };
        let (mut a, mut b) = (open(&wire.a, ips[0]), open(&wire.b, ips[1]));
        let sniffer = sniffer(&wire.b);
        let packets = exchange(&mut a, &mut b, size);
        let seen = frames(&sniffer);
        let whole = roce(&seen).iter().filter(|frame| frame.len() > mtu + 14).count();
        assert!(whole >= 30 && roce(&seen).len() < packets / 2, "{whole} of {}", seen.len());
        assert_eq!((a.stats().tx_packets, b.stats().rx_packets), (packets as u64, packets as u64));
        assert_eq!(b.stats().rx_dropped, 0);
    }
}

#[test]
fn udp_sockets_at_the_other_end_understand_and_are_understood() {
    for (ips, offload) in [(V4, true), (V6, true), (V4, false), (V6, false)] {
        let Some(wire) = Wire::new(1500) else { return };
        let mut a = open(&wire.a, ips[0]);
        let mut b = open_udp(&wire.b, ips[1], offload);
        exchange(&mut a, &mut b, 1040);
        exchange(&mut b, &mut a, 1040);
    }
}

#[test]
fn e11_packets_joined_by_the_receiving_kernel_keep_their_identifications() {
    let Some(wire) = Wire::new(1500) else { return };
    // The link cuts the super-packets, and the other end joins the packets again.
    wire.a.sh("ethtool -K wa tx-udp-segmentation off tso off");
    wire.b.sh("ethtool -K wb gro on");
    for ips in [V4, V6] {
        let (mut a, mut b) = (open(&wire.a, ips[0]), open(&wire.b, ips[1]));
        let sniffer = sniffer(&wire.b);
        let packets = exchange(&mut a, &mut b, 1040);
        let arrived = frames(&sniffer);
        assert!(roce(&arrived).len() < packets / 2, "{} of {packets}", roce(&arrived).len());
    }
}

#[test]
fn addresses_of_the_same_host_reach_each_other_through_lo() {
    let Some(wire) = Wire::new(1500) else { return };
    for ips in [["10.77.0.2", "10.77.0.3"], ["fd77::2", "fd77::3"], ["127.0.0.1", "127.0.0.2"]] {
        let (mut a, mut b) = (open(&wire.b, ips[0]), open(&wire.b, ips[1]));
        exchange(&mut a, &mut b, 1040);
    }
    let mut alone = open(&wire.b, "::1");
    let to_itself = route(&mut alone, addr("::1"));
    put(&mut alone, &to_itself, 7, 64);
    alone.flush().expect("flush");
    assert!(take(&mut alone, 1)[0].right);
}

#[test]
fn the_kernel_answers_nothing_to_what_it_gets_a_copy_of() {
    let Some(wire) = Wire::new(1500) else { return };
    for ips in [V4, V6] {
        let (mut a, mut b) = (open(&wire.a, ips[0]), open(&wire.b, ips[1]));
        let sniffer = sniffer(&wire.b);
        exchange(&mut a, &mut b, 1040);
        let complaint = |frame: &&Vec<u8>| {
            let sliced = SlicedPacket::from_ethernet(frame).ok();
            match sliced.and_then(|sliced| sliced.transport) {
                Some(TransportSlice::Icmpv4(icmp)) => icmp.type_u8() == 3,
                Some(TransportSlice::Icmpv6(icmp)) => icmp.type_u8() == 1,
                _ => false,
            }
        };
        assert_eq!(frames(&sniffer).iter().find(complaint), None);
    }
}

/// A flood of frames that are no packets of RoCE does not keep a caller in one call.
#[test]
fn a41_frames_that_are_dropped_count_for_the_budget_of_a_call() {
    const FLOOD: u64 = 400;
    const LIMIT: u64 = 8;
    /// Frames of one system call.
    const BATCH: u64 = 16;
    let Some(wire) = Wire::new(1500) else { return };
    let mut from = wire.a.run(|| FramePort::open("wa")).expect("opens").sender;
    let mut path = open(&wire.b, V4[1]);
    let mut frame = vec![0; 80];
    let [src, dst] = V4.map(|ip| ip.parse().expect("an address"));
    let hardware = [0x0a, 0x0b].map(|last| [2, 0, 0, 0, 0, last]);
    write_ethernet(&mut frame, hardware[0], hardware[1], None, 0x0800).expect("room");
    let ip = Ipv4 { src, dst, id: 1, ttl: 64, tos: 0, df: true };
    let ports = UdpPorts { src: 50_000, dst: ROCE_PORT };
    write_ipv4_udp(&mut frame[14..], &ip, ports, 38).expect("room");
    // The length of UDP is not that of IP.
    frame[39] += 1;
    for _ in 0..FLOOD {
        from.send(&Offload::NONE, &frame).expect("usable");
    }
    let (end, mut most) = (Instant::now() + Duration::from_secs(5), 0);
    while path.stats().rx_refused.bad_length < FLOOD {
        assert!(Instant::now() < end, "{:?}", path.stats());
        let before = path.stats().rx_dropped;
        let count = path.recv(LIMIT as usize, &mut |_| ()).expect("recv");
        assert_eq!(count, 0);
        most = most.max(path.stats().rx_dropped - before);
    }
    assert!(most < LIMIT + BATCH, "{most} in one call");
}

#[test]
fn the_first_packets_wait_for_the_hardware_address_and_keep_their_order() {
    for ips in [V4, V6] {
        let Some(wire) = Wire::without_neighbours(1500) else { return };
        let (mut a, mut b) = (open(&wire.a, ips[0]), open(&wire.b, ips[1]));
        let route = route(&mut a, addr(ips[1]));
        (0..30).for_each(|number| put(&mut a, &route, number, 1040));
        let flush = a.flush().expect("flush");
        assert_eq!((flush.sent, flush.dropped, flush.blocked), (0, 0, false));
        assert!(a.arm(), "nothing else would wake it");
        let end = Instant::now() + Duration::from_secs(2);
        while a.arm() && Instant::now() < end {
            a.recv(64, &mut |_| ()).expect("recv");
        }
        assert!(!a.arm(), "{:?}", a.last_problem());
        let got = take(&mut b, 30);
        let numbers: Vec<u32> = got.iter().map(|got| got.number).collect();
        assert_eq!(numbers, (0..30).collect::<Vec<_>>(), "{:?}", a.stats());
        assert!(got.iter().all(|got| got.right));
        assert_eq!((a.stats().tx_packets, a.stats().tx_dropped), (30, 0));
    }
}

#[test]
fn packets_for_a_silent_host_are_dropped_with_a_reason() {
    let Some(wire) = Wire::without_neighbours(1500) else { return };
    let mut a = open(&wire.a, V4[0]);
    let absent = route(&mut a, addr("10.77.0.99"));
    (0..100).for_each(|number| put(&mut a, &absent, number, 100));
    a.flush().expect("flush");
    assert_eq!(a.stats().tx_dropped, 100 - 64);
    let end = Instant::now() + Duration::from_secs(2);
    while a.arm() && Instant::now() < end {
        a.recv(64, &mut |_| ()).expect("recv");
    }
    assert_eq!((a.stats().tx_dropped, a.stats().tx_packets), (100, 0));
    let problem = a.last_problem().expect("a reason");
    assert!(problem.contains("10.77.0.99") && problem.contains("check that"), "{problem}");

    let nowhere = route(&mut a, addr("192.0.2.1"));
    put(&mut a, &nowhere, 0, 100);
    assert_eq!(a.flush().expect("flush").dropped, 1);
    let problem = a.last_problem().expect("a reason");
    assert!(problem.contains("routing table"), "{problem}");
}

#[test]
fn e13_a_packet_above_the_mtu_is_dropped_with_a_reason_and_others_pass() {
    let Some(wire) = Wire::new(1500) else { return };
    let (mut a, mut b) = (open(&wire.a, V4[0]), open(&wire.b, V4[1]));
    let route = route(&mut a, addr(V4[1]));
    for (number, len) in [(0, 1472), (1, 1473), (2, 1473), (3, 100), (4, 4112)] {
        put(&mut a, &route, number, len);
    }
    let flush = a.flush().expect("flush");
    assert_eq!((flush.sent, flush.dropped), (2, 3));
    let numbers: Vec<u32> = take(&mut b, 2).iter().map(|got| got.number).collect();
    assert_eq!(numbers, [0, 3]);
    assert!(a.last_problem().expect("a reason").contains("larger than the MTU"));
}

#[test]
fn the_port_is_reserved() {
    let Some(wire) = Wire::new(1500) else { return };
    let first = open(&wire.a, V4[0]);
    let config = PacketConfig::new(first.local());
    let second = wire.a.run(move || PacketDatapath::open(&config)).expect_err("taken");
    assert!(matches!(second, PacketError::Bind(BindError::PortBusy { .. })), "{second}");
}

#[test]
fn without_the_right_the_remedies_are_named() {
    let Some(wire) = Wire::new(1500) else { return };
    let error = wire.a.run(|| {
        let mut mine = capabilities(None).expect("capabilities");
        mine.effective.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, mine).expect("less is always allowed");
        PacketDatapath::open(&PacketConfig::new(addr(V4[0]))).expect_err("not permitted")
    });
    assert!(matches!(error, PacketError::NotPermitted), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("--ambient-caps=+net_raw") && text.contains("--datapath udp"), "{text}");
}

#[test]
fn a_foreign_address_is_refused() {
    let Some(wire) = Wire::new(1500) else { return };
    for ip in ["192.0.2.77", "0.0.0.0", "239.1.1.1"] {
        let config = PacketConfig::new(addr(ip));
        let error = wire.a.run(move || PacketDatapath::open(&config)).expect_err("not local");
        let bind = matches!(error, PacketError::Bind(_));
        assert!(bind && error.to_string().contains("--address"), "{error}");
    }
}

#[test]
fn a28_a_forged_message_about_the_path_mtu_costs_no_packet() {
    let Some(wire) = Wire::new(1500) else { return };
    let (own, peer) = (addr(V4[0]), addr(V4[1]));
    let mut a = open(&wire.a, V4[0]);
    wire.b.run(move || {
        let forger =
            Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).expect("permitted");
        forger.send_to(&too_big(own, peer), &own.into()).expect("sent");
    });
    std::thread::sleep(Duration::from_millis(100));
    let route = route(&mut a, peer);
    put(&mut a, &route, 1, 1400);
    let flush = a.flush().expect("flush");
    assert_eq!((flush.sent, flush.dropped), (1, 0), "{:?}", a.last_problem());
}
