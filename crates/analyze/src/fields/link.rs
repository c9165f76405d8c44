//! Link and network headers.

use super::spec::{Spec, decimal, hex, ipv4, ipv6, mac, times, wide_hex};
use super::words;

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: &[Spec] = &[
    mac("eth.dst", "Destination", 0),
    mac("eth.src", "Source", 6),
    hex("eth.type", "Type", (12, 0), 16).says(words::ethertype),
];

/// A VLAN tag, from its control field on.
pub(super) const VLAN: &[Spec] = &[
    decimal("vlan.priority", "Priority", (0, 0), 3),
    decimal("vlan.dei", "Drop eligible", (0, 3), 1),
    decimal("vlan.id", "VLAN id", (0, 4), 12),
    hex("vlan.etype", "Type", (2, 0), 16).says(words::ethertype),
];

/// The header of a capture on all interfaces, old form.
pub(super) const SLL: &[Spec] = &[
    decimal("sll.pkttype", "Packet type", (0, 0), 16).says(words::cooked_type),
    decimal("sll.hatype", "Link type", (2, 0), 16),
    decimal("sll.halen", "Address length", (4, 0), 16),
    mac("sll.src.eth", "Source", 6),
    hex("sll.etype", "Protocol", (14, 0), 16).says(words::ethertype),
];

/// The same, new form.
pub(super) const SLL2: &[Spec] = &[
    hex("sll.etype", "Protocol", (0, 0), 16).says(words::ethertype),
    decimal("sll.ifindex", "Interface", (4, 0), 32),
    decimal("sll.hatype", "Link type", (8, 0), 16),
    decimal("sll.pkttype", "Packet type", (10, 0), 8).says(words::cooked_type),
    decimal("sll.halen", "Address length", (11, 0), 8),
    mac("sll.src.eth", "Source", 12),
];

pub(super) const ERF: &[Spec] = &[
    decimal("erf.types.type", "Type", (8, 1), 7),
    decimal("erf.rlen", "Record length", (10, 0), 16),
    decimal("erf.lctr", "Losses", (12, 0), 16),
    decimal("erf.wlen", "Wire length", (14, 0), 16),
];

pub(super) const LRH: &[Spec] = &[
    hex("infiniband.lrh.vl", "Virtual lane", (0, 0), 4),
    decimal("infiniband.lrh.lver", "Link version", (0, 4), 4),
    decimal("infiniband.lrh.sl", "Service level", (1, 0), 4),
    decimal("infiniband.lrh.reserved2", "Reserved", (1, 4), 2),
    hex("infiniband.lrh.lnh", "Next header", (1, 6), 2).says(words::link_next_header),
    decimal("infiniband.lrh.dlid", "Destination LID", (2, 0), 16),
    decimal("infiniband.lrh.reserved5", "Reserved", (4, 0), 5),
    decimal("infiniband.lrh.pktlen", "Length in words", (4, 5), 11),
    decimal("infiniband.lrh.slid", "Source LID", (6, 0), 16),
];

pub(super) const GRH: &[Spec] = &[
    decimal("infiniband.grh.ipver", "Version", (0, 0), 4),
    decimal("infiniband.grh.tclass", "Traffic class", (0, 4), 8),
    decimal("infiniband.grh.flowlabel", "Flow label", (1, 4), 20),
    decimal("infiniband.grh.paylen", "Payload length", (4, 0), 16),
    decimal("infiniband.grh.nxthdr", "Next header", (6, 0), 8),
    decimal("infiniband.grh.hoplmt", "Hop limit", (7, 0), 8),
    ipv6("infiniband.grh.sgid", "Source GID", 8),
    ipv6("infiniband.grh.dgid", "Destination GID", 24),
];

const IPV4_DS: &[Spec] = &[
    decimal("ip.dsfield.dscp", "DSCP", (1, 0), 6),
    decimal("ip.dsfield.ecn", "ECN", (1, 6), 2).says(words::ecn),
];

const IPV4_FLAGS: &[Spec] = &[
    decimal("ip.flags.rb", "Reserved", (6, 0), 1),
    decimal("ip.flags.df", "Don't fragment", (6, 1), 1),
    decimal("ip.flags.mf", "More fragments", (6, 2), 1),
];

pub(super) const IPV4: &[Spec] = &[
    decimal("ip.version", "Version", (0, 0), 4),
    times("ip.hdr_len", "Header length", (0, 4), 4, 4),
    hex("ip.dsfield", "Type of service", (1, 0), 8).with(IPV4_DS),
    decimal("ip.len", "Total length", (2, 0), 16),
    hex("ip.id", "Identification", (4, 0), 16),
    hex("ip.flags", "Flags", (6, 0), 3).with(IPV4_FLAGS),
    times("ip.frag_offset", "Fragment offset", (6, 3), 13, 8),
    decimal("ip.ttl", "Time to live", (8, 0), 8),
    decimal("ip.proto", "Protocol", (9, 0), 8).says(words::protocol),
    hex("ip.checksum", "Header checksum", (10, 0), 16),
    ipv4("ip.src", "Source", 12),
    ipv4("ip.dst", "Destination", 16),
];

const IPV6_CLASS: &[Spec] = &[
    decimal("ipv6.tclass.dscp", "DSCP", (0, 4), 6),
    decimal("ipv6.tclass.ecn", "ECN", (1, 2), 2).says(words::ecn),
];

pub(super) const IPV6: &[Spec] = &[
    decimal("ipv6.version", "Version", (0, 0), 4),
    wide_hex("ipv6.tclass", "Traffic class", (0, 4), 8, 8).with(IPV6_CLASS),
    wide_hex("ipv6.flow", "Flow label", (1, 4), 20, 6),
    decimal("ipv6.plen", "Payload length", (4, 0), 16),
    decimal("ipv6.nxt", "Next header", (6, 0), 8).says(words::protocol),
    decimal("ipv6.hlim", "Hop limit", (7, 0), 8),
    ipv6("ipv6.src", "Source", 8),
    ipv6("ipv6.dst", "Destination", 24),
];

pub(super) const UDP: &[Spec] = &[
    decimal("udp.srcport", "Source port", (0, 0), 16),
    decimal("udp.dstport", "Destination port", (2, 0), 16),
    decimal("udp.length", "Length", (4, 0), 16),
    hex("udp.checksum", "Checksum", (6, 0), 16),
];

/// All tables.
pub(super) const ALL: &[&[Spec]] = &[ETHERNET, VLAN, SLL, SLL2, ERF, LRH, GRH, IPV4, IPV6, UDP];
