//! The program that finds RoCE among all frames, in the kernel.

use libc::{
    BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_JSET, BPF_K, BPF_LDX, BPF_LSH, BPF_MISC,
    BPF_RSH, BPF_TAX, BPF_W, BPF_X, sock_filter,
};
use uroce_host::bpf::{HARDWARE, INTERFACE, PACKET_TYPE, Program};

use super::frame::{ETHERNET, LOOPBACK, RAW_IP};

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ROCE_V1: u32 = 0x8915;
const VLAN_TAGS: [u32; 2] = [0x8100, 0x88a8];

const UDP: u32 = 17;

/// Where a frame has its Ethertype.
const ETHER_TYPE: u32 = 12;

/// Places that jumps aim at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// The step behind the jump.
    Next,
    Interface,
    NoLoopback,
    Ethernet,
    FirstTag,
    SecondTag,
    EtherType,
    RawIp,
    Ipv4,
    Ipv6,
    Take,
    Drop,
}

/// A program that takes `snap_len` bytes of every RoCE frame on one of these interfaces, or on any if
/// there are none, and of frames on a loopback interface only those that arrive.
pub(super) fn roce(interfaces: &[u32], port: u16, snap_len: u32) -> Vec<sock_filter> {
    let mut program = Program::new(Label::Next);
    if !interfaces.is_empty() {
        program.load(BPF_W, INTERFACE);
        interfaces.iter().for_each(|&index| program.equals(index, Label::Interface, Label::Next));
        program.give(0);
    }
    link(&mut program);
    ethernet(&mut program);
    raw_ip(&mut program);
    ipv4(&mut program, port);
    ipv6(&mut program, port);
    program.place(Label::Take);
    program.give(snap_len.max(1));
    program.place(Label::Drop);
    program.give(0);
    program.finish()
}

/// What the frames of the interface begin with.
fn link(program: &mut Program<Label>) {
    program.place(Label::Interface);
    program.load(BPF_W, HARDWARE);
    program.equals(LOOPBACK.into(), Label::Next, Label::NoLoopback);
    program.load(BPF_W, PACKET_TYPE);
    program.equals(libc::PACKET_OUTGOING.into(), Label::Drop, Label::Ethernet);
    program.place(Label::NoLoopback);
    program.equals(ETHERNET.into(), Label::Ethernet, Label::Next);
    RAW_IP.iter().for_each(|&kind| program.equals(kind.into(), Label::RawIp, Label::Next));
    program.give(0);
}

/// The Ethertype behind up to two tags. The index register then says where the IP header is.
fn ethernet(program: &mut Program<Label>) {
    let labels = [Label::Ethernet, Label::FirstTag, Label::SecondTag];
    for (tags, label) in labels.into_iter().enumerate() {
        let shift = 4 * tags as u32;
        program.place(label);
        program.step(BPF_LDX | BPF_W | BPF_IMM, ETHER_TYPE + 2 + shift);
        program.load(BPF_H, ETHER_TYPE + shift);
        if let Some(&tag) = labels.get(tags + 1) {
            program.equals(VLAN_TAGS[0], tag, Label::Next);
            program.equals(VLAN_TAGS[1], tag, Label::EtherType);
        }
    }
    program.place(Label::EtherType);
    program.equals(ROCE_V1, Label::Take, Label::Next);
    program.equals(IPV4, Label::Ipv4, Label::Next);
    program.equals(IPV6, Label::Ipv6, Label::Drop);
}

fn raw_ip(program: &mut Program<Label>) {
    program.place(Label::RawIp);
    program.step(BPF_LDX | BPF_W | BPF_IMM, 0);
    program.load(BPF_B, 0);
    program.step(BPF_ALU | BPF_RSH | BPF_K, 4);
    program.equals(4, Label::Ipv4, Label::Next);
    program.equals(6, Label::Ipv6, Label::Drop);
}

/// Later fragments have no ports: they are dropped.
fn ipv4(program: &mut Program<Label>, port: u16) {
    program.place(Label::Ipv4);
    program.load_behind(BPF_B, 9);
    program.equals(UDP, Label::Next, Label::Drop);
    program.load_behind(BPF_H, 6);
    program.test(BPF_JSET, 0x1fff, Label::Drop, Label::Next);
    // The length of the header, options included.
    program.load_behind(BPF_B, 0);
    program.step(BPF_ALU | BPF_AND | BPF_K, 0x0f);
    program.step(BPF_ALU | BPF_LSH | BPF_K, 2);
    program.step(BPF_ALU | BPF_ADD | BPF_X, 0);
    program.step(BPF_MISC | BPF_TAX, 0);
    program.load_behind(BPF_H, 2);
    program.equals(port.into(), Label::Take, Label::Drop);
}

fn ipv6(program: &mut Program<Label>, port: u16) {
    program.place(Label::Ipv6);
    program.load_behind(BPF_B, 6);
    program.equals(UDP, Label::Next, Label::Drop);
    program.load_behind(BPF_H, 40 + 2);
    program.equals(port.into(), Label::Take, Label::Drop);
}

#[cfg(test)]
mod tests;
