//! Which headers a frame has, and where.

use uroce_wire::{HeaderSet, OpcodeInfo};

use super::layout::HeaderId;
use crate::LinkType;

/// A header and the offset of its first byte in the frame.
pub(super) type HeaderPlace = (HeaderId, u16);

const ROCE_V1: u16 = 0x8915;
const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags that are followed in one frame.
const MAX_VLANS: usize = 8;

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

/// The headers in front of the BTH of a frame, which is at `bth`. Headers that this does not know
/// (tunnels, IP options) are left out: their bytes stay without fields.
pub(super) fn network_places(link_type: LinkType, frame: &[u8], bth: usize) -> Vec<HeaderPlace> {
    let mut walk = Walk { frame, bth, at: 0, places: Vec::new() };
    let ethertype = walk.link(link_type);
    walk.network(ethertype);
    walk.places
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

struct Walk<'f> {
    frame: &'f [u8],
    bth: usize,
    at: usize,
    places: Vec<HeaderPlace>,
}

impl Walk<'_> {
    /// Takes a header if all of it lies in front of the BTH.
    fn take(&mut self, id: HeaderId) -> Option<usize> {
        let begin = self.at;
        let end = begin + id.length();
        let at = u16::try_from(begin).ok()?;
        if end > self.bth || end > self.frame.len() {
            return None;
        }
        self.places.push((id, at));
        self.at = end;
        Some(begin)
    }

    fn number(&self, at: usize) -> u16 {
        let byte = |at: usize| u16::from(self.frame.get(at).copied().unwrap_or(0));
        byte(at) << 8 | byte(at + 1)
    }

    /// Takes the link's headers and gives the ethertype, if they have one.
    fn link(&mut self, link_type: LinkType) -> Option<u16> {
        match link_type {
            LinkType::Ethernet => {
                let at = self.take(HeaderId::Ethernet)?;
                Some(self.vlans(self.number(at + 12)))
            }
            LinkType::LinuxSll => self.take(HeaderId::Sll).map(|at| self.number(at + 14)),
            LinkType::LinuxSll2 => self.take(HeaderId::Sll2).map(|at| self.number(at)),
            LinkType::Null | LinkType::Loop => self.take(HeaderId::Null).and(None),
            _ => None,
        }
    }

    fn vlans(&mut self, mut ethertype: u16) -> u16 {
        for _ in 0..MAX_VLANS {
            if !VLANS.contains(&ethertype) {
                break;
            }
            let Some(at) = self.take(HeaderId::Vlan) else { break };
            ethertype = self.number(at + 2);
        }
        ethertype
    }

    fn network(&mut self, ethertype: Option<u16>) {
        if ethertype == Some(ROCE_V1) {
            self.take(HeaderId::Grh);
            return;
        }
        let first = self.frame.get(self.at).copied().unwrap_or(0);
        let (id, length) = match first >> 4 {
            4 => (HeaderId::Ipv4, usize::from(first & 15) * 4),
            6 => (HeaderId::Ipv6, HeaderId::Ipv6.length()),
            _ => return,
        };
        if let Some(begin) = self.take(id) {
            self.at = self.at.max(begin + length);
            self.take(HeaderId::Udp);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uroce_wire::Opcode;

    use super::*;

    fn frame(link: &[u8], rest: usize) -> Vec<u8> {
        let mut bytes = link.to_vec();
        bytes.extend(std::iter::repeat_n(0, rest));
        bytes
    }

    fn ethernet(types: &[u16]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        types.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        bytes
    }

    #[test]
    fn ipv4_in_a_vlan() {
        let link = ethernet(&[0x8100, 5, 0x0800, 0x4500]);
        let places = network_places(LinkType::Ethernet, &frame(&link, 100), 46);
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
        let places = network_places(LinkType::RawIp, &frame(&[0x46], 100), 32);
        assert_eq!(places, [(HeaderId::Ipv4, 0), (HeaderId::Udp, 24)]);
    }

    #[test]
    fn roce_v1_has_a_grh() {
        let link = ethernet(&[ROCE_V1]);
        let places = network_places(LinkType::Ethernet, &frame(&link, 100), 54);
        assert_eq!(places, [(HeaderId::Ethernet, 0), (HeaderId::Grh, 14)]);
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
