//! Which headers a frame has, and where.

use uroce_wire::{HeaderSet, OpcodeInfo};

use super::layout::HeaderId;
use crate::LinkType;
use crate::dissect::{LinkLayer, link_layer};

/// A header and the offset of its first byte in the frame.
pub(super) type HeaderPlace = (HeaderId, u16);

/// The extension headers in their order on the wire.
const EXTENSIONS: [(HeaderSet, HeaderId); 9] = [
    (HeaderSet::XRCETH, HeaderId::XrcEth),
    (HeaderSet::DETH, HeaderId::Deth),
    (HeaderSet::FETH, HeaderId::Feth),
    (HeaderSet::RETH, HeaderId::Reth),
    (HeaderSet::ATOMIC_ETH, HeaderId::AtomicEth),
    (HeaderSet::AETH, HeaderId::Aeth),
    (HeaderSet::ATOMIC_ACK_ETH, HeaderId::AtomicAckEth),
    (HeaderSet::IMMDT, HeaderId::ImmDt),
    (HeaderSet::IETH, HeaderId::Ieth),
];

/// The headers in front of the BTH of a frame, which is at `bth`, where dissection finds them. Headers
/// that have no table (tunnels, IP options) are left out: their bytes stay without fields.
pub(super) fn network_places(link_type: LinkType, data: &[u8], bth: usize) -> Vec<HeaderPlace> {
    let Some(layer) = link_layer(link_type, data, data.len() as u32) else { return Vec::new() };
    let mut places = Vec::new();
    // A header is shown if all of it lies in front of the BTH.
    let mut take = |id: HeaderId, at: usize| {
        let is_whole = at + id.length() <= bth.min(data.len());
        places.extend(u16::try_from(at).ok().filter(|_| is_whole).map(|at| (id, at)));
    };
    if let Some(id) = link_header(link_type) {
        take(id, 0);
    }
    layer.tags.clone().for_each(|at| take(HeaderId::Vlan, at));
    if let Some(at) = layer.lrh {
        take(HeaderId::Lrh, at);
    }
    if let Some(id) = network_header(&layer, data) {
        take(id, layer.network);
    }
    if let Some(at) = layer.udp {
        take(HeaderId::Udp, at);
    }
    places
}

/// The header that a frame begins with, if its link layer has one.
const fn link_header(link_type: LinkType) -> Option<HeaderId> {
    match link_type {
        LinkType::Ethernet => Some(HeaderId::Ethernet),
        LinkType::LinuxSll => Some(HeaderId::Sll),
        LinkType::LinuxSll2 => Some(HeaderId::Sll2),
        LinkType::Null | LinkType::Loop => Some(HeaderId::Null),
        LinkType::Erf => Some(HeaderId::Erf),
        LinkType::RawIp | LinkType::Infiniband | LinkType::Other(_) => None,
    }
}

fn network_header(layer: &LinkLayer, data: &[u8]) -> Option<HeaderId> {
    match data.get(layer.network).map(|first| first >> 4) {
        _ if layer.is_grh => Some(HeaderId::Grh),
        Some(4) if layer.is_ip => Some(HeaderId::Ipv4),
        Some(6) if layer.is_ip => Some(HeaderId::Ipv6),
        _ => None,
    }
}

/// The BTH at `bth` and the extension headers of its opcode.
pub(super) fn transport_places(bth: usize, info: Option<&OpcodeInfo>) -> Vec<HeaderPlace> {
    let headers = info.map_or(HeaderSet::empty(), |info| info.headers);
    let extensions = EXTENSIONS.iter().filter(|(set, _)| headers.contains(*set));
    let mut at = bth;
    let ids = std::iter::once(HeaderId::Bth).chain(extensions.map(|(_, id)| *id));
    ids.map_while(|id| {
        let place = (id, u16::try_from(at).ok()?);
        at += id.length();
        Some(place)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uroce_wire::Opcode;

    use super::*;

    const UDP: u8 = 17;

    /// `link`, and an IPv4 header that begins with `first` behind it, and UDP.
    fn ipv4(link: &[u8], first: u8) -> Vec<u8> {
        let mut bytes = [link, &[0; 100]].concat();
        bytes[link.len()] = first;
        bytes[link.len() + 9] = UDP;
        bytes
    }

    /// `link`, and an IPv6 header behind it, or a GRH, before `next`.
    fn ipv6(link: &[u8], next: u8) -> Vec<u8> {
        let mut bytes = [link, &[0; 100]].concat();
        bytes[link.len()] = 0x60;
        bytes[link.len() + 6] = next;
        bytes
    }

    fn ethernet(types: &[u16]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        types.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        bytes
    }

    #[test]
    fn ipv4_in_a_vlan() {
        let link = ethernet(&[0x8100, 5, 0x0800]);
        let places = network_places(LinkType::Ethernet, &ipv4(&link, 0x45), 46);
        let expected = [
            (HeaderId::Ethernet, 0),
            (HeaderId::Vlan, 14),
            (HeaderId::Ipv4, 18),
            (HeaderId::Udp, 38),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn ip_options_are_passed_over() {
        let places = network_places(LinkType::RawIp, &ipv4(&[], 0x46), 32);
        assert_eq!(places, [(HeaderId::Ipv4, 0), (HeaderId::Udp, 24)]);
    }

    #[test]
    fn roce_v1_has_a_grh() {
        let link = ethernet(&[0x8915]);
        let places = network_places(LinkType::Ethernet, &ipv6(&link, 0x1b), 54);
        assert_eq!(places, [(HeaderId::Ethernet, 0), (HeaderId::Grh, 14)]);
    }

    #[test]
    fn udp_is_behind_the_extension_headers_of_ipv6() {
        let link = ethernet(&[0x86dd]);
        let mut frame = ipv6(&link, 0);
        frame[54] = UDP;
        let places = network_places(LinkType::Ethernet, &frame, 70);
        let expected = [(HeaderId::Ethernet, 0), (HeaderId::Ipv6, 14), (HeaderId::Udp, 62)];
        assert_eq!(places, expected);
    }

    #[test]
    fn a_timestamp_of_erf_is_no_ip_header() {
        let mut record = [0; 18];
        record[0] = 0x45;
        record[8] = 2;
        let frame = ipv4(&[&record[..], &ethernet(&[0x0800])].concat(), 0x45);
        let places = network_places(LinkType::Erf, &frame, 60);
        assert_eq!(places, [(HeaderId::Erf, 0), (HeaderId::Ipv4, 32), (HeaderId::Udp, 52)]);
        assert_eq!(network_places(LinkType::Other(9999), &ipv4(&[], 0x45), 28), []);
    }

    #[test]
    fn a_virtual_lane_is_no_ip_version() {
        for lane in [0x40, 0x60] {
            let lrh = [lane, 3, 0, 1, 0, 20, 0, 2];
            let places = network_places(LinkType::Infiniband, &ipv6(&lrh, 0x1b), 48);
            assert_eq!(places, [(HeaderId::Lrh, 0), (HeaderId::Grh, 8)]);
            let local = [lane, 2, 0, 1, 0, 20, 0, 2];
            let places = network_places(LinkType::Infiniband, &ipv6(&local, 0x1b), 8);
            assert_eq!(places, [(HeaderId::Lrh, 0)]);
        }
    }

    #[test]
    fn tags_behind_a_cooked_header_are_found() {
        let mut link = [0; 20];
        link[14..16].copy_from_slice(&[0x81, 0]);
        link[18..].copy_from_slice(&[8, 0]);
        let places = network_places(LinkType::LinuxSll, &ipv4(&link, 0x45), 48);
        let expected =
            [(HeaderId::Sll, 0), (HeaderId::Vlan, 16), (HeaderId::Ipv4, 20), (HeaderId::Udp, 40)];
        assert_eq!(places, expected);
    }

    #[test]
    fn places_of_every_opcode_have_the_length_of_the_opcode_table() {
        for info in (0..=255).filter_map(|byte| Opcode(byte).info()) {
            let places = transport_places(42, Some(info));
            let (last, at) = places[places.len() - 1];
            assert_eq!(usize::from(at) + last.length(), 42 + info.header_len, "{}", info.name);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_places_in_front_of_the_bth(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            number in prop_oneof![Just(1u32), Just(0), Just(101), Just(113), Just(276), any::<u32>()],
            bth in 0usize..300,
        ) {
            for (id, at) in network_places(LinkType::from_number(number), &bytes, bth) {
                prop_assert!(usize::from(at) + id.length() <= bth.min(bytes.len()));
            }
        }
    }
}
