//! What is on the wire: right ICRCs, tags, and packets to ourselves.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use uroce_datapath::{Datapath, IpId, Route, RxPacket};
use uroce_packet::{PacketConfig, PacketDatapath};
use uroce_wire::{Flow, icrc, parse_ethernet, verify};
use uroce_xdp::{XdpConfig, XdpDatapath, XdpMode};

use crate::lab;
use crate::lab::{INTERFACE, Lab};

/// A BTH of an RC SEND ONLY to QP 0x12, followed by zeros and room for the ICRC.
fn packet(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.next_multiple_of(4)];
    bytes[..12].copy_from_slice(&[4, 0x40, 0xff, 0xff, 0, 0, 0, 0x12, 0x80, 0, 0, 7]);
    bytes
}

fn route(from: &mut XdpDatapath, dst: IpAddr) -> Route {
    let src = SocketAddr::new(from.local().ip(), from.source_port(0xC777));
    Route { src, dst: (dst, 4791).into(), hop_limit: 64, traffic_class: 0x2 }
}

/// Sends with a right ICRC.
fn send(path: &mut XdpDatapath, route: &Route, payload: &[u8]) {
    commit(path, route, payload, &mut Vec::new());
    path.flush().expect("flush");
}

/// A socket that sees every frame of a namespace.
fn sniffer(lab: &Lab, namespace: &str) -> Socket {
    lab.inside(namespace, || {
        let everything = Protocol::from(i32::from(0x0003u16.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(everything)).expect("AF_PACKET");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("timeout");
        socket
    })
}

/// RoCE frames, until `count` are there or two seconds have passed.
fn sniff(mut socket: &Socket, count: usize) -> Vec<Vec<u8>> {
    let end = Instant::now() + Duration::from_secs(2);
    let (mut frames, mut buffer) = (Vec::new(), vec![0; 10_000]);
    while frames.len() < count && Instant::now() < end {
        let Ok(length) = socket.read(&mut buffer) else { continue };
        if parse_ethernet(&buffer[..length]).is_ok() {
            frames.push(buffer[..length].to_vec());
        }
    }
    frames
}

#[test]
fn every_captured_icrc_is_right() {
    if lab::cannot_run() {
        return;
    }
    let sizes = [16, 20, 108, 1084, 4000, 4156, 4196];
    for mode in [XdpMode::Generic, XdpMode::Native] {
        for address in [lab::v4, lab::v6] {
            let lab = Lab::new();
            let sniffer = sniffer(&lab, &lab.switch());
            let (mut a, mut b) = (lab.open(0, address(0), mode), lab.open(1, address(1), mode));
            let there = route(&mut a, address(1));
            let back = route(&mut b, address(0));
            for size in sizes {
                send(&mut a, &there, &packet(size));
                send(&mut b, &back, &packet(size));
            }
            // Each frame passes the bridge and two ports.
            let frames = sniff(&sniffer, sizes.len() * 4);
            assert!(frames.len() >= sizes.len() * 4, "{} {}", mode.name(), frames.len());
            for bytes in frames {
                let frame = parse_ethernet(&bytes).expect("RoCE");
                assert!(
                    frame.icrc_is_right(),
                    "{} {:02x?}",
                    mode.name(),
                    &bytes[..64.min(bytes.len())]
                );
            }
        }
    }
}

#[test]
fn packets_to_ourselves_come_back() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let mut path = lab.open(0, lab::v4(0), XdpMode::Generic);
    let own = route(&mut path, lab::v4(0));
    assert!(!path.arm());
    send(&mut path, &own, &packet(100));
    assert!(path.arm());
    let mut got = Vec::new();
    let count = path.recv(8, &mut |packet| {
        got.push((packet.src, packet.dst, packet.traffic_class, packet.ip_id));
        assert_eq!(packet.payload.len(), 100);
    });
    assert_eq!(count.expect("recv"), 1);
    assert_eq!(got, [(own.src, own.dst, 2, IpId::Known(0))]);
}

/// Whether the waiter wakes within a second.
fn readable(path: &XdpDatapath) -> bool {
    let waiter = path.waiter().expect("waiter");
    let wait = Timespec { tv_sec: 1, tv_nsec: 0 };
    poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&wait)).expect("poll") == 1
}

#[test]
fn a_neighbour_is_found_and_packets_wait_for_it() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    for address in [lab::v4, lab::v6] {
        for (host, other) in [(0, 1), (1, 0)] {
            lab.run(host, &["ip", "neigh", "del", &address(other).to_string(), "dev", INTERFACE]);
        }
        let mut a = lab.open(0, address(0), XdpMode::Generic);
        let mut b = lab.open(1, address(1), XdpMode::Generic);
        let there = route(&mut a, address(1));
        lab.ip(&lab.switch(), "link set p1 down");
        for n in 0..10u8 {
            let mut bytes = packet(64);
            bytes[12] = n;
            send(&mut a, &there, &bytes);
        }
        lab.ip(&lab.switch(), "link set p1 up");
        let end = Instant::now() + Duration::from_secs(5);
        let (mut got, mut calls) = (Vec::new(), 0);
        while got.len() < 10 && Instant::now() < end {
            // What a sleeper does: it is called back although nothing arrives.
            calls += usize::from(!a.arm() && readable(&a));
            assert_eq!(a.recv(64, &mut |_| ()).expect("recv"), 0);
            b.recv(64, &mut |packet| got.push(packet.payload[12])).expect("recv");
        }
        assert!(calls > 0);
        assert_eq!(got, (0..10).collect::<Vec<u8>>(), "{:?}", a.last_problem());
        assert_eq!(a.stats().tx_dropped, 0);
    }
}

#[test]
fn a_way_that_does_not_exist_is_a_counted_drop_with_a_reason() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let mut path = lab.open(0, lab::v4(0), XdpMode::Generic);
    let far = route(&mut path, IpAddr::from([192, 0, 2, 1]));
    send(&mut path, &far, &packet(64));
    assert_eq!(path.stats().tx_dropped, 1);
    let problem = path.last_problem().expect("a reason");
    assert!(problem.contains("192.0.2.1") && problem.contains("ip route"), "{problem}");
    // Too long for the link.
    lab.ip(&lab.host(0), &format!("link set {INTERFACE} mtu 1500"));
    let near = route(&mut path, lab::v4(1));
    send(&mut path, &near, &packet(2000));
    assert_eq!(path.stats().tx_dropped, 2);
    assert!(path.last_problem().expect("a reason").contains("1500"), "{:?}", path.last_problem());
}

/// Sends a packet each way; neighbours are found on the way.
fn exchange(a: &mut XdpDatapath, b: &mut XdpDatapath) {
    for _ in 0..2 {
        let (from, to) = (route(a, b.local().ip()), packet(4196));
        send(a, &from, &to);
        let end = Instant::now() + Duration::from_secs(3);
        let mut got = 0;
        while got == 0 && Instant::now() < end {
            a.flush().expect("flush");
            b.recv(8, &mut |packet| got = packet.payload.len()).expect("recv");
        }
        assert_eq!(got, 4196, "{:?}", a.last_problem());
        std::mem::swap(a, b);
    }
}

#[test]
fn with_a_vlan_every_frame_carries_the_tag() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    // A link without the bridge, which would take the tag out of the bytes.
    let peer =
        format!("link add d0 mtu 9000 type veth peer name d0 mtu 9000 netns {}", lab.host(1));
    lab.ip(&lab.host(0), &peer);
    let addresses = [1, 2].map(|last| IpAddr::from([10, 78, 0, last]));
    for (host, address) in addresses.into_iter().enumerate() {
        lab.ip(&lab.host(host), "link set d0 up");
        lab.ip(&lab.host(host), &format!("addr add {address}/24 dev d0"));
    }
    let open = |host: usize, vlan| {
        let config = XdpConfig { vlan, ..XdpConfig::new((addresses[host], 4791).into()) };
        lab.open_soon(host, &config).expect("open")
    };
    // The program takes only frames with the tag in their bytes, so a packet that arrives had it.
    let (mut a, mut b) = (open(0, Some(100)), open(1, Some(100)));
    exchange(&mut a, &mut b);
    // Frames of a VLAN are not for who has another one or none.
    drop(b);
    for other in [None, Some(101)] {
        let mut b = open(1, other);
        let there = route(&mut a, addresses[1]);
        send(&mut a, &there, &packet(64));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(b.recv(8, &mut |_| ()).expect("recv"), 0);
    }
}

#[test]
fn every_receive_queue_is_served() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let peer = format!(
        "link add d0 numrxqueues 4 numtxqueues 4 type veth peer name d0 numrxqueues 4 numtxqueues 4 \
         netns {}",
        lab.host(1)
    );
    lab.ip(&lab.host(0), &peer);
    let addresses = [1, 2].map(|last| IpAddr::from([10, 79, 0, last]));
    for (host, address) in addresses.into_iter().enumerate() {
        lab.ip(&lab.host(host), "link set d0 up");
        lab.ip(&lab.host(host), &format!("addr add {address}/24 dev d0"));
    }
    for mode in [XdpMode::Generic, XdpMode::Native] {
        let mut path = lab.open(1, addresses[1], mode);
        // The kernel spreads flows over the queues by their ports.
        let sockets: Vec<UdpSocket> = lab.inside(&lab.host(0), || {
            (0..32).map(|_| UdpSocket::bind("10.79.0.1:0").expect("bind")).collect()
        });
        for socket in &sockets {
            socket.send_to(b"a queue", (addresses[1], 4791)).expect("send");
        }
        let end = Instant::now() + Duration::from_secs(3);
        let mut ports = Vec::new();
        while ports.len() < sockets.len() && Instant::now() < end {
            path.recv(64, &mut |packet| ports.push(packet.src.port())).expect("recv");
        }
        ports.sort_unstable();
        let local = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
        let mut sent: Vec<u16> = sockets.iter().map(local).collect();
        sent.sort_unstable();
        assert_eq!(ports, sent, "{}", mode.name());
    }
}

#[test]
fn a_burst_that_arrives_as_one_frame_is_taken_apart() {
    if lab::cannot_run() {
        return;
    }
    for (mode, address) in [
        (XdpMode::Generic, lab::v4 as fn(usize) -> IpAddr),
        (XdpMode::Generic, lab::v6),
        (XdpMode::Native, lab::v4),
    ] {
        let lab = Lab::new();
        let mut b = lab.open(1, address(1), mode);
        let local = SocketAddr::new(address(0), 4791);
        let mut a = lab.inside(&lab.host(0), move || {
            PacketDatapath::open(&PacketConfig::new(local)).expect("AF_PACKET")
        });
        assert!(a.caps().segments > 8);
        let src = SocketAddr::new(local.ip(), 0xC777);
        let route = Route { src, dst: b.local(), hop_limit: 64, traffic_class: 0 };
        for (size, count) in [(1084, 50), (4156, 15), (108, 20), (20, 2)] {
            let mut sent = Vec::new();
            for _ in 0..count {
                commit(&mut a, &route, &packet(size), &mut sent);
            }
            assert_eq!(a.flush().expect("flush").sent, count);
            let end = Instant::now() + Duration::from_secs(2);
            let mut got = Vec::new();
            while got.len() < count && Instant::now() < end {
                // A limit that no train respects.
                b.recv(7, &mut |packet| {
                    let (flow, id) = flow_of(&packet);
                    assert!(verify(&flow, id, packet.payload), "{size}: {}", got.len());
                    got.push(packet.payload.to_vec());
                })
                .expect("recv");
            }
            assert!(got == sent, "{} {size}: {} of {count}", mode.name(), got.len());
        }
    }
}

/// Puts a packet with a right ICRC into the burst, and a copy into `sent`.
fn commit(path: &mut impl Datapath, route: &Route, payload: &[u8], sent: &mut Vec<Vec<u8>>) {
    let flow = Flow {
        src: route.src.ip(),
        dst: route.dst.ip(),
        src_port: route.src.port(),
        dst_port: route.dst.port(),
    };
    path.tx_space().expect("room")[..payload.len()].copy_from_slice(payload);
    path.tx_commit(route, payload.len(), &mut |id, bytes| {
        let (covered, trailer) = bytes.split_last_chunk_mut::<4>().expect("room for the ICRC");
        *trailer = icrc(&flow, id, covered).to_le_bytes();
        sent.push(bytes.to_vec());
    });
}

fn flow_of(packet: &RxPacket<'_>) -> (Flow, u16) {
    let (src, dst) = (packet.src, packet.dst);
    let (src_port, dst_port) = (src.port(), dst.port());
    (Flow { src: src.ip(), dst: dst.ip(), src_port, dst_port }, packet.ip_id.known_or_zero())
}
