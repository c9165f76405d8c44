use libc::{BPF_IND, BPF_JEQ, BPF_JMP, BPF_LD, BPF_RET};

use super::*;

/// What the kernel knows of a packet beside its bytes.
#[derive(Clone, Copy)]
struct Arrival {
    interface: u32,
    packet_type: u8,
    hardware: u16,
}

const ON_ETHERNET: Arrival = Arrival { interface: 7, packet_type: 0, hardware: ETHERNET };

/// The registers of the machine that the kernel runs the program on.
#[derive(Default)]
struct Machine {
    a: u32,
    x: u32,
    at: usize,
}

impl Machine {
    /// One step; the answer of the program if it ends with this one.
    fn step(&mut self, step: &sock_filter, arrival: Arrival, bytes: &[u8]) -> Option<u32> {
        self.at += 1;
        let (code, k) = (u32::from(step.code), step.k);
        let holds = match code & 0xf0 {
            BPF_JEQ => self.a == k,
            _ => self.a & k != 0,
        };
        match code {
            c if c == BPF_RET | BPF_K => return Some(k),
            c if c & 7 == BPF_JMP => self.at += usize::from(if holds { step.jt } else { step.jf }),
            c if c == BPF_LDX | BPF_W | BPF_IMM => self.x = k,
            c if c == BPF_MISC | BPF_TAX => self.x = self.a,
            c if c == BPF_ALU | BPF_AND | BPF_K => self.a &= k,
            c if c == BPF_ALU | BPF_LSH | BPF_K => self.a <<= k,
            c if c == BPF_ALU | BPF_RSH | BPF_K => self.a >>= k,
            c if c == BPF_ALU | BPF_ADD | BPF_X => self.a += self.x,
            c if c & 7 == BPF_LD => match loaded(c, k, self.x, arrival, bytes) {
                Some(value) => self.a = value,
                None => return Some(0),
            },
            c => panic!("code {c:#x}"),
        }
        None
    }
}

/// What a load gives; `None` behind the end, which drops the packet.
fn loaded(code: u32, k: u32, x: u32, arrival: Arrival, bytes: &[u8]) -> Option<u32> {
    match k {
        INTERFACE => return Some(arrival.interface),
        PACKET_TYPE => return Some(arrival.packet_type.into()),
        HARDWARE => return Some(arrival.hardware.into()),
        _ => {}
    }
    let size = match code & 0x18 {
        BPF_B => 1,
        BPF_H => 2,
        _ => 4,
    };
    let at = if code & 0xe0 == BPF_IND { k.checked_add(x)? } else { k } as usize;
    let bytes = bytes.get(at..at + size)?;
    Some(bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
}

/// How many bytes the program takes of the frame.
fn taken(interfaces: &[u32], arrival: Arrival, frame: &[u8]) -> u32 {
    let program = roce(interfaces, 4791, 96);
    let mut machine = Machine::default();
    loop {
        if let Some(answer) = machine.step(&program[machine.at], arrival, frame) {
            return answer;
        }
    }
}

fn takes(frame: &[u8]) -> bool {
    taken(&[], ON_ETHERNET, frame) == 96
}

/// An IPv4 packet with so many bytes of options.
fn ipv4(options: usize, port: u16) -> Vec<u8> {
    let mut packet = vec![0x45 + (options / 4) as u8, 0, 0, 0, 0, 0, 0x40, 0, 64, 17];
    packet.resize(20 + options, 0);
    packet.extend([0xc0, 0]);
    packet.extend(port.to_be_bytes());
    packet.resize(packet.len() + 20, 0);
    packet
}

fn ipv6(next_header: u8, port: u16) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next_header, 64];
    packet.resize(40 + 2, 0);
    packet.extend(port.to_be_bytes());
    packet.resize(packet.len() + 20, 0);
    packet
}

/// An Ethernet frame; its last Ethertype is that of the packet.
fn ethernet(types: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let (last, tags) = types.split_last().expect("an Ethertype");
    for tag in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend([0, 5]);
    }
    frame.extend(last.to_be_bytes());
    frame.extend_from_slice(packet);
    frame
}

#[test]
fn rocev2_is_taken_by_its_port() {
    for (port, ours) in [(4791, true), (4790, false)] {
        assert_eq!(takes(&ethernet(&[0x0800], &ipv4(0, port))), ours);
        assert_eq!(takes(&ethernet(&[0x0800], &ipv4(8, port))), ours);
        assert_eq!(takes(&ethernet(&[0x86dd], &ipv6(17, port))), ours);
    }
    assert!(!takes(&ethernet(&[0x86dd], &ipv6(6, 4791))), "TCP");
}

#[test]
fn rocev2_is_taken_behind_two_vlan_tags() {
    for tags in [&[0x8100, 0x0800][..], &[0x88a8, 0x0800], &[0x88a8, 0x8100, 0x0800]] {
        assert!(takes(&ethernet(tags, &ipv4(0, 4791))), "{tags:x?}");
        assert!(!takes(&ethernet(tags, &ipv4(0, 53))), "{tags:x?}");
    }
    assert!(!takes(&ethernet(&[0x8100, 0x8100, 0x8100, 0x0800], &ipv4(0, 4791))));
}

#[test]
fn rocev1_is_taken_by_its_ethertype() {
    assert!(takes(&ethernet(&[0x8915], &[0; 60])));
    assert!(takes(&ethernet(&[0x8100, 0x8915], &[0; 60])));
    assert!(!takes(&ethernet(&[0x0806], &[0; 60])));
}

#[test]
fn later_fragments_and_short_frames_are_dropped() {
    let mut fragment = ethernet(&[0x0800], &ipv4(0, 4791));
    fragment[14 + 7] = 9;
    assert!(!takes(&fragment));
    let whole = ethernet(&[0x0800], &ipv4(0, 4791));
    assert!((0..whole.len() - 20).all(|length| !takes(&whole[..length])));
}

#[test]
fn a_packet_on_loopback_is_taken_once() {
    let frame = ethernet(&[0x0800], &ipv4(0, 4791));
    let on =
        |hardware, packet_type| taken(&[], Arrival { interface: 1, packet_type, hardware }, &frame);
    assert_eq!((on(LOOPBACK, 0), on(LOOPBACK, libc::PACKET_OUTGOING)), (96, 0));
    assert_eq!((on(ETHERNET, 0), on(ETHERNET, libc::PACKET_OUTGOING)), (96, 96));
}

#[test]
fn interfaces_without_ethernet_begin_with_ip() {
    let on = |hardware, packet: &[u8]| taken(&[], Arrival { hardware, ..ON_ETHERNET }, packet);
    for hardware in RAW_IP {
        assert_eq!(on(hardware, &ipv4(0, 4791)), 96);
        assert_eq!(on(hardware, &ipv6(17, 4791)), 96);
        assert_eq!(on(hardware, &ipv4(0, 53)), 0);
    }
    assert_eq!(on(803, &ipv4(0, 4791)), 0, "802.11");
}

#[test]
fn only_the_named_interfaces_count() {
    let frame = ethernet(&[0x0800], &ipv4(0, 4791));
    assert_eq!(taken(&[5, 7], ON_ETHERNET, &frame), 96);
    assert_eq!(taken(&[5, 6], ON_ETHERNET, &frame), 0);
    let many: Vec<u32> = (0..super::super::MOST_INTERFACES as u32).collect();
    assert_eq!(taken(&many, ON_ETHERNET, &frame), 96);
}
