//! The verdicts of the program, asked of the kernel itself.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use etherparse::{PacketBuilder, VlanId};

use super::*;
use crate::queue::{Queue, QueueSize};
use crate::sys::bpf::{self, Map, MapKind, test_run};

const REDIRECT: u32 = 4;
const LEFT_ALONE: u32 = PASS.cast_unsigned();

const OURS_V4: [u8; 4] = [10, 1, 2, 3];
const PEER_V4: [u8; 4] = [10, 1, 2, 4];

fn ours_v6() -> [u8; 16] {
    "fd00::3".parse::<Ipv6Addr>().expect("address").octets()
}

/// A loaded program with a socket on queue 0.
struct Loaded {
    program: OwnedFd,
    _socket: Queue,
    _sockets: Map<u32, u32>,
    addresses: Map<[u8; 16], u32>,
}

/// `None` without the right to load a program.
fn loaded(vlan: Option<u16>, frags: bool) -> Option<Loaded> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: loading a program needs root");
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        return None;
    }
    let socket = Queue::new(QueueSize { receive: 8, transmit: 8 }).expect("socket");
    let sockets: Map<u32, u32> = Map::new(MapKind::Xsk, 4).expect("map");
    sockets.insert(0, rustix::fd::AsRawFd::as_raw_fd(&socket.as_fd()) as u32).expect("insert");
    let addresses: Map<[u8; 16], u32> = Map::new(MapKind::Hash, 8).expect("map");
    for ours in [IpAddr::from(OURS_V4), IpAddr::from(ours_v6())] {
        addresses.insert(key_of(ours), 1).expect("insert");
    }
    let filter = Filter { port: 4791, vlan, addresses: addresses.fd(), sockets: sockets.fd() };
    let program = bpf::load(&redirect(&filter), frags).expect("the verifier accepts it");
    Some(Loaded { program, _socket: socket, _sockets: sockets, addresses })
}

impl Loaded {
    fn verdict(&self, frame: &[u8]) -> u32 {
        test_run::verdict(self.program.as_fd(), frame).expect("test run")
    }
}

fn v4(vlan: Option<u16>, dst: [u8; 4], port: u16) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let mut frame = Vec::new();
    let ip = match vlan {
        Some(id) => ethernet.single_vlan(VlanId::try_new(id).expect("id")).ipv4(PEER_V4, dst, 64),
        None => ethernet.ipv4(PEER_V4, dst, 64),
    };
    ip.udp(50_000, port).write(&mut frame, &[0; 32]).expect("frame");
    frame
}

fn v6(vlan: Option<u16>, dst: [u8; 16], port: u16) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let mut frame = Vec::new();
    let ip = match vlan {
        Some(id) => ethernet.single_vlan(VlanId::try_new(id).expect("id")).ipv6([1; 16], dst, 64),
        None => ethernet.ipv6([1; 16], dst, 64),
    };
    ip.udp(50_000, port).write(&mut frame, &[0; 32]).expect("frame");
    frame
}

#[test]
fn roce_packets_for_us_are_redirected() {
    for frags in [false, true] {
        let Some(program) = loaded(None, frags) else { return };
        for frame in [
            v4(None, OURS_V4, 4791),
            v4(Some(0), OURS_V4, 4791),
            v6(None, ours_v6(), 4791),
            v6(Some(0), ours_v6(), 4791),
        ] {
            assert_eq!(program.verdict(&frame), REDIRECT, "{frame:02x?}");
        }
    }
}

#[test]
fn everything_else_is_left_to_the_kernel() {
    let Some(program) = loaded(None, true) else { return };
    let near_v4 = [10, 1, 2, 2];
    let mut near_v6 = ours_v6();
    near_v6[15] ^= 1;
    let changed = |at: usize, to: u8| {
        let mut frame = v4(None, OURS_V4, 4791);
        frame[at] = to;
        frame
    };
    let changed_v6 = |at: usize, to: u8| {
        let mut frame = v6(None, ours_v6(), 4791);
        frame[at] = to;
        frame
    };
    let mut tcp = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(PEER_V4, OURS_V4, 64);
    builder.tcp(4791, 4791, 1, 1).write(&mut tcp, &[0; 32]).expect("frame");
    let frames = [
        v4(None, OURS_V4, 4790),
        v4(None, near_v4, 4791),
        v6(None, ours_v6(), 4792),
        v6(None, near_v6, 4791),
        v4(Some(1), OURS_V4, 4791),
        v6(Some(4095), ours_v6(), 4791),
        tcp,
        // ARP, a second tag, IP options, more fragments, an offset, ICMP.
        changed(13, 0x06),
        changed(12, 0x88),
        changed(14, 0x46),
        changed(20, 0x20),
        changed(21, 0x01),
        changed(23, 1),
        // A fragment header, ICMPv6.
        changed_v6(20, 44),
        changed_v6(20, 58),
    ];
    for frame in frames {
        assert_eq!(program.verdict(&frame), LEFT_ALONE, "{frame:02x?}");
    }
}

#[test]
fn with_a_vlan_only_its_frames_are_ours() {
    let Some(program) = loaded(Some(100), true) else { return };
    for (vlan, verdict) in
        [(Some(100), REDIRECT), (Some(101), LEFT_ALONE), (Some(0), LEFT_ALONE), (None, LEFT_ALONE)]
    {
        assert_eq!(program.verdict(&v4(vlan, OURS_V4, 4791)), verdict, "{vlan:?}");
        assert_eq!(program.verdict(&v6(vlan, ours_v6(), 4791)), verdict, "{vlan:?}");
    }
    // Priority bits are not part of the id.
    let mut frame = v4(Some(100), OURS_V4, 4791);
    frame[14] |= 0xe0;
    assert_eq!(program.verdict(&frame), REDIRECT);
}

#[test]
fn a_frame_cut_anywhere_in_its_headers_is_left_alone() {
    let Some(program) = loaded(None, true) else { return };
    for (frame, headers) in [(v4(None, OURS_V4, 4791), 42), (v6(None, ours_v6(), 4791), 62)] {
        // The kernel runs no program on less than an Ethernet header.
        for length in 14..=frame.len() {
            let expected = if length < headers { LEFT_ALONE } else { REDIRECT };
            assert_eq!(program.verdict(&frame[..length]), expected, "{length}");
        }
    }
}

#[test]
fn a_group_is_ours_from_joining_to_leaving() {
    let Some(program) = loaded(None, true) else { return };
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let frame = v4(None, group.octets(), 4791);
    assert_eq!(program.verdict(&frame), LEFT_ALONE);
    program.addresses.insert(key_of(group.into()), 1).expect("insert");
    assert_eq!(program.verdict(&frame), REDIRECT);
    program.addresses.remove(key_of(group.into())).expect("remove");
    assert_eq!(program.verdict(&frame), LEFT_ALONE);
}
