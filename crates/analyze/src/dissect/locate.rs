//! Where in a frame an InfiniBand packet stands.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use uroce_wire::{Grh, ROCE_V1_ETHERTYPE};

use super::link::{LRH, Link, Next, u16_at};
use super::network::{Fragment, Network};
use super::{DissectorConfig, Malformed};
use crate::{Direction, Encapsulation, Frame};

const IPV4_ETHERTYPE: u16 = 0x0800;
const IPV6_ETHERTYPE: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of a UDP header.
pub(super) const UDP_LEN: usize = 8;

/// What a frame is, and where it has it.
#[derive(Debug, Clone)]
pub(super) enum Located {
    /// An InfiniBand packet, or a batch of them.
    Packet(Carried),
    /// RoCE, but not whole.
    Malformed(Malformed),
    /// A TCP segment: the place of its payload, as far as it was captured.
    Tcp(Range<usize>),
    /// Something else.
    Other,
}

/// An InfiniBand packet in a frame.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    pub(super) encapsulation: Encapsulation,
    pub(super) direction: Option<Direction>,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    pub(super) ip_id: Option<u16>,
    /// The headers in front of it that its ICRC covers.
    pub(super) headers: Headers,
    /// Where its BTH begins.
    pub(super) start: usize,
    /// Where its ICRC ends on the wire; may lie behind the bytes that were captured.
    pub(super) end: usize,
}

/// Headers in front of a packet, by their place in the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Headers {
    /// IPv4 or IPv6, and UDP.
    Udp(Range<usize>),
    /// A GRH.
    Grh(Range<usize>),
    /// A local route header only.
    Lrh(Range<usize>),
}

impl Located {
    /// Looks for a packet in `frame`.
    #[inline]
    pub(super) fn of(frame: &Frame<'_>, config: &DissectorConfig) -> Self {
        let Some(link) = Link::read(frame.link_type, frame.data) else {
            return Self::Other;
        };
        let located = match link.next {
            Next::Lrh => infiniband(frame, link.at),
            Next::Ethertype(ROCE_V1_ETHERTYPE) => grh(frame, link.at, Encapsulation::RoceV1),
            Next::Ethertype(IPV4_ETHERTYPE | IPV6_ETHERTYPE) | Next::Ip => {
                ip(frame, link.at, config)
            }
            Next::Ethertype(_) => None,
        };
        match located.unwrap_or(Self::Other) {
            Self::Packet(carried) => {
                let direction = frame.direction.or(link.direction);
                Self::Packet(Carried { direction, ..carried })
            }
            other => other,
        }
    }
}

/// `None` if it is something else than RoCE, or cut before it can be told.
#[inline]
fn ip(frame: &Frame<'_>, at: usize, config: &DissectorConfig) -> Option<Located> {
    let data = frame.data;
    let network = Network::ip(data, at, frame.original_len as usize)?;
    match (network.protocol, network.fragment) {
        (UDP, Fragment::No | Fragment::First) => udp(data, &network, config),
        (TCP, Fragment::No) => tcp(data, &network),
        _ => None,
    }
}

#[inline]
fn udp(data: &[u8], network: &Network, config: &DissectorConfig) -> Option<Located> {
    let at = network.header_end;
    let (source, destination) = (u16_at(data, at)?, u16_at(data, at + 2)?);
    if destination != config.port {
        return None;
    }
    if network.fragment == Fragment::First {
        return Some(Located::Malformed(Malformed::Fragment));
    }
    let start = at + UDP_LEN;
    // A batch of segmentation offload may be too long for the field, which is then 0.
    let length = usize::from(u16_at(data, at + 4)?);
    let by_udp = if length < UDP_LEN { network.end } else { at + length };
    Some(Located::Packet(Carried {
        encapsulation: Encapsulation::RoceV2,
        direction: None,
        source: SocketAddr::new(network.source, source),
        destination: SocketAddr::new(network.destination, destination),
        traffic_class: network.traffic_class,
        hop_limit: network.hop_limit,
        ip_id: network.ip_id,
        headers: Headers::Udp(network.at..start),
        start,
        end: network.end.min(by_udp).max(start),
    }))
}

fn tcp(data: &[u8], network: &Network) -> Option<Located> {
    let length = usize::from(data.get(network.header_end + 12)? >> 4) * 4;
    let start = network.header_end + length;
    Some(Located::Tcp(start..network.end.max(start)))
}

fn grh(frame: &Frame<'_>, at: usize, encapsulation: Encapsulation) -> Option<Located> {
    let network = Network::grh(frame.data, at, frame.original_len as usize)?;
    if network.protocol != Grh::IBA {
        return None;
    }
    Some(Located::Packet(Carried {
        encapsulation,
        direction: None,
        source: SocketAddr::new(network.source, 0),
        destination: SocketAddr::new(network.destination, 0),
        traffic_class: network.traffic_class,
        hop_limit: network.hop_limit,
        ip_id: network.ip_id,
        headers: Headers::Grh(network.at..network.header_end),
        start: network.header_end,
        end: network.end.max(network.header_end),
    }))
}

/// A local route header, and behind it a GRH or nothing.
fn infiniband(frame: &Frame<'_>, at: usize) -> Option<Located> {
    let lrh = frame.data.get(at..)?.first_chunk::<LRH>()?;
    match lrh[1] & 3 {
        3 => grh(frame, at + LRH, Encapsulation::Infiniband),
        2 => Some(Located::Packet(local(lrh, at))),
        _ => None,
    }
}

/// A packet without a GRH: its addresses are LIDs.
fn local(lrh: &[u8; LRH], at: usize) -> Carried {
    let number = |at: usize| u16::from_be_bytes([lrh[at], lrh[at + 1]]);
    let address = |lid: u16| {
        let ip = IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, lid));
        SocketAddr::new(ip, 0)
    };
    // The length is in words of 4 bytes, from the route header to the ICRC.
    let length = usize::from(number(4) & 0x7ff) * 4;
    Carried {
        encapsulation: Encapsulation::Infiniband,
        direction: None,
        source: address(number(6)),
        destination: address(number(2)),
        traffic_class: 0,
        hop_limit: 0,
        ip_id: None,
        headers: Headers::Lrh(at..at + LRH),
        start: at + LRH,
        end: at + length.max(LRH),
    }
}
