//! Capturing from interfaces, in network namespaces.

use std::net::UdpSocket;
use std::time::{Duration, Instant, SystemTime};

use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};
use uroce_datapath::Direction;
use uroce_packet::capture::{CaptureConfig, CaptureError, CaptureSocket, interface_name};
use uroce_testkit::namespace::{Namespace, Wire};

/// What a frame was like.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    interface: String,
    direction: Direction,
    data: Vec<u8>,
    original_len: u32,
    age: Duration,
}

fn on(names: &[&str]) -> CaptureConfig {
    let interfaces = names.iter().map(|name| (*name).to_owned()).collect();
    CaptureConfig { interfaces, ring_bytes: 4 << 20, ..CaptureConfig::default() }
}

/// All frames, when `count` of them have come and nothing more comes.
fn frames(capture: &mut CaptureSocket, count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let end = Instant::now() + Duration::from_secs(10);
    while seen.len() < count && Instant::now() < end {
        capture.wait(Duration::from_millis(100)).expect("up");
        collect(capture, &mut seen);
    }
    // One more block at most is under way.
    capture.wait(Duration::from_millis(60)).expect("up");
    collect(capture, &mut seen);
    seen
}

fn collect(capture: &mut CaptureSocket, seen: &mut Vec<Seen>) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    while let Some(frame) = capture.next_frame() {
        seen.push(Seen {
            interface: interface_name(frame.interface).unwrap_or_default(),
            direction: frame.direction,
            data: frame.data.to_vec(),
            original_len: frame.original_len,
            age: now.saturating_sub(frame.time),
        });
    }
}

/// Sends datagrams whose payload is 100 bytes of their number.
fn send(from: &str, to: &str, count: u8) {
    let socket = UdpSocket::bind(from).expect("bound");
    for number in 0..count {
        socket.send_to(&[number; 100], to).expect("sent");
    }
}

#[test]
fn a_packet_on_loopback_is_captured_once_and_other_ports_are_not() {
    let Some(space) = Namespace::open() else { return };
    let seen = space.run(|| {
        let mut capture = CaptureSocket::open(&on(&[])).expect("opens");
        let _receiver = UdpSocket::bind("127.0.0.1:4791").expect("free");
        let _other = UdpSocket::bind("127.0.0.1:4792").expect("free");
        send("127.0.0.1:0", "127.0.0.1:4792", 3);
        send("127.0.0.1:0", "127.0.0.1:4791", 5);
        frames(&mut capture, 5)
    });
    let payloads: Vec<u8> = seen.iter().map(|frame| frame.data[42]).collect();
    assert_eq!(payloads, [0, 1, 2, 3, 4]);
    for frame in &seen {
        assert_eq!((frame.interface.as_str(), frame.direction), ("lo", Direction::Inbound));
        assert_eq!((frame.data.len(), frame.original_len), (142, 142));
        assert!(frame.age < Duration::from_secs(60), "{:?}", frame.age);
    }
}

#[test]
fn both_directions_of_a_wire_are_told_apart_and_cut_to_the_snap_length() {
    let Some(wire) = Wire::new(1500) else { return };
    let open = || CaptureSocket::open(&CaptureConfig { snap_len: 60, ..on(&["wa"]) });
    let mut capture = wire.a.run(open).expect("opens");
    wire.a.run(|| send("10.77.0.1:0", "10.77.0.2:4791", 2));
    wire.b.run(|| send("[fd77::2]:0", "[fd77::1]:4791", 1));
    let seen = wire.a.run(move || {
        let seen = frames(&mut capture, 3);
        (seen, capture.counts().expect("counted"))
    });
    let (mut seen, counts) = seen;
    seen.sort_by_key(|frame| frame.direction == Direction::Inbound);
    let directions: Vec<_> = seen.iter().map(|frame| frame.direction).collect();
    assert_eq!(directions, [Direction::Outbound, Direction::Outbound, Direction::Inbound]);
    assert!(seen.iter().all(|frame| frame.data.len() == 60 && frame.interface == "wa"));
    assert_eq!(seen.iter().map(|frame| frame.original_len).collect::<Vec<_>>(), [142, 142, 162]);
    assert_eq!((counts.packets, counts.dropped), (3, 0));
}

/// Sends a frame as it is, from the interface of that name.
fn send_frame(interface: &str, frame: &[u8]) {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None).expect("AF_PACKET");
    let name = std::ffi::CString::new(interface).expect("a name");
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: `sockaddr_ll` holds integers only and is not longer than the storage; the name ends with
    // a zero byte.
    let to = unsafe {
        let address = storage.view_as::<libc::sockaddr_ll>();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()).cast_signed();
        SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as u32)
    };
    socket.send_to(frame, &to).expect("sent");
}

#[test]
fn a_vlan_tag_that_the_kernel_took_out_is_in_the_frame() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut captures = [(&wire.a, "wa"), (&wire.b, "wb")]
        .map(|(space, name)| space.run(move || CaptureSocket::open(&on(&[name])).expect("opens")));
    let mut frame = [[2, 0, 0, 0, 0, 0x0b], [2, 0, 0, 0, 0, 0x0a]].concat();
    frame.extend([0x81, 0, 0x60, 7, 0x89, 0x15]);
    frame.extend(0..100);
    let sent = frame.clone();
    wire.a.run(move || send_frame("wa", &sent));
    for capture in &mut captures {
        let seen = frames(capture, 1);
        assert_eq!(seen.len(), 1);
        assert_eq!((&seen[0].data, seen[0].original_len), (&frame, frame.len() as u32));
    }
}

#[test]
fn a_full_ring_counts_what_it_drops() {
    let Some(space) = Namespace::open() else { return };
    let (kept, counts) = space.run(|| {
        let mut capture = CaptureSocket::open(&on(&["lo"])).expect("opens");
        let receiver = UdpSocket::bind("127.0.0.1:4791").expect("free");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let mut whole = [0; 60_000];
        for _ in 0..200 {
            socket.send_to(&whole, "127.0.0.1:4791").expect("sent");
            receiver.recv(&mut whole).expect("received");
        }
        let mut kept = 0;
        while capture.next_frame().is_some() {
            kept += 1;
        }
        (kept, capture.counts().expect("counted"))
    });
    assert_eq!(counts.packets, 200);
    assert!(counts.dropped > 0 && kept + counts.dropped == 200, "{kept} and {counts:?}");
}

#[test]
fn an_interface_that_goes_down_is_told() {
    let Some(wire) = Wire::new(1500) else { return };
    let capture = wire.a.run(|| CaptureSocket::open(&on(&["wa"]))).expect("opens");
    wire.a.sh("ip link set wa down");
    let error = wire.a.run(move || capture.wait(Duration::from_secs(5)));
    let error = error.expect_err("down").raw_os_error();
    assert_eq!(error, Some(rustix::io::Errno::NETDOWN.raw_os_error()));
}

#[test]
fn an_unknown_interface_is_named_with_those_there_are() {
    let Some(space) = Namespace::open() else { return };
    let error = space.run(|| CaptureSocket::open(&on(&["eth77"])).err());
    assert!(
        matches!(&error, Some(CaptureError::NoInterface { name, there })
        if name == "eth77" && there == "lo"),
        "{error:?}"
    );
}
