//! The redirect program.
//!
//! In words:
//!
//! ```text
//! Ethernet, then exactly the wanted tag (none, or one 802.1Q tag with our VLAN id)
//! IPv4 without options, not a fragment, or IPv6 without extension headers
//! UDP to our port, to an address in the map     -> the socket of this queue
//! everything else                               -> the kernel, untouched
//! ```
//!
//! A queue without a socket leaves its packets to the kernel too.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::assembler::{Assembler, Label};
use super::insn::{Insn, Reg, Test, Width};

const HELPER_MAP_LOOKUP: i32 = 1;
const HELPER_REDIRECT_MAP: i32 = 51;

/// `XDP_PASS`: the kernel goes on as if there was no program.
pub(crate) const PASS: i32 = 2;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const PROTOCOL_UDP: i32 = 17;

/// Bytes of an Ethernet header and of a VLAN tag.
const ETHERNET: i16 = 14;
const TAG: i16 = 4;

/// Offsets in `struct xdp_md`.
const CTX_DATA: i16 = 0;
const CTX_DATA_END: i16 = 4;
const CTX_QUEUE: i16 = 16;

/// The key for the map lookup is made at the top of the program's stack.
const KEY: i16 = -16;

/// What the program lets through to us.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filter<'a> {
    /// UDP destination port.
    pub(crate) port: u16,
    /// VLAN id that every frame must carry; `None`: no tag, or one with id 0 (priority only).
    pub(crate) vlan: Option<u16>,
    /// Set of destination addresses, by [`key_of`].
    pub(crate) addresses: BorrowedFd<'a>,
    /// Queue number to socket.
    pub(crate) sockets: BorrowedFd<'a>,
}

/// An address as the map of addresses has it: IPv4 as ::ffff:a.b.c.d.
pub(crate) fn key_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A number as a load of 16 bits finds it when it stands in network order.
fn net(value: u16) -> i32 {
    i32::from(value.to_be())
}

/// The program for `filter`.
pub(crate) fn redirect(filter: &Filter<'_>) -> Vec<Insn> {
    let mut asm = Assembler::default();
    let [tagged, lookup, pass] = [(); 3].map(|()| asm.label());
    // R6 keeps the context; R2 is the frame's first byte, R3 its end.
    asm.put([
        Insn::copy(Reg::R6, Reg::R1),
        Insn::load(Width::Word, Reg::R2, Reg::R1, CTX_DATA),
        Insn::load(Width::Word, Reg::R3, Reg::R1, CTX_DATA_END),
    ]);
    need(&mut asm, ETHERNET, pass);
    asm.put([Insn::load(Width::Half, Reg::R4, Reg::R2, ETHERNET - 2)]);
    asm.jump_value(Test::Equal, Reg::R4, net(ETHERTYPE_VLAN), tagged);
    if filter.vlan.is_none() {
        network(&mut asm, filter, ETHERNET, lookup, pass);
    } else {
        asm.goto(pass);
    }

    asm.place(tagged);
    need(&mut asm, ETHERNET + TAG, pass);
    asm.put([Insn::load(Width::Half, Reg::R4, Reg::R2, ETHERNET), Insn::and(Reg::R4, net(0x0fff))]);
    asm.jump_value(Test::NotEqual, Reg::R4, net(filter.vlan.unwrap_or(0)), pass);
    asm.put([Insn::load(Width::Half, Reg::R4, Reg::R2, ETHERNET + TAG - 2)]);
    network(&mut asm, filter, ETHERNET + TAG, lookup, pass);

    asm.place(lookup);
    hand_over(&mut asm, filter, pass);
    asm.place(pass);
    asm.put([Insn::set(Reg::R0, PASS), Insn::exit()]);
    asm.finish()
}

/// Leaves when the frame has fewer than `bytes`; R4 is lost.
fn need(asm: &mut Assembler, bytes: i16, pass: Label) {
    asm.put([Insn::copy(Reg::R4, Reg::R2), Insn::add(Reg::R4, i32::from(bytes))]);
    asm.jump(Test::Greater, Reg::R4, Reg::R3, pass);
}

/// IPv4 or IPv6 at `at`, with the ethertype in R4: leaves the key of the destination on the stack.
fn network(asm: &mut Assembler, filter: &Filter<'_>, at: i16, lookup: Label, pass: Label) {
    let ipv6 = asm.label();
    asm.jump_value(Test::Equal, Reg::R4, net(ETHERTYPE_IPV6), ipv6);
    asm.jump_value(Test::NotEqual, Reg::R4, net(ETHERTYPE_IPV4), pass);
    ipv4_header(asm, filter, at, pass);
    asm.goto(lookup);
    asm.place(ipv6);
    ipv6_header(asm, filter, at, pass);
    asm.goto(lookup);
}

/// Jumps away unless the loaded field has that value.
fn must_be(asm: &mut Assembler, width: Width, at: i16, value: i32, pass: Label) {
    asm.put([Insn::load(width, Reg::R4, Reg::R2, at)]);
    asm.jump_value(Test::NotEqual, Reg::R4, value, pass);
}

fn ipv4_header(asm: &mut Assembler, filter: &Filter<'_>, at: i16, pass: Label) {
    const HEADER: i16 = 20;
    need(asm, at + HEADER + 8, pass);
    // Version 4 and five words: no options.
    must_be(asm, Width::Byte, at, 0x45, pass);
    // Neither more fragments to come nor an offset.
    asm.put([Insn::load(Width::Half, Reg::R4, Reg::R2, at + 6), Insn::and(Reg::R4, net(0x3fff))]);
    asm.jump_value(Test::NotEqual, Reg::R4, 0, pass);
    must_be(asm, Width::Byte, at + 9, PROTOCOL_UDP, pass);
    must_be(asm, Width::Half, at + HEADER + 2, net(filter.port), pass);
    asm.put([
        Insn::store_value(Width::Word, Reg::R10, KEY, 0),
        Insn::store_value(Width::Word, Reg::R10, KEY + 4, 0),
        Insn::store_value(Width::Word, Reg::R10, KEY + 8, 0xffff_u32.to_be().cast_signed()),
        Insn::load(Width::Word, Reg::R4, Reg::R2, at + 16),
        Insn::store(Width::Word, Reg::R10, KEY + 12, Reg::R4),
    ]);
}

fn ipv6_header(asm: &mut Assembler, filter: &Filter<'_>, at: i16, pass: Label) {
    const HEADER: i16 = 40;
    need(asm, at + HEADER + 8, pass);
    // UDP follows at once: no extension header, so no fragment either.
    must_be(asm, Width::Byte, at + 6, PROTOCOL_UDP, pass);
    must_be(asm, Width::Half, at + HEADER + 2, net(filter.port), pass);
    for word in (0..16).step_by(4) {
        asm.put([
            Insn::load(Width::Word, Reg::R4, Reg::R2, at + 24 + word),
            Insn::store(Width::Word, Reg::R10, KEY + word, Reg::R4),
        ]);
    }
}

/// Looks the key up; the socket of this queue gets what is found.
fn hand_over(asm: &mut Assembler, filter: &Filter<'_>, pass: Label) {
    asm.put(Insn::map(Reg::R1, filter.addresses.as_raw_fd()));
    asm.put([
        Insn::copy(Reg::R2, Reg::R10),
        Insn::add(Reg::R2, i32::from(KEY)),
        Insn::call(HELPER_MAP_LOOKUP),
    ]);
    asm.jump_value(Test::Equal, Reg::R0, 0, pass);
    asm.put(Insn::map(Reg::R1, filter.sockets.as_raw_fd()));
    asm.put([
        Insn::load(Width::Word, Reg::R2, Reg::R6, CTX_QUEUE),
        // The verdict when this queue has no socket.
        Insn::set(Reg::R3, PASS),
        Insn::call(HELPER_REDIRECT_MAP),
        Insn::exit(),
    ]);
}

#[cfg(test)]
mod tests;
