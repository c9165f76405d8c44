//! Classic BPF programs that decide in the kernel what reaches a socket.

use std::net::{IpAddr, SocketAddr};

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K,
    BPF_LD, BPF_LDX, BPF_LSH, BPF_MISC, BPF_MSH, BPF_RET, BPF_SUB, BPF_TAX, BPF_W, sock_filter,
};
use socket2::SockFilter;
use uroce_link::Groups;
use uroce_wire::Slot;

/// Where the kernel's own facts about a packet are loaded from (linux/filter.h).
const PACKET_TYPE: u32 = (-0x1000i32 + 4).cast_unsigned();
const INTERFACE: u32 = (-0x1000i32 + 8).cast_unsigned();

/// Packet types from this one on are not for this host (`PACKET_OTHERHOST`).
const FOR_OTHERS: u32 = 3;

/// Where the IP header begins, wherever the kernel takes the packet to begin (linux/filter.h).
const NETWORK: u32 = (-0x10_0000i32).cast_unsigned();

/// The IP header behind the Ethernet header. VLAN tags are not part of the bytes.
const IP: u32 = 14;

const UDP: u32 = 17;

/// Bytes of the UDP header.
const UDP_HEADER: u32 = 8;

/// Takes a packet whole.
const EVERYTHING: u32 = u32::MAX;

/// A jump to the end of the program, which drops the packet; patched when the program is finished.
const DROP: u8 = u8::MAX;

/// Groups that a program can tell apart: jumps are 8 bits.
pub(super) const MAX_GROUPS: usize = 128;

/// A program that drops every packet.
pub(super) fn nothing() -> [SockFilter; 1] {
    [SockFilter::new((BPF_RET | BPF_K) as u16, 0, 0, 0)]
}

/// A program for a packet socket: UDP to the port of `local` and its address or one of `groups`, arrived
/// at one of two interfaces. It takes up to [`MAX_GROUPS`] groups.
///
/// Of an IPv6 group only the last 32 bits are compared; the reader is exact.
pub(super) fn ours(local: &SocketAddr, groups: &Groups, interfaces: [u32; 2]) -> Vec<SockFilter> {
    let program = program(local, groups, interfaces);
    program.iter().map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k)).collect()
}

fn program(local: &SocketAddr, groups: &Groups, interfaces: [u32; 2]) -> Vec<sock_filter> {
    let mut program = vec![
        load(BPF_W, INTERFACE),
        jump(BPF_JEQ, interfaces[0], 1, 0),
        jump(BPF_JEQ, interfaces[1], 0, DROP),
        load(BPF_W, PACKET_TYPE),
        jump(BPF_JGE, FOR_OTHERS, DROP, 0),
    ];
    let words = groups.iter().map(|group| match group {
        IpAddr::V4(group) => group.to_bits(),
        IpAddr::V6(group) => group.to_bits() as u32,
    });
    match local.ip() {
        IpAddr::V4(ip) => ipv4(&mut program, ip.to_bits(), local.port(), words),
        IpAddr::V6(ip) => ipv6(&mut program, ip.to_bits(), local.port(), words),
    }
    program.push(take());
    finish(program)
}

/// A program for a fanout group of packet sockets, one for each of `count` engines: a packet goes
/// to the engine whose slot its QPN names, and everything else to the first. Of packets that arrive
/// as one the first packet decides.
///
/// It does not look whether the packet is ours: the program of the socket does.
pub(super) fn engines(ipv4: bool, count: u32) -> Vec<sock_filter> {
    let slot = NETWORK + UDP_HEADER + Slot::OFFSET as u32;
    let mut program = Vec::new();
    if ipv4 {
        program.extend([
            // The length of the header, options included.
            load(BPF_B, NETWORK),
            step(BPF_ALU | BPF_AND | BPF_K, 0x0f),
            step(BPF_ALU | BPF_LSH | BPF_K, 2),
            step(BPF_MISC | BPF_TAX, 0),
            step(BPF_LD | BPF_B | BPF_IND, slot),
        ]);
    } else {
        program.push(load(BPF_B, slot + 40));
    }
    program.extend([
        // Slots count from 1, places from 0; what is less than 0 is very large.
        step(BPF_ALU | BPF_SUB | BPF_K, 1),
        jump(BPF_JGE, count, 0, 1),
        step(BPF_RET | BPF_K, 0),
        step(BPF_RET | BPF_A, 0),
    ]);
    program
}

/// Returns the accumulator; the C library has no name for it.
const BPF_A: u32 = 0x10;

/// Later fragments have no ports and are dropped here; everything else that is malformed is counted
/// by [`FrameReader`](uroce_link::FrameReader).
fn ipv4(
    program: &mut Vec<sock_filter>,
    address: u32,
    port: u16,
    groups: impl ExactSizeIterator<Item = u32>,
) {
    program.extend([
        load(BPF_B, IP + 9),
        jump(BPF_JEQ, UDP, 0, DROP),
        load(BPF_H, IP + 6),
        jump(BPF_JSET, 0x1fff, DROP, 0),
        // The length of the header, options included.
        step(BPF_LDX | BPF_B | BPF_MSH, IP),
        step(BPF_LD | BPF_H | BPF_IND, IP + 2),
        jump(BPF_JEQ, port.into(), 0, DROP),
        load(BPF_W, IP + 16),
        jump(BPF_JEQ, address, groups.len() as u8 + 1, 0),
    ]);
    one_of(program, groups);
}

fn ipv6(
    program: &mut Vec<sock_filter>,
    address: u128,
    port: u16,
    groups: impl ExactSizeIterator<Item = u32>,
) {
    program.extend([
        load(BPF_B, IP + 6),
        jump(BPF_JEQ, UDP, 0, DROP),
        load(BPF_H, IP + 40 + 2),
        jump(BPF_JEQ, port.into(), 0, DROP),
        load(BPF_B, IP + 24),
        jump(BPF_JEQ, 0xff, 9, 0),
    ]);
    for word in 0..4 {
        let bits = (address >> (96 - 32 * word)) as u32;
        program.extend([load(BPF_W, IP + 24 + 4 * word), jump(BPF_JEQ, bits, 0, DROP)]);
    }
    program.extend([take(), load(BPF_W, IP + 24 + 12)]);
    one_of(program, groups);
}

/// Goes on behind its own end when the loaded value is one of `words`; drops the packet otherwise.
fn one_of(program: &mut Vec<sock_filter>, words: impl ExactSizeIterator<Item = u32>) {
    let count = words.len();
    for (index, word) in words.enumerate() {
        program.push(jump(BPF_JEQ, word, (count - index) as u8, 0));
    }
    program.push(step(BPF_RET | BPF_K, 0));
}

/// Adds the end that drops, and aims the jumps at it.
fn finish(mut program: Vec<sock_filter>) -> Vec<sock_filter> {
    let end = program.len();
    for (index, step) in program.iter_mut().enumerate() {
        let distance = (end - index - 1) as u8;
        if u32::from(step.code) & 0x07 == BPF_JMP {
            step.jt = if step.jt == DROP { distance } else { step.jt };
            step.jf = if step.jf == DROP { distance } else { step.jf };
        }
    }
    program.push(step(BPF_RET | BPF_K, 0));
    program
}

fn take() -> sock_filter {
    step(BPF_RET | BPF_K, EVERYTHING)
}

fn load(size: u32, at: u32) -> sock_filter {
    step(BPF_LD | size | BPF_ABS, at)
}

fn jump(condition: u32, value: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | condition | BPF_K) as u16, jt, jf, k: value }
}

fn step(code: u32, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

#[cfg(test)]
mod tests;
