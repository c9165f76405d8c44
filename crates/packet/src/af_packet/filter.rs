//! Classic BPF programs that decide in the kernel what reaches a socket.

use std::net::{IpAddr, SocketAddr};

use libc::{
    BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JGE, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LSH,
    BPF_MISC, BPF_MSH, BPF_SUB, BPF_TAX, BPF_W, sock_filter,
};
use uroce_host::bpf::{INTERFACE, PACKET_TYPE, Program};
use uroce_link::Groups;
use uroce_wire::Slot;

/// Packet types from this one on are not for this host (`PACKET_OTHERHOST`).
const FOR_OTHERS: u32 = 3;

/// Where the IP header begins, wherever the kernel takes the packet to begin (linux/filter.h).
const NETWORK: u32 = libc::SKF_NET_OFF.cast_unsigned();

/// The IP header behind the Ethernet header. VLAN tags are not part of the bytes.
const IP: u32 = 14;

const UDP: u32 = 17;

/// Bytes of the UDP header.
const UDP_HEADER: u32 = 8;

/// Takes a packet whole.
const EVERYTHING: u32 = u32::MAX;

/// Groups that a program can tell apart: jumps are 8 bits.
pub(super) const MAX_GROUPS: usize = 128;

/// Steps that jumps aim at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Next,
    /// It arrived at one of our interfaces.
    Arrived,
    /// An IPv6 packet to a group.
    Group,
    /// Behind the slots that name an engine.
    First,
    Take,
    Drop,
}

/// A program for a packet socket: UDP to the port of `local` and its address or one of `groups`, arrived
/// at one of two interfaces. It takes up to [`MAX_GROUPS`] groups.
///
/// Of an IPv6 group only the last 32 bits are compared; the reader is exact.
pub(super) fn ours(local: &SocketAddr, groups: &Groups, interfaces: [u32; 2]) -> Vec<sock_filter> {
    let mut program = Program::new(Label::Next);
    program.load(BPF_W, INTERFACE);
    program.equals(interfaces[0], Label::Arrived, Label::Next);
    program.equals(interfaces[1], Label::Next, Label::Drop);
    program.place(Label::Arrived);
    program.load(BPF_W, PACKET_TYPE);
    program.test(BPF_JGE, FOR_OTHERS, Label::Drop, Label::Next);
    match local.ip() {
        IpAddr::V4(ip) => ipv4(&mut program, ip.to_bits(), local.port()),
        IpAddr::V6(ip) => ipv6(&mut program, ip.to_bits(), local.port()),
    }
    for group in groups.iter() {
        let word = match group {
            IpAddr::V4(group) => group.to_bits(),
            IpAddr::V6(group) => group.to_bits() as u32,
        };
        program.equals(word, Label::Take, Label::Next);
    }
    program.place(Label::Drop);
    program.give(0);
    program.place(Label::Take);
    program.give(EVERYTHING);
    program.finish()
}

/// A program for a fanout group of packet sockets, one for each of `count` engines: a packet goes
/// to the engine whose slot its QPN names, and everything else to the first. Of packets that arrive
/// as one the first packet decides.
///
/// It does not look whether the packet is ours: the program of the socket does.
pub(super) fn engines(ipv4: bool, count: u32) -> Vec<sock_filter> {
    let slot = NETWORK + UDP_HEADER + Slot::OFFSET as u32;
    let mut program = Program::new(Label::Next);
    if ipv4 {
        // The length of the header, options included.
        program.load(BPF_B, NETWORK);
        program.step(BPF_ALU | BPF_AND | BPF_K, 0x0f);
        program.step(BPF_ALU | BPF_LSH | BPF_K, 2);
        program.step(BPF_MISC | BPF_TAX, 0);
        program.step(BPF_LD | BPF_B | BPF_IND, slot);
    } else {
        program.load(BPF_B, slot + 40);
    }
    // Slots count from 1, sockets from 0; what is less than 0 is very large.
    program.step(BPF_ALU | BPF_SUB | BPF_K, 1);
    program.test(BPF_JGE, count, Label::First, Label::Next);
    program.give_accumulator();
    program.place(Label::First);
    program.give(0);
    program.finish()
}

/// Later fragments have no ports and are dropped here; everything else that is malformed is counted
/// by [`FrameReader`](uroce_link::FrameReader).
fn ipv4(program: &mut Program<Label>, address: u32, port: u16) {
    program.load(BPF_B, IP + 9);
    program.equals(UDP, Label::Next, Label::Drop);
    program.load(BPF_H, IP + 6);
    program.test(BPF_JSET, 0x1fff, Label::Drop, Label::Next);
    // The length of the header, options included.
    program.step(BPF_LDX | BPF_B | BPF_MSH, IP);
    program.load_behind(BPF_H, IP + 2);
    program.equals(port.into(), Label::Next, Label::Drop);
    program.load(BPF_W, IP + 16);
    program.equals(address, Label::Take, Label::Next);
}

fn ipv6(program: &mut Program<Label>, address: u128, port: u16) {
    program.load(BPF_B, IP + 6);
    program.equals(UDP, Label::Next, Label::Drop);
    program.load(BPF_H, IP + 40 + 2);
    program.equals(port.into(), Label::Next, Label::Drop);
    program.load(BPF_B, IP + 24);
    program.equals(0xff, Label::Group, Label::Next);
    for word in 0..4 {
        let bits = (address >> (96 - 32 * word)) as u32;
        program.load(BPF_W, IP + 24 + 4 * word);
        program.equals(bits, Label::Next, Label::Drop);
    }
    program.give(EVERYTHING);
    program.place(Label::Group);
    program.load(BPF_W, IP + 24 + 12);
}

#[cfg(test)]
mod tests;
