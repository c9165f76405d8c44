//! Writing the headers in front of a transport packet.

use etherparse::{
    EtherType, Ethernet2Header, IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header,
    SingleVlanHeader, UdpHeader, VlanId,
};

use super::{Ipv4, Ipv6, UdpPorts};

/// Writes an Ethernet header, with an 802.1Q tag if `vlan` says so. Returns its length, or `None`
/// if `out` is too short or the VLAN id above 4095.
pub fn write_ethernet(
    out: &mut [u8],
    src: [u8; 6],
    dst: [u8; 6],
    vlan: Option<u16>,
    ether_type: u16,
) -> Option<usize> {
    let payload_type = EtherType(ether_type);
    let Some(vlan) = vlan else {
        let header = Ethernet2Header { source: src, destination: dst, ether_type: payload_type };
        return put(out, 0, &header.to_bytes());
    };
    let tag = SingleVlanHeader {
        pcp: Default::default(),
        drop_eligible_indicator: false,
        vlan_id: VlanId::try_new(vlan).ok()?,
        ether_type: payload_type,
    };
    let ether_type = EtherType::VLAN_TAGGED_FRAME;
    let header = Ethernet2Header { source: src, destination: dst, ether_type };
    let at = put(out, 0, &header.to_bytes())?;
    put(out, at, &tag.to_bytes())
}

/// Writes an IPv4 and a UDP header for a transport packet of `transport_len` bytes (BTH to ICRC).
/// The UDP checksum is 0, as RoCE has it. Returns their length, or `None` if `out` is too short or
/// the packet longer than IPv4 allows.
pub fn write_ipv4_udp(
    out: &mut [u8],
    ip: &Ipv4,
    ports: UdpPorts,
    transport_len: usize,
) -> Option<usize> {
    let udp_len = u16::try_from(transport_len.checked_add(UdpPorts::LEN)?).ok()?;
    let mut header = Ipv4Header {
        dscp: IpDscp::try_new(ip.tos >> 2).ok()?,
        ecn: IpEcn::try_new(ip.tos & 3).ok()?,
        total_len: udp_len.checked_add(Ipv4::LEN as u16)?,
        identification: ip.id,
        dont_fragment: ip.df,
        time_to_live: ip.ttl,
        protocol: IpNumber::UDP,
        source: ip.src.octets(),
        destination: ip.dst.octets(),
        ..Ipv4Header::default()
    };
    header.header_checksum = header.calc_header_checksum();
    let at = put(out, 0, &header.to_bytes())?;
    put(out, at, &udp(ports, udp_len))
}

/// Writes an IPv6 and a UDP header; otherwise as [`write_ipv4_udp`].
pub fn write_ipv6_udp(
    out: &mut [u8],
    ip: &Ipv6,
    ports: UdpPorts,
    transport_len: usize,
) -> Option<usize> {
    let udp_len = u16::try_from(transport_len.checked_add(UdpPorts::LEN)?).ok()?;
    let header = Ipv6Header {
        traffic_class: ip.traffic_class,
        flow_label: Ipv6FlowLabel::try_new(ip.flow_label).ok()?,
        payload_length: udp_len,
        next_header: IpNumber::UDP,
        hop_limit: ip.hop_limit,
        source: ip.src.octets(),
        destination: ip.dst.octets(),
    };
    let at = put(out, 0, &header.to_bytes())?;
    put(out, at, &udp(ports, udp_len))
}

fn udp(ports: UdpPorts, length: u16) -> [u8; UdpPorts::LEN] {
    let (source_port, destination_port) = (ports.src, ports.dst);
    UdpHeader { source_port, destination_port, length, checksum: 0 }.to_bytes()
}

/// Puts `part` at `at`; returns where it ends.
fn put(out: &mut [u8], at: usize, part: &[u8]) -> Option<usize> {
    let end = at.checked_add(part.len())?;
    out.get_mut(at..end)?.copy_from_slice(part);
    Some(end)
}
