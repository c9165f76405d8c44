//! Received frames.

use std::net::{IpAddr, SocketAddr};

use uroce_datapath::{DatapathStats, IpId, RxPacket};
use uroce_wire::{DropReason, Network, parse_ethernet_on};

use super::groups::Groups;

/// Why a frame was not handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refused {
    /// It is not a whole RoCE packet for our port, for this reason.
    Malformed(DropReason),
    /// It is for another address.
    NotForUs,
}

impl Refused {
    /// Counts the frame.
    pub fn count(self, stats: &mut DatapathStats) {
        match self {
            Refused::Malformed(reason) => stats.refuse(reason),
            Refused::NotForUs => stats.rx_dropped += 1,
        }
    }
}

/// Reads frames for one address and the multicast groups it has joined.
///
/// Strict as the wire crate's frame parser: no fragments, no IP options or extension headers, one
/// VLAN tag at most, lengths that agree.
#[derive(Debug, Clone)]
pub struct FrameReader {
    local: SocketAddr,
    /// Multicast groups that are joined.
    pub groups: Groups,
    /// Those to any other group are as well.
    every_group: bool,
}

impl FrameReader {
    /// A reader for packets to `local`, an address and its RoCE port.
    #[must_use]
    pub fn new(local: SocketAddr) -> Self {
        Self { local, groups: Groups::default(), every_group: false }
    }

    /// A reader for one of several engines on an address: accepts packets to all groups; the
    /// membership of each engine is checked elsewhere.
    #[must_use]
    pub fn of_several(local: SocketAddr) -> Self {
        Self { every_group: true, ..Self::new(local) }
    }

    /// The packet in a frame that begins with its Ethernet header. With a super-packet the payload is
    /// that of all segments, one behind the other, and the identification that of the first.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the frame must be counted as dropped.
    #[inline]
    pub fn read<'a>(&self, frame: &'a [u8]) -> Result<RxPacket<'a>, Refused> {
        let frame = parse_ethernet_on(frame, self.local.port())
            .map_err(|error| Refused::Malformed(error.drop_reason()))?;
        let Some(ports) = frame.udp else {
            return Err(Refused::Malformed(DropReason::NotRoce));
        };
        let (src, dst) = frame.addresses();
        if !self.is_for_us(&dst) {
            return Err(Refused::NotForUs);
        }
        let ip_id = match frame.ip {
            Network::V4(ip) => IpId::Known(ip.id),
            Network::V6(_) | Network::Grh(_) => IpId::NotPresent,
        };
        Ok(RxPacket {
            src: SocketAddr::new(src, ports.src),
            dst: SocketAddr::new(dst, ports.dst),
            traffic_class: frame.ip.traffic_class(),
            hop_limit: frame.ip.hop_limit(),
            ip_id,
            icrc_checked: false,
            following: None,
            fate: None,
            payload: frame.transport,
        })
    }

    #[inline]
    fn is_for_us(&self, dst: &IpAddr) -> bool {
        *dst == self.local.ip()
            || (dst.is_multicast() && (self.every_group || self.groups.contains(dst)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uroce_datapath::Route;

    use super::super::template::{Ethernet, HeaderTemplate, MAX_HEADERS};
    use super::*;

    fn reader(local: &str) -> FrameReader {
        FrameReader::new(local.parse().expect("address"))
    }

    fn frame(src: &str, dst: &str, vlan: Option<u16>) -> Vec<u8> {
        let (src, dst) = (src.parse().expect("src"), dst.parse().expect("dst"));
        let route = Route { src, dst, hop_limit: 9, traffic_class: 0x21 };
        let ethernet = Ethernet { src: [2; 6], dst: [4; 6], vlan };
        let template = HeaderTemplate::new(&ethernet, &route).expect("template");
        let mut frame = vec![0; MAX_HEADERS];
        let len = template.write(0x1234, 7, &mut frame).expect("room");
        frame.truncate(len);
        frame.extend(b"payload");
        frame
    }

    #[test]
    fn a_packet_for_us_has_all_its_fields() {
        for vlan in [None, Some(5)] {
            let frame = frame("10.0.0.9:50000", "10.0.0.1:4800", vlan);
            let packet = reader("10.0.0.1:4800").read(&frame).expect("for us");
            assert_eq!(packet.src, "10.0.0.9:50000".parse().expect("address"));
            assert_eq!(packet.dst, "10.0.0.1:4800".parse().expect("address"));
            assert_eq!((packet.hop_limit, packet.traffic_class), (9, 0x21));
            assert_eq!((packet.ip_id, packet.payload), (IpId::Known(0x1234), &b"payload"[..]));
        }
        let frame = frame("[fd00::9]:50000", "[fd00::1]:4791", None);
        let packet = reader("[fd00::1]:4791").read(&frame).expect("for us");
        assert_eq!((packet.ip_id, packet.payload), (IpId::NotPresent, &b"payload"[..]));
    }

    #[test]
    fn e1_other_addresses_ports_and_groups_are_not_for_us() {
        let mut reader = reader("10.0.0.1:4791");
        let other = frame("10.0.0.9:1", "10.0.0.2:4791", None);
        assert_eq!(reader.read(&other).expect_err("other"), Refused::NotForUs);
        let port = frame("10.0.0.9:1", "10.0.0.1:4792", None);
        let error = reader.read(&port).expect_err("port");
        assert_eq!(error, Refused::Malformed(DropReason::NotRoce));
        let group = frame("10.0.0.9:1", "239.1.2.3:4791", None);
        assert_eq!(reader.read(&group).expect_err("not joined"), Refused::NotForUs);
        reader.groups.insert([239, 1, 2, 3].into());
        assert!(reader.read(&group).is_ok());
        let several = FrameReader::of_several("10.0.0.1:4791".parse().expect("address"));
        assert!(several.read(&group).is_ok() && several.read(&other).is_err());
    }

    #[test]
    fn e3_e4_a27_fragments_and_options_are_refused_with_a_reason() {
        let reader = reader("10.0.0.1:4791");
        let good = frame("10.0.0.9:1", "10.0.0.1:4791", None);
        let refused = |change: fn(&mut Vec<u8>)| {
            let mut frame = good.clone();
            change(&mut frame);
            reader.read(&frame).expect_err("refused")
        };
        use Refused::Malformed;
        assert_eq!(refused(|f| f[20] |= 0x20), Malformed(DropReason::Fragment));
        assert_eq!(refused(|f| f[14] = 0x46), Malformed(DropReason::IpOptions));
        assert_eq!(refused(|f| f[39] += 1), Malformed(DropReason::BadLength));
        assert_eq!(refused(|f| f.truncate(20)), Malformed(DropReason::TooShort));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = reader("10.0.0.1:4791").read(&bytes);
        }
    }
}
