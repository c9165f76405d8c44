//! Frames: from Ethernet or IP down to the transport packet.

mod build;
mod error;

use core::net::IpAddr;

use etherparse::{
    EtherType, Ethernet2HeaderSlice, Ipv4HeaderSlice, Ipv6HeaderSlice, SingleVlanHeaderSlice,
    UdpHeaderSlice,
};

use crate::{Flow, Grh, Header, ICRC_LEN, icrc_v1, verify};

pub use build::{write_ethernet, write_ipv4_udp, write_ipv6_udp};
pub use error::FrameError;

/// UDP destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;
/// Ethertype of RoCEv1.
pub const ROCE_V1_ETHERTYPE: u16 = 0x8915;

/// The network layer of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// RoCEv2 over IPv4.
    V4 {
        /// Addresses and ports.
        flow: Flow,
        /// Identification; the ICRC covers it.
        id: u16,
        /// Don't-fragment bit.
        dont_fragment: bool,
        /// Time to live.
        ttl: u8,
        /// Type of service.
        tos: u8,
    },
    /// RoCEv2 over IPv6.
    V6 {
        /// Addresses and ports.
        flow: Flow,
        /// Hop limit.
        hop_limit: u8,
        /// Traffic class.
        traffic_class: u8,
        /// Flow label.
        flow_label: u32,
    },
    /// RoCEv1.
    Grh(Grh),
}

/// A RoCE frame, taken apart down to the transport packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// VLAN tag, if there is one.
    pub vlan: Option<u16>,
    /// Network layer.
    pub network: Network,
    /// BTH to ICRC.
    pub transport: &'a [u8],
}

impl Frame<'_> {
    /// Source and destination address.
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        match &self.network {
            Network::V4 { flow, .. } | Network::V6 { flow, .. } => (flow.src, flow.dst),
            Network::Grh(grh) => (grh.src.to_ip(), grh.dst.to_ip()),
        }
    }

    /// True if the ICRC at the end of the transport packet is right.
    pub fn icrc_is_right(&self) -> bool {
        match &self.network {
            Network::V4 { flow, id, dont_fragment: true, .. } => verify(flow, *id, self.transport),
            // The mask of the flags is not known for a sender that clears DF; none is seen.
            Network::V4 { dont_fragment: false, .. } => false,
            Network::V6 { flow, .. } => verify(flow, 0, self.transport),
            Network::Grh(grh) => v1_is_right(grh, self.transport),
        }
    }
}

fn v1_is_right(grh: &Grh, transport: &[u8]) -> bool {
    let mut header = [0; Grh::LEN];
    let Some((covered, found)) = transport.split_last_chunk::<ICRC_LEN>() else { return false };
    grh.write(&mut header).is_some() && icrc_v1(&header, covered) == u32::from_le_bytes(*found)
}

/// Takes an Ethernet frame apart: one VLAN tag at most, IPv4 or IPv6 and UDP 4791, or RoCEv1.
pub fn parse_ethernet(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let ethernet = Ethernet2HeaderSlice::from_slice(bytes).map_err(|_| FrameError::TooShort {
        layer: "Ethernet",
        got: bytes.len(),
        need: 14,
    })?;
    let mut ether_type = ethernet.ether_type();
    let mut rest = &bytes[14..];
    let mut vlan = None;
    if ether_type == EtherType::VLAN_TAGGED_FRAME {
        let tag = SingleVlanHeaderSlice::from_slice(rest).map_err(|_| FrameError::TooShort {
            layer: "802.1Q",
            got: rest.len(),
            need: 4,
        })?;
        vlan = Some(tag.vlan_identifier().value());
        ether_type = tag.ether_type();
        rest = &rest[4..];
    }
    let frame = match ether_type {
        EtherType::IPV4 | EtherType::IPV6 => parse_ip(rest)?,
        EtherType(ROCE_V1_ETHERTYPE) => parse_v1(rest)?,
        EtherType(other) => return Err(FrameError::NotRoce { field: "Ethertype", value: other }),
    };
    Ok(Frame { vlan, ..frame })
}

/// Takes an IP packet apart.
pub fn parse_ip(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => parse_ipv4(bytes),
        Some(6) => parse_ipv6(bytes),
        Some(version) => {
            Err(FrameError::NotRoce { field: "IP version", value: u16::from(version) })
        }
        None => Err(FrameError::TooShort { layer: "IP", got: 0, need: 20 }),
    }
}

fn parse_ipv4(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let short = FrameError::TooShort { layer: "IPv4", got: bytes.len(), need: 20 };
    if bytes.len() < 20 {
        return Err(short);
    }
    if bytes[0] & 0x0f != 5 {
        return Err(FrameError::IpOptions { offset: 0 });
    }
    let header = Ipv4HeaderSlice::from_slice(bytes).map_err(|_| short)?;
    if header.more_fragments() || header.fragments_offset().value() != 0 {
        return Err(FrameError::Fragment { offset: 6 });
    }
    if header.protocol().0 != 17 {
        return Err(FrameError::NotRoce {
            field: "IP protocol",
            value: u16::from(header.protocol().0),
        });
    }
    let udp = within(bytes, usize::from(header.total_len()), 20, "IPv4")?;
    let (ports, transport) = parse_udp(udp)?;
    let flow = Flow {
        src: header.source_addr().into(),
        dst: header.destination_addr().into(),
        src_port: ports.0,
        dst_port: ports.1,
    };
    let tos = bytes[1];
    let network = Network::V4 {
        flow,
        id: header.identification(),
        // The reserved flag is under the ICRC too; nobody sets it.
        dont_fragment: bytes[6] & 0xe0 == 0x40,
        ttl: header.ttl(),
        tos,
    };
    Ok(Frame { vlan: None, network, transport })
}

fn parse_ipv6(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let short = FrameError::TooShort { layer: "IPv6", got: bytes.len(), need: 40 };
    let header = Ipv6HeaderSlice::from_slice(bytes).map_err(|_| short)?;
    match header.next_header().0 {
        17 => {}
        0 | 43 | 60 => return Err(FrameError::IpOptions { offset: 6 }),
        44 => return Err(FrameError::Fragment { offset: 6 }),
        other => {
            return Err(FrameError::NotRoce { field: "next header", value: u16::from(other) });
        }
    }
    let udp = within(bytes, usize::from(header.payload_length()) + 40, 40, "IPv6")?;
    let (ports, transport) = parse_udp(udp)?;
    let flow = Flow {
        src: header.source_addr().into(),
        dst: header.destination_addr().into(),
        src_port: ports.0,
        dst_port: ports.1,
    };
    let network = Network::V6 {
        flow,
        hop_limit: header.hop_limit(),
        traffic_class: header.traffic_class(),
        flow_label: header.flow_label().value(),
    };
    Ok(Frame { vlan: None, network, transport })
}

/// The bytes behind a header of `skip` bytes, in a packet that calls itself `total` long. What
/// follows the packet is Ethernet padding.
fn within<'a>(
    bytes: &'a [u8],
    total: usize,
    skip: usize,
    layer: &'static str,
) -> Result<&'a [u8], FrameError> {
    bytes.get(skip..total).ok_or(FrameError::TooShort { layer, got: bytes.len(), need: total })
}

fn parse_udp(bytes: &[u8]) -> Result<((u16, u16), &[u8]), FrameError> {
    let short = FrameError::TooShort { layer: "UDP", got: bytes.len(), need: 8 };
    let header = UdpHeaderSlice::from_slice(bytes).map_err(|_| short)?;
    let dst = header.destination_port();
    if dst != ROCE_PORT {
        return Err(FrameError::NotRoce { field: "UDP destination port", value: dst });
    }
    if usize::from(header.length()) != bytes.len() {
        let (udp, ip) = (header.length(), bytes.len());
        return Err(FrameError::LengthMismatch { udp, ip });
    }
    Ok(((header.source_port(), dst), &bytes[8..]))
}

fn parse_v1(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let short = FrameError::TooShort { layer: "GRH", got: bytes.len(), need: Grh::LEN };
    let grh = Grh::read(bytes).ok_or(short)?;
    if grh.next_header != Grh::IBA {
        return Err(FrameError::NotRoce {
            field: "GRH next header",
            value: u16::from(grh.next_header),
        });
    }
    let total = Grh::LEN + usize::from(grh.payload_len);
    let transport = within(bytes, total, Grh::LEN, "GRH")?;
    Ok(Frame { vlan: None, network: Network::Grh(grh), transport })
}
