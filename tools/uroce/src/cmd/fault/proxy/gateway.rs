//! One interface between two hosts whose routes to each other lead through this machine.
//!
//! Packets keep their IP addresses from end to end, so that ICRCs and GIDs in private data stay right; only the
//! hardware addresses change. The time to live stays as it is too: programs send RoCE with 1, since it was
//! meant for one link.

use std::net::IpAddr;

use super::relay::Side;

/// An Ethernet address.
pub type Hardware = [u8; 6];

/// Ethertypes.
const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Knows where the two hosts are.
#[derive(Debug)]
pub struct Gateway {
    own: Hardware,
    hosts: [Host; 2],
}

#[derive(Debug, Clone, Copy)]
struct Host {
    address: IpAddr,
    hardware: Option<Hardware>,
}

/// Who sent a frame, by its headers.
struct Sender {
    hardware: Hardware,
    address: IpAddr,
}

impl Gateway {
    /// Between two hosts that have yet to be found; frames to them go to the hardware address `own`.
    pub fn new(own: Hardware, addresses: [IpAddr; 2]) -> Self {
        let hosts = addresses.map(|address| Host { address, hardware: None });
        Self { own, hosts }
    }

    /// Notes where a frame came from. The side that it is from, if it goes from one host to the other through here.
    pub fn handle_frame(&mut self, frame: &[u8]) -> Option<Side> {
        let sender = Sender::of(frame)?;
        let side = if sender.address == self.hosts[0].address {
            Side::First
        } else if sender.address == self.hosts[1].address {
            Side::Second
        } else {
            return None;
        };
        self.hosts[side as usize].hardware = Some(sender.hardware);
        let other = self.hosts[side.other() as usize].address;
        let is_through = frame.starts_with(&self.own) && destination(frame) == Some(other);
        is_through.then_some(side)
    }

    /// A host that nothing was heard of yet.
    pub fn missing(&self) -> Option<IpAddr> {
        self.hosts.iter().find(|host| host.hardware.is_none()).map(|host| host.address)
    }

    /// Addresses a frame to the host on `side`; false if it is not known where that is.
    pub fn address(&self, side: Side, frame: &mut [u8]) -> bool {
        let Some(hardware) = self.hosts[side as usize].hardware else { return false };
        let Some(addresses) = frame.first_chunk_mut::<12>() else { return false };
        addresses[..6].copy_from_slice(&hardware);
        addresses[6..].copy_from_slice(&self.own);
        true
    }
}

impl Sender {
    fn of(frame: &[u8]) -> Option<Self> {
        let at = |place| frame.get(place..)?.first_chunk::<6>().copied();
        let (hardware, address) = match ethertype(frame)? {
            IPV4 => (at(6)?, v4(frame, 26)?),
            IPV6 => (at(6)?, v6(frame, 22)?),
            // Hardware and protocol address of the sender, in requests and in replies.
            ARP if frame.get(14..20)? == [0, 1, 8, 0, 6, 4] => (at(22)?, v4(frame, 28)?),
            _ => return None,
        };
        Some(Self { hardware, address })
    }
}

fn ethertype(frame: &[u8]) -> Option<[u8; 2]> {
    frame.get(12..)?.first_chunk().copied()
}

fn destination(frame: &[u8]) -> Option<IpAddr> {
    match ethertype(frame)? {
        IPV4 => v4(frame, 30),
        IPV6 => v6(frame, 38),
        _ => None,
    }
}

fn v4(frame: &[u8], at: usize) -> Option<IpAddr> {
    frame.get(at..)?.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes))
}

fn v6(frame: &[u8], at: usize) -> Option<IpAddr> {
    frame.get(at..)?.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Hardware = [9; 6];
    const FIRST: [u8; 4] = [10, 0, 0, 1];
    const SECOND: [u8; 4] = [10, 0, 0, 2];

    fn gateway() -> Gateway {
        Gateway::new(OWN, [FIRST.into(), SECOND.into()])
    }

    fn ipv4(to: Hardware, from: Hardware, [src, dst]: [[u8; 4]; 2]) -> Vec<u8> {
        [&to[..], &from, &IPV4, &[0x45; 12], &src, &dst].concat()
    }

    fn arp_reply(from: Hardware, address: [u8; 4]) -> Vec<u8> {
        [&OWN[..], &from, &ARP, &[0, 1, 8, 0, 6, 4, 0, 2], &from, &address, &[0; 10]].concat()
    }

    #[test]
    fn hosts_are_found_by_what_they_send() {
        let mut gateway = gateway();
        assert_eq!(gateway.missing(), Some(FIRST.into()));
        assert_eq!(gateway.handle_frame(&arp_reply([1; 6], FIRST)), None);
        assert_eq!(gateway.missing(), Some(SECOND.into()));
        let to_us = ipv4(OWN, [2; 6], [SECOND, [10, 0, 0, 3]]);
        assert_eq!(gateway.handle_frame(&to_us), None);
        assert_eq!(gateway.missing(), None);
        let mut frame = ipv4(OWN, [1; 6], [FIRST, SECOND]);
        assert_eq!(gateway.handle_frame(&frame), Some(Side::First));
        assert!(gateway.address(Side::Second, &mut frame));
        assert_eq!((&frame[..6], &frame[6..12]), (&[2; 6][..], &OWN[..]));
    }

    #[test]
    fn only_what_comes_through_here_between_the_two_is_carried() {
        let mut gateway = gateway();
        for (to, ends) in
            [([7; 6], [FIRST, SECOND]), (OWN, [FIRST, FIRST]), (OWN, [[1; 4], SECOND])]
        {
            assert_eq!(gateway.handle_frame(&ipv4(to, [1; 6], ends)), None);
        }
        let whole = ipv4(OWN, [2; 6], [SECOND, FIRST]);
        assert_eq!(gateway.handle_frame(&whole), Some(Side::Second));
        let tagged = [&whole[..12], &[0x81, 0, 0, 7], &whole[12..]].concat();
        assert_eq!(gateway.handle_frame(&tagged), None);
    }

    #[test]
    fn ipv6_has_its_own_places() {
        let ends = [1, 2].map(|last| std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
        let mut gateway = Gateway::new(OWN, ends.map(IpAddr::from));
        let frame =
            [&OWN[..], &[1; 6], &IPV6, &[0x60; 8], &ends[0].octets(), &ends[1].octets()].concat();
        assert_eq!(gateway.handle_frame(&frame), Some(Side::First));
    }

    #[test]
    fn a_cut_frame_is_nobodys() {
        let mut gateway = gateway();
        for whole in [ipv4(OWN, [1; 6], [FIRST, SECOND]), arp_reply([1; 6], FIRST)] {
            (0..26).for_each(|end| assert_eq!(gateway.handle_frame(&whole[..end]), None));
        }
        assert_eq!(gateway.missing(), Some(FIRST.into()));
        assert!(!gateway.address(Side::First, &mut [0; 64]));
        gateway.handle_frame(&arp_reply([1; 6], FIRST));
        assert!(!gateway.address(Side::First, &mut [0; 11]));
    }
}
