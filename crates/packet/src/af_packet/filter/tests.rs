use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_RET};
use uroce_datapath::Route;
use uroce_link::{Ethernet, HeaderTemplate, MAX_HEADERS};

use super::*;

/// Returns the accumulator; the C library has no name for it.
const BPF_A: u32 = 0x10;

const HOST: u32 = 0;

/// What the kernel knows of a packet beside its bytes.
#[derive(Clone, Copy)]
struct Arrival {
    interface: u32,
    packet_type: u32,
}

/// Runs the program as the kernel would; true when it takes the packet.
fn takes(program: &[sock_filter], arrival: Arrival, bytes: &[u8]) -> bool {
    let load = |at: u32, size: usize| {
        let bytes = bytes.get(at as usize..at as usize + size)?;
        Some(bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
    };
    let (mut a, mut x, mut pc) = (0, 0, 0);
    loop {
        let step = program[pc];
        pc += 1;
        let jump = |truth| usize::from(if truth { step.jt } else { step.jf });
        let loaded = match u32::from(step.code) {
            c if c == BPF_LD | BPF_W | BPF_ABS && step.k == INTERFACE => Some(arrival.interface),
            c if c == BPF_LD | BPF_W | BPF_ABS && step.k == PACKET_TYPE => {
                Some(arrival.packet_type)
            }
            c if c == BPF_LD | BPF_W | BPF_ABS => load(step.k, 4),
            c if c == BPF_LD | BPF_H | BPF_ABS => load(step.k, 2),
            c if c == BPF_LD | BPF_B | BPF_ABS => load(step.k, 1),
            c if c == BPF_LD | BPF_H | BPF_IND => load(x + step.k, 2),
            c if c == BPF_LDX | BPF_B | BPF_MSH => {
                x = 4 * (u32::from(bytes[step.k as usize]) & 0xf);
                continue;
            }
            c if c == BPF_JMP | BPF_JEQ | BPF_K => {
                pc += jump(a == step.k);
                continue;
            }
            c if c == BPF_JMP | BPF_JGE | BPF_K => {
                pc += jump(a >= step.k);
                continue;
            }
            c if c == BPF_JMP | BPF_JSET | BPF_K => {
                pc += jump(a & step.k != 0);
                continue;
            }
            c if c == BPF_RET | BPF_K => return step.k != 0,
            code => panic!("code {code:#x}"),
        };
        // A load behind the end drops the packet.
        let Some(value) = loaded else { return false };
        a = value;
    }
}

fn frame(src: &str, dst: &str) -> Vec<u8> {
    let (src, dst) = (src.parse().expect("src"), dst.parse().expect("dst"));
    let route = Route { src, dst, hop_limit: 64, traffic_class: 0 };
    let ethernet = Ethernet { src: [2; 6], dst: [4; 6], vlan: None };
    let template = HeaderTemplate::new(&ethernet, &route).expect("template");
    let mut frame = vec![0; MAX_HEADERS + 64];
    let len = template.write(0, 64, &mut frame).expect("room");
    frame.truncate(len + 64);
    frame
}

fn check(local: &str, cases: &[(&str, &str, bool)]) {
    let mut groups = Groups::default();
    for group in ["239.1.2.3", "239.1.2.4", "ff12::1", "ff12::2"] {
        let group: IpAddr = group.parse().expect("group");
        if local.contains('[') == group.is_ipv6() {
            groups.insert(group);
        }
    }
    let program = ours(&local.parse().expect("local"), &groups, [7, 1]);
    for &(src, dst, expected) in cases {
        let bytes = frame(src, dst);
        for (interface, packet_type, may) in
            [(7, HOST, true), (1, HOST, true), (7, 2, true), (2, HOST, false), (7, 3, false)]
        {
            let arrival = Arrival { interface, packet_type };
            let taken = takes(&program, arrival, &bytes);
            assert_eq!(taken, expected && may, "{dst} {interface} {packet_type}");
        }
    }
}

#[test]
fn ipv4_to_our_address_or_a_joined_group_and_our_port_passes() {
    let from = "10.0.0.9:4791";
    check(
        "10.0.0.1:4791",
        &[
            (from, "10.0.0.1:4791", true),
            (from, "239.1.2.3:4791", true),
            (from, "239.1.2.4:4791", true),
            (from, "239.1.2.5:4791", false),
            (from, "10.0.0.2:4791", false),
            (from, "10.0.0.1:4792", false),
            (from, "239.1.2.3:53", false),
        ],
    );
}

#[test]
fn ipv6_to_our_address_or_a_joined_group_and_our_port_passes() {
    let from = "[fd00::9]:4791";
    check(
        "[fd00::1:2:3:4]:4791",
        &[
            (from, "[fd00::1:2:3:4]:4791", true),
            (from, "[ff12::1]:4791", true),
            (from, "[ff12::2]:4791", true),
            (from, "[ff12::3]:4791", false),
            (from, "[fd01::1:2:3:4]:4791", false),
            (from, "[fd00::1:2:3:5]:4791", false),
            (from, "[fd00::1:2:3:4]:4792", false),
        ],
    );
}

#[test]
fn a27_other_protocols_and_later_fragments_stay_outside_options_do_not() {
    let program = ours(&"10.0.0.1:4791".parse().expect("local"), &Groups::default(), [7, 1]);
    let arrival = Arrival { interface: 7, packet_type: HOST };
    let good = frame("10.0.0.9:1", "10.0.0.1:4791");
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        takes(&program, arrival, &bytes)
    };
    assert!(with(|_| ()));
    assert!(!with(|bytes| bytes[23] = 6));
    assert!(!with(|bytes| bytes[21] = 1));
    assert!(!with(|bytes| bytes.truncate(30)));
    // The first fragment and a packet with options reach the reader, which counts them.
    assert!(with(|bytes| bytes[20] |= 0x20));
    assert!(with(|bytes| {
        bytes[14] = 0x46;
        bytes.splice(34..34, [1, 1, 1, 0]);
    }));
}

#[test]
fn as_many_groups_as_are_allowed_fit_into_the_jumps() {
    for local in ["10.0.0.1:4791", "[fd00::1]:4791"] {
        let local: SocketAddr = local.parse().expect("local");
        let group = |n: usize| match local {
            SocketAddr::V4(_) => IpAddr::from([239, 1, 1, n as u8]),
            SocketAddr::V6(_) => IpAddr::from([0xff12, 0, 0, 0, 0, 0, 0, n as u16]),
        };
        let mut groups = Groups::default();
        (0..MAX_GROUPS).for_each(|n| groups.insert(group(n)));
        let program = ours(&local, &groups, [7, 1]);
        let arrival = Arrival { interface: 7, packet_type: HOST };
        for n in 0..MAX_GROUPS + 10 {
            let dst = SocketAddr::new(group(n), 4791).to_string();
            let src = SocketAddr::new(local.ip(), 1).to_string();
            assert_eq!(takes(&program, arrival, &frame(&src, &dst)), n < MAX_GROUPS, "{dst}");
        }
    }
}

/// Runs the program for engines as the kernel would; the packet begins with its IP header.
fn place(program: &[sock_filter], packet: &[u8]) -> u32 {
    let (mut a, mut x, mut pc) = (0u32, 0u32, 0);
    loop {
        let step = program[pc];
        let byte = |at: u32| packet.get((at.wrapping_sub(NETWORK)) as usize).copied();
        pc += 1;
        let loaded = match u32::from(step.code) {
            c if c == BPF_LD | BPF_B | BPF_ABS => byte(step.k),
            c if c == BPF_LD | BPF_B | BPF_IND => byte(x.wrapping_add(step.k)),
            c => {
                match c {
                    c if c == BPF_ALU | BPF_AND | BPF_K => a &= step.k,
                    c if c == BPF_ALU | BPF_LSH | BPF_K => a <<= step.k,
                    c if c == BPF_ALU | BPF_SUB | BPF_K => a = a.wrapping_sub(step.k),
                    c if c == BPF_MISC | BPF_TAX => x = a,
                    c if c == BPF_JMP | BPF_JGE | BPF_K => {
                        pc += usize::from(if a >= step.k { step.jt } else { step.jf });
                    }
                    c if c == BPF_RET | BPF_K => return step.k,
                    c if c == BPF_RET | BPF_A => return a,
                    code => panic!("code {code:#x}"),
                }
                continue;
            }
        };
        // A load behind the end ends the program with 0.
        let Some(value) = loaded else { return 0 };
        a = value.into();
    }
}

#[test]
fn a_packet_goes_to_the_engine_whose_slot_it_names() {
    for (from, to) in [("10.0.0.9:1", "10.0.0.1:4791"), ("[fd00::9]:1", "[fd00::1]:4791")] {
        let mut packet = frame(from, to).split_off(14);
        let ipv4 = to.starts_with('1');
        let slot = if ipv4 { 28 } else { 48 } + Slot::OFFSET;
        let program = engines(ipv4, 3);
        for (number, expected) in [(1, 0), (2, 1), (3, 2), (0, 0), (4, 0), (254, 0), (255, 0)] {
            packet[slot] = number;
            assert_eq!(place(&program, &packet), expected, "slot {number} of {to}");
        }
        packet[slot] = 3;
        packet.truncate(slot);
        assert_eq!(place(&program, &packet), 0, "too short for a slot");
    }
    // Behind options.
    let mut packet = frame("10.0.0.9:1", "10.0.0.1:4791").split_off(14);
    packet[0] = 0x46;
    packet.splice(20..20, [1, 1, 1, 0]);
    packet[32 + Slot::OFFSET] = 2;
    assert_eq!(place(&engines(true, 3), &packet), 1);
}
