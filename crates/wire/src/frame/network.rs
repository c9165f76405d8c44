//! What a frame says about its network.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice};

use crate::Grh;

/// The network header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    /// IPv4 without options.
    V4(Ipv4),
    /// IPv6 without extension headers.
    V6(Ipv6),
    /// RoCEv1.
    Grh(Grh),
}

/// The fields of an IPv4 header that a RoCE packet chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ipv4 {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Identification; the ICRC covers it.
    pub id: u16,
    /// Time to live.
    pub ttl: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Don't fragment; the ICRC covers it.
    pub df: bool,
}

/// The fields of an IPv6 header that a RoCE packet chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ipv6 {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

/// UDP ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdpPorts {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
}

impl UdpPorts {
    /// Bytes of a UDP header.
    pub const LEN: usize = 8;
}

impl Ipv4 {
    /// Bytes of an IPv4 header without options.
    pub const LEN: usize = 20;

    pub(super) fn of(header: &Ipv4HeaderSlice<'_>) -> Ipv4 {
        Ipv4 {
            src: header.source_addr(),
            dst: header.destination_addr(),
            id: header.identification(),
            ttl: header.ttl(),
            tos: header.dcp().value() << 2 | header.ecn().value(),
            df: header.dont_fragment(),
        }
    }
}

impl Ipv6 {
    /// Bytes of an IPv6 header.
    pub const LEN: usize = 40;

    pub(super) fn of(header: &Ipv6HeaderSlice<'_>) -> Ipv6 {
        Ipv6 {
            src: header.source_addr(),
            dst: header.destination_addr(),
            hop_limit: header.hop_limit(),
            traffic_class: header.traffic_class(),
            flow_label: header.flow_label().value(),
        }
    }
}

impl Network {
    /// Source address.
    pub fn src(&self) -> IpAddr {
        match self {
            Network::V4(ip) => ip.src.into(),
            Network::V6(ip) => ip.src.into(),
            Network::Grh(grh) => grh.src.to_ip(),
        }
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        match self {
            Network::V4(ip) => ip.dst.into(),
            Network::V6(ip) => ip.dst.into(),
            Network::Grh(grh) => grh.dst.to_ip(),
        }
    }

    /// The IPv4 identification.
    pub fn ip_id(&self) -> Option<u16> {
        match self {
            Network::V4(ip) => Some(ip.id),
            Network::V6(_) | Network::Grh(_) => None,
        }
    }

    /// Type of service or traffic class: DSCP and ECN.
    pub fn traffic_class(&self) -> u8 {
        match self {
            Network::V4(ip) => ip.tos,
            Network::V6(ip) => ip.traffic_class,
            Network::Grh(grh) => grh.traffic_class,
        }
    }

    /// Time to live or hop limit.
    pub fn hop_limit(&self) -> u8 {
        match self {
            Network::V4(ip) => ip.ttl,
            Network::V6(ip) => ip.hop_limit,
            Network::Grh(grh) => grh.hop_limit,
        }
    }
}
