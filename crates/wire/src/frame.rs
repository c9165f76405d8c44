//! Frames: Ethernet, one VLAN tag, IPv4 or IPv6 and UDP in front of RoCEv2, or the GRH of RoCEv1.
//!
//! Strict, because a frame that is read wrongly is worse than one that is dropped (A27): no IP
//! options, no extension headers, no fragments, one VLAN tag at most, and lengths that agree. UDP
//! and IPv4 checksums are not looked at: RoCE senders leave the first at 0, capture points see the
//! second before the NIC filled it in, and the ICRC covers what matters.

mod build;
mod error;
mod integrity;
mod network;

use core::net::IpAddr;

pub use build::{write_ethernet, write_ipv4_udp, write_ipv6_udp};
pub use error::FrameError;
use etherparse::{
    EtherType, Ethernet2HeaderSlice, IpNumber, Ipv4HeaderSlice, Ipv6HeaderSlice,
    SingleVlanHeaderSlice, UdpHeaderSlice,
};
use integrity::frame_icrc;
pub use integrity::verify_frame_icrc;
pub use network::{Ipv4, Ipv6, Network, UdpPorts};

use crate::{Flow, Grh, Header};

/// UDP destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;
/// Ethertype of RoCEv1.
pub const ROCE_V1_ETHERTYPE: u16 = 0x8915;

/// A frame, taken apart down to the transport packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// VLAN id, if the frame is tagged; 0 is a tag that only carries a priority.
    pub vlan: Option<u16>,
    /// The network header.
    pub ip: Network,
    /// UDP ports; RoCEv1 has none.
    pub udp: Option<UdpPorts>,
    /// BTH to ICRC: what [`crate::Packet::parse`] takes.
    pub transport: &'a [u8],
    /// Network header and UDP header as they stand in the frame.
    headers: &'a [u8],
}

impl Frame<'_> {
    /// Source and destination address.
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        (self.ip.src(), self.ip.dst())
    }

    /// True if the ICRC is right: [`verify_frame_icrc`].
    pub fn icrc_is_right(&self) -> bool {
        verify_frame_icrc(self)
    }

    /// The ICRC that its bytes should have, as it reads in little-endian order; `None` if there is no room for one.
    pub fn expected_icrc(&self) -> Option<u32> {
        frame_icrc(self)
    }

    /// Addresses and ports as the ICRC functions take them; `None` for RoCEv1.
    pub fn flow(&self) -> Option<Flow> {
        let udp = self.udp?;
        let (src, dst) = self.addresses();
        Some(Flow { src, dst, src_port: udp.src, dst_port: udp.dst })
    }
}

/// Reads a frame that begins with its Ethernet header. The frame check sequence is not part of
/// `bytes`; bytes that pad a short frame may be.
///
/// # Errors
/// The first thing that is not as RoCE has it, by field and offset in `bytes`.
pub fn parse_ethernet(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    parse_ethernet_on(bytes, ROCE_PORT)
}

/// As [`parse_ethernet`], for RoCEv2 on the UDP port `port` instead of 4791.
///
/// # Errors
/// As [`parse_ethernet`].
#[inline]
pub fn parse_ethernet_on(bytes: &[u8], port: u16) -> Result<Frame<'_>, FrameError> {
    let mut at = Ethernet::LEN;
    let ethernet = Ethernet2HeaderSlice::from_slice(bytes)
        .map_err(|_| truncated("Ethernet", 0, bytes, Ethernet::LEN))?;
    let mut ether_type = ethernet.ether_type();
    let mut vlan = None;
    if is_tag(ether_type) {
        let tag = SingleVlanHeaderSlice::from_slice(&bytes[at..])
            .map_err(|_| truncated("VLAN tag", at, bytes, Ethernet::TAG))?;
        let inner = tag.ether_type();
        if ether_type != EtherType::VLAN_TAGGED_FRAME || is_tag(inner) {
            return Err(FrameError::StackedVlan { offset: at - 2 });
        }
        (vlan, ether_type) = (Some(tag.vlan_identifier().value()), inner);
        at += Ethernet::TAG;
    }
    match ether_type {
        EtherType::IPV4 => parse_ipv4(bytes, at, vlan, port),
        EtherType::IPV6 => parse_ipv6(bytes, at, vlan, port),
        EtherType(ROCE_V1_ETHERTYPE) => parse_grh(bytes, at, vlan),
        EtherType(found) => Err(FrameError::NotRoce { field: "Ethertype", offset: at - 2, found }),
    }
}

/// Reads a packet that begins with its IPv4 or IPv6 header.
///
/// # Errors
/// As [`parse_ethernet`].
pub fn parse_ip(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => parse_ipv4(bytes, 0, None, ROCE_PORT),
        Some(6) => parse_ipv6(bytes, 0, None, ROCE_PORT),
        Some(found) => Err(FrameError::BadVersion { offset: 0, found }),
        None => Err(truncated("IP", 0, bytes, 20)),
    }
}

/// Extension headers that are followed.
const MAX_EXTENSIONS: usize = 8;

/// Lengths of the link layer.
struct Ethernet;

impl Ethernet {
    const LEN: usize = 14;
    const TAG: usize = 4;
}

fn is_tag(ether_type: EtherType) -> bool {
    matches!(
        ether_type,
        EtherType::VLAN_TAGGED_FRAME
            | EtherType::PROVIDER_BRIDGING
            | EtherType::VLAN_DOUBLE_TAGGED_FRAME
    )
}

fn truncated(header: &'static str, offset: usize, bytes: &[u8], need: usize) -> FrameError {
    FrameError::Truncated { header, offset, got: bytes.len().saturating_sub(offset), need }
}

/// The part of a packet behind `at` that belongs to it, by the length field of its header.
fn bounded<'a>(
    bytes: &'a [u8],
    at: usize,
    total: usize,
    field: &'static str,
    offset: usize,
) -> Result<&'a [u8], FrameError> {
    let rest = bytes.get(at..).unwrap_or(&[]);
    let mismatch = FrameError::LengthMismatch { field, offset, found: total, room: rest.len() };
    rest.get(..total).ok_or(mismatch)
}

fn parse_ipv4(
    bytes: &[u8],
    at: usize,
    vlan: Option<u16>,
    port: u16,
) -> Result<Frame<'_>, FrameError> {
    let rest = bytes.get(at..).unwrap_or(&[]);
    check_version(rest, at, 4)?;
    check_protocol(rest, 9, "IPv4 protocol", at)?;
    if let Some(ihl) = rest.first().map(|byte| byte & 0x0f)
        && ihl != 5
    {
        return Err(FrameError::IpOptions { field: "IPv4 IHL", offset: at, found: ihl });
    }
    let header =
        Ipv4HeaderSlice::from_slice(rest).map_err(|_| truncated("IPv4", at, bytes, Ipv4::LEN))?;
    if header.is_fragmenting_payload() {
        return Err(FrameError::Fragment { field: "IPv4 fragment offset", offset: at + 6 });
    }
    let total = usize::from(header.total_len());
    let packet = bounded(bytes, at, total, "IPv4 total length", at + 2)?;
    let network = Network::V4(Ipv4::of(&header));
    let frame = parse_udp(packet, at, Ipv4::LEN, network, vlan)?;
    check_port(frame, at + Ipv4::LEN, port)
}

fn parse_ipv6(
    bytes: &[u8],
    at: usize,
    vlan: Option<u16>,
    port: u16,
) -> Result<Frame<'_>, FrameError> {
    let rest = bytes.get(at..).unwrap_or(&[]);
    check_version(rest, at, 6)?;
    let header =
        Ipv6HeaderSlice::from_slice(rest).map_err(|_| truncated("IPv6", at, bytes, Ipv6::LEN))?;
    let (field, offset) = ("IPv6 next header", at + 6);
    match header.next_header() {
        IpNumber::UDP => {}
        IpNumber::IPV6_FRAGMENTATION_HEADER => return Err(FrameError::Fragment { field, offset }),
        other if other.is_ipv6_ext_header_value() => {
            check_upper(rest, at)?;
            return Err(FrameError::IpOptions { field, offset, found: other.0 });
        }
        IpNumber(found) => {
            return Err(FrameError::NotRoce { field, offset, found: u16::from(found) });
        }
    }
    let total = Ipv6::LEN + usize::from(header.payload_length());
    let packet = bounded(bytes, at, total, "IPv6 payload length", at + 4)?;
    let frame = parse_udp(packet, at, Ipv6::LEN, Network::V6(Ipv6::of(&header)), vlan)?;
    check_port(frame, at + Ipv6::LEN, port)
}

/// Refuses what carries something else than UDP: whatever else is wrong with it, it is no RoCE.
fn check_protocol(
    rest: &[u8],
    place: usize,
    field: &'static str,
    at: usize,
) -> Result<(), FrameError> {
    match rest.get(place) {
        Some(&found) if IpNumber(found) != IpNumber::UDP => {
            Err(FrameError::NotRoce { field, offset: at + place, found: u16::from(found) })
        }
        _ => Ok(()),
    }
}

/// Looks behind the extension headers of IPv6, as far as they can be followed, for something else than UDP.
fn check_upper(rest: &[u8], at: usize) -> Result<(), FrameError> {
    let (mut named_at, mut header) = (6, Ipv6::LEN);
    for _ in 0..MAX_EXTENSIONS {
        let unit = match rest.get(named_at).map(|number| IpNumber(*number)) {
            None | Some(IpNumber::IPV6_FRAGMENTATION_HEADER) => return Ok(()),
            Some(IpNumber::AUTHENTICATION_HEADER) => 4,
            Some(number) if number.is_ipv6_ext_header_value() => 8,
            Some(_) => return check_protocol(rest, named_at, "IPv6 next header", at),
        };
        let Some(&units) = rest.get(header + 1) else {
            return Ok(());
        };
        // The length does not count the first 8 bytes.
        (named_at, header) = (header, header + 8 + usize::from(units) * unit);
    }
    Ok(())
}

fn check_version(rest: &[u8], offset: usize, version: u8) -> Result<(), FrameError> {
    match rest.first().map(|byte| byte >> 4) {
        Some(found) if found != version => Err(FrameError::BadVersion { offset, found }),
        _ => Ok(()),
    }
}

/// `packet` is the IP packet, which starts at `at` in the frame; UDP starts at `udp_at` in it.
fn parse_udp(
    packet: &[u8],
    at: usize,
    udp_at: usize,
    ip: Network,
    vlan: Option<u16>,
) -> Result<Frame<'_>, FrameError> {
    let rest = packet.get(udp_at..).unwrap_or(&[]);
    let at = at + udp_at;
    let udp = UdpHeaderSlice::from_slice(rest).map_err(|_| FrameError::Truncated {
        header: "UDP",
        offset: at,
        got: rest.len(),
        need: UdpPorts::LEN,
    })?;
    let (length, room) = (usize::from(udp.length()), rest.len());
    if length != room {
        let (field, offset) = ("UDP length", at + 4);
        return Err(FrameError::LengthMismatch { field, offset, found: length, room });
    }
    let ports = UdpPorts { src: udp.source_port(), dst: udp.destination_port() };
    let (headers, transport) = packet.split_at(udp_at + UdpPorts::LEN);
    Ok(Frame { vlan, ip, udp: Some(ports), transport, headers })
}

/// Refuses a frame that is not for UDP port `port`; its UDP header is at `at`.
fn check_port(frame: Frame<'_>, at: usize, port: u16) -> Result<Frame<'_>, FrameError> {
    match frame.udp {
        Some(UdpPorts { dst: found, .. }) if found != port => {
            Err(FrameError::NotRoce { field: "UDP destination port", offset: at + 2, found })
        }
        _ => Ok(frame),
    }
}

fn parse_grh(bytes: &[u8], at: usize, vlan: Option<u16>) -> Result<Frame<'_>, FrameError> {
    let rest = bytes.get(at..).unwrap_or(&[]);
    let grh = Grh::read(rest).ok_or_else(|| truncated(Grh::NAME, at, bytes, Grh::LEN))?;
    check_version(rest, at, 6)?;
    if grh.next_header != Grh::IBA {
        let found = u16::from(grh.next_header);
        return Err(FrameError::NotRoce { field: "GRH next header", offset: at + 6, found });
    }
    let total = Grh::LEN + usize::from(grh.payload_len);
    let packet = bounded(bytes, at, total, "GRH payload length", at + 4)?;
    let (headers, transport) = packet.split_at(Grh::LEN);
    Ok(Frame { vlan, ip: Network::Grh(grh), udp: None, transport, headers })
}
