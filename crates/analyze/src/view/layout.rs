//! Where the fields of each header lie. The script of a page knows no protocol: it shows what
//! these tables say.

use Show::{Bytes, Decimal, Flag, Hex, Ipv4, Ipv6, Mac};
use serde::Serialize;

/// How the value of a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Show {
    /// A decimal number.
    Decimal,
    /// A hexadecimal number, with leading zeros for its width.
    Hex,
    /// `yes` or `no`.
    Flag,
    /// An Ethernet address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address or a GID.
    Ipv6,
    /// Bytes as they are.
    Bytes,
}

/// One field of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct HeaderField {
    /// What people call it.
    pub label: &'static str,
    /// Its name in Wireshark's display filters; empty if it has none there.
    pub filter: &'static str,
    /// Its first bit; 0 is the highest bit of the header's first byte.
    pub bit: u16,
    /// How many bits it has.
    pub width: u16,
    /// How its value is written.
    pub show: Show,
    /// The table of names for its values; empty if they have none.
    pub names: &'static str,
}

/// One header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct HeaderLayout {
    /// Its name.
    pub name: &'static str,
    /// How many bytes it has.
    pub length: u16,
    /// Its fields, first one first.
    pub fields: &'static [HeaderField],
}

macro_rules! fields {
    ($($bit:literal +$width:literal $show:ident $label:literal $filter:literal $names:literal;)*) => {
        &[$(HeaderField {
            label: $label, filter: $filter, bit: $bit, width: $width, show: $show, names: $names,
        }),*]
    };
}

macro_rules! headers {
    ($($id:ident $name:literal $length:literal $fields:expr;)*) => {
        /// A header that a page knows how to show.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(super) enum HeaderId {
            $(#[doc = $name] $id),*
        }

        /// The headers, in the order of [`HeaderId`].
        pub(super) const HEADERS: &[HeaderLayout] =
            &[$(HeaderLayout { name: $name, length: $length, fields: $fields }),*];
    };
}

headers! {
    Ethernet "Ethernet" 14 fields! {
        0 +48 Mac "Destination" "eth.dst" "";
        48 +48 Mac "Source" "eth.src" "";
        96 +16 Hex "Type" "eth.type" "ethertype";
    };
    Vlan "VLAN tag" 4 fields! {
        0 +3 Decimal "Priority" "vlan.priority" "";
        3 +1 Flag "Drop eligible" "vlan.dei" "";
        4 +12 Decimal "VLAN" "vlan.id" "";
        16 +16 Hex "Type" "vlan.etype" "ethertype";
    };
    Sll "Linux cooked capture" 16 fields! {
        0 +16 Decimal "Packet type" "sll.pkttype" "sll";
        16 +16 Decimal "Address type" "sll.hatype" "";
        32 +16 Decimal "Address length" "sll.halen" "";
        48 +64 Bytes "Address" "" "";
        112 +16 Hex "Protocol" "sll.etype" "ethertype";
    };
    Sll2 "Linux cooked capture v2" 20 fields! {
        0 +16 Hex "Protocol" "sll.etype" "ethertype";
        32 +32 Decimal "Interface" "sll.ifindex" "";
        64 +16 Decimal "Address type" "sll.hatype" "";
        80 +8 Decimal "Packet type" "sll.pkttype" "sll";
        88 +8 Decimal "Address length" "sll.halen" "";
        96 +64 Bytes "Address" "" "";
    };
    Null "Loopback" 4 fields! {
        0 +32 Bytes "Address family" "" "";
    };
    Erf "ERF record" 16 fields! {
        0 +64 Bytes "Timestamp" "" "";
        65 +7 Decimal "Type" "erf.types.type" "";
        80 +16 Decimal "Record length" "erf.rlen" "";
        96 +16 Decimal "Losses" "erf.lctr" "";
        112 +16 Decimal "Wire length" "erf.wlen" "";
    };
    Lrh "Local route header" 8 fields! {
        0 +4 Hex "Virtual lane" "infiniband.lrh.vl" "";
        4 +4 Decimal "Link version" "infiniband.lrh.lver" "";
        8 +4 Decimal "Service level" "infiniband.lrh.sl" "";
        14 +2 Hex "Next header" "infiniband.lrh.lnh" "";
        16 +16 Decimal "Destination LID" "infiniband.lrh.dlid" "";
        37 +11 Decimal "Length in words" "infiniband.lrh.pktlen" "";
        48 +16 Decimal "Source LID" "infiniband.lrh.slid" "";
    };
    Ipv4 "IPv4" 20 fields! {
        0 +4 Decimal "Version" "ip.version" "";
        4 +4 Decimal "Header length in words" "ip.hdr_len" "";
        8 +6 Decimal "DSCP" "ip.dsfield.dscp" "";
        14 +2 Decimal "ECN" "ip.dsfield.ecn" "ecn";
        16 +16 Decimal "Total length" "ip.len" "";
        32 +16 Hex "Identification" "ip.id" "";
        49 +1 Flag "Don't fragment" "ip.flags.df" "";
        50 +1 Flag "More fragments" "ip.flags.mf" "";
        51 +13 Decimal "Fragment offset" "ip.frag_offset" "";
        64 +8 Decimal "Time to live" "ip.ttl" "";
        72 +8 Decimal "Protocol" "ip.proto" "ipproto";
        80 +16 Hex "Header checksum" "ip.checksum" "";
        96 +32 Ipv4 "Source" "ip.src" "";
        128 +32 Ipv4 "Destination" "ip.dst" "";
    };
    Ipv6 "IPv6" 40 fields! {
        0 +4 Decimal "Version" "ipv6.version" "";
        4 +6 Decimal "DSCP" "ipv6.tclass.dscp" "";
        10 +2 Decimal "ECN" "ipv6.tclass.ecn" "ecn";
        12 +20 Hex "Flow label" "ipv6.flow" "";
        32 +16 Decimal "Payload length" "ipv6.plen" "";
        48 +8 Decimal "Next header" "ipv6.nxt" "ipproto";
        56 +8 Decimal "Hop limit" "ipv6.hlim" "";
        64 +128 Ipv6 "Source" "ipv6.src" "";
        192 +128 Ipv6 "Destination" "ipv6.dst" "";
    };
    Grh "GRH" 40 fields! {
        0 +4 Decimal "IP version" "infiniband.grh.ipver" "";
        4 +8 Hex "Traffic class" "infiniband.grh.tclass" "";
        12 +20 Hex "Flow label" "infiniband.grh.flowlabel" "";
        32 +16 Decimal "Payload length" "infiniband.grh.paylen" "";
        48 +8 Hex "Next header" "infiniband.grh.nxthdr" "";
        56 +8 Decimal "Hop limit" "infiniband.grh.hoplmt" "";
        64 +128 Ipv6 "Source GID" "infiniband.grh.sgid" "";
        192 +128 Ipv6 "Destination GID" "infiniband.grh.dgid" "";
    };
    Udp "UDP" 8 fields! {
        0 +16 Decimal "Source port" "udp.srcport" "";
        16 +16 Decimal "Destination port" "udp.dstport" "";
        32 +16 Decimal "Length" "udp.length" "";
        48 +16 Hex "Checksum" "udp.checksum" "";
    };
    Bth "Base transport header" 12 fields! {
        0 +8 Hex "Opcode" "infiniband.bth.opcode" "opcode";
        8 +1 Flag "Solicited event" "infiniband.bth.se" "";
        9 +1 Flag "Migration request" "infiniband.bth.m" "";
        10 +2 Decimal "Pad count" "infiniband.bth.padcnt" "";
        12 +4 Decimal "Transport version" "infiniband.bth.tver" "";
        16 +16 Hex "Partition key" "infiniband.bth.p_key" "";
        32 +1 Flag "FECN" "" "";
        33 +1 Flag "BECN" "" "";
        34 +6 Decimal "Reserved" "" "";
        40 +24 Hex "Destination QP" "infiniband.bth.destqp" "";
        64 +1 Flag "Acknowledge request" "infiniband.bth.a" "";
        65 +7 Decimal "Reserved" "infiniband.bth.reserved7" "";
        72 +24 Hex "PSN" "infiniband.bth.psn" "";
    };
    XrcEth "XRC extended transport header" 4 fields! {
        8 +24 Hex "XRC SRQ number" "" "";
    };
    Deth "Datagram extended transport header" 8 fields! {
        0 +32 Hex "Queue key" "infiniband.deth.q_key" "";
        40 +24 Hex "Source QP" "infiniband.deth.srcqp" "";
    };
    Feth "Flush extended transport header" 4 fields! {
        26 +2 Decimal "Selectivity" "infiniband.feth.sel" "selectivity";
        28 +4 Decimal "Placement type" "infiniband.feth.plt" "placement";
    };
    Reth "RDMA extended transport header" 16 fields! {
        0 +64 Hex "Virtual address" "infiniband.reth.va" "";
        64 +32 Hex "Remote key" "infiniband.reth.r_key" "";
        96 +32 Decimal "DMA length" "infiniband.reth.dmalen" "";
    };
    AtomicEth "Atomic extended transport header" 28 fields! {
        0 +64 Hex "Virtual address" "infiniband.reth.va" "";
        64 +32 Hex "Remote key" "infiniband.reth.r_key" "";
        96 +64 Hex "Swap or add data" "infiniband.atomiceth.swapdt" "";
        160 +64 Hex "Compare data" "infiniband.atomiceth.cmpdt" "";
    };
    Aeth "ACK extended transport header" 4 fields! {
        0 +8 Hex "Syndrome" "infiniband.aeth.syndrome" "syndrome";
        8 +24 Decimal "MSN" "infiniband.aeth.msn" "";
    };
    AtomicAckEth "Atomic acknowledge header" 8 fields! {
        0 +64 Hex "Original data" "infiniband.atomicacketh.origremdt" "";
    };
    ImmDt "Immediate data" 4 fields! {
        0 +32 Hex "Immediate data" "infiniband.immdt" "";
    };
    Ieth "Invalidate extended transport header" 4 fields! {
        0 +32 Hex "Remote key" "infiniband.ieth" "";
    };
    Icrc "Invariant CRC" 4 fields! {
        0 +32 Hex "ICRC" "infiniband.invariant.crc" "";
    };
}

impl HeaderId {
    /// Its layout.
    pub(super) fn layout(self) -> &'static HeaderLayout {
        &HEADERS[self as usize]
    }

    /// How many bytes it has.
    pub(super) fn length(self) -> usize {
        usize::from(self.layout().length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_order_and_inside_their_header() {
        for header in HEADERS {
            let mut end = 0;
            for field in header.fields {
                assert!(field.bit >= end, "{}: {}", header.name, field.label);
                end = field.bit + field.width;
                let whole_bytes = field.bit % 8 == 0 && field.width % 8 == 0;
                assert!(whole_bytes || field.width <= 32, "{}", field.label);
            }
            assert!(end <= header.length * 8, "{}", header.name);
        }
    }

    #[test]
    fn fields_lie_where_dissect_reads_them() {
        // The ICRC stands behind a packet and not in one of its headers.
        for field in HEADERS.iter().flat_map(|header| header.fields) {
            let place = (usize::from(field.bit), usize::from(field.width));
            let is_known = crate::fields::places_of(field.filter).contains(&place);
            let has_none = field.filter.is_empty() || field.filter == "infiniband.invariant.crc";
            assert!(is_known || has_none, "{} at {place:?}", field.filter);
        }
    }

    #[test]
    fn a_header_has_the_length_of_its_codec() {
        use uroce_wire::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Header, Reth, XrcEth};
        let pairs = [
            (HeaderId::Bth, Bth::LEN),
            (HeaderId::XrcEth, XrcEth::LEN),
            (HeaderId::Deth, Deth::LEN),
            (HeaderId::Feth, Feth::LEN),
            (HeaderId::Reth, Reth::LEN),
            (HeaderId::AtomicEth, AtomicEth::LEN),
            (HeaderId::Aeth, Aeth::LEN),
            (HeaderId::AtomicAckEth, AtomicAckEth::LEN),
        ];
        for (id, length) in pairs {
            assert_eq!(id.length(), length, "{}", id.layout().name);
        }
    }
}
