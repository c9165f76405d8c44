//! Questions to the kernel's routing, neighbour and interface tables (rtnetlink(7)).

mod changes;
pub(crate) mod generic;
pub(crate) mod socket;

use std::io;
use std::net::IpAddr;

use netlink_packet_core::Nla;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::link::{LinkFlags, LinkHeader, LinkLayerType};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourHeader};
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteType};
use rustix::io::Errno;
use uroce_datapath::Mac;

pub use self::changes::LinkChanges;
use self::socket::{NetlinkSocket, find};

/// Room for an answer. The longest, about an interface, has what we read in its first part.
const ANSWER: usize = 16 * 1024;

/// Bytes of the fixed part of an answer, by the kind of table.
const ROUTE: usize = 12;
const NEIGHBOUR: usize = 12;
const LINK: usize = 16;

/// The MTU among the metrics of a route (`RTAX_MTU` of linux/rtnetlink.h).
const RTAX_MTU: u16 = 2;

/// Neighbour states in which the hardware address may be used.
const USABLE: u16 = libc::NUD_REACHABLE
    | libc::NUD_STALE
    | libc::NUD_DELAY
    | libc::NUD_PROBE
    | libc::NUD_NOARP
    | libc::NUD_PERMANENT;

/// A network interface, as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interface {
    /// The kernel's number of it.
    pub index: u32,
    /// Its hardware address; zero for the loopback interface.
    pub mac: Mac,
    /// In bytes, IP header included.
    pub mtu: usize,
    /// It carries Ethernet frames.
    pub ethernet: bool,
    /// It is the loopback interface.
    pub loopback: bool,
    /// Neighbours are resolved on it.
    pub arp: bool,
}

/// How the kernel would reach an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RouteAnswer {
    pub(super) kind: RouteKind,
    pub(super) interface: u32,
    pub(super) gateway: Option<IpAddr>,
    /// Path MTU, when the route or an ICMP message limits it.
    pub(super) mtu: Option<usize>,
}

/// The kinds of route that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteKind {
    Unicast,
    /// An address of this host.
    Local,
    /// Broadcast, prohibited and so on.
    Other,
}

/// What the neighbour table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeighbourAnswer {
    Known {
        mac: Mac,
        /// The address was not confirmed for a while.
        stale: bool,
    },
    Unknown,
}

/// The kernel's tables.
#[derive(Debug)]
pub(super) struct Netlink(NetlinkSocket);

/// Asks for an interface without its statistics.
struct SkipStatistics;

impl Nla for SkipStatistics {
    fn value_len(&self) -> usize {
        size_of::<u32>()
    }

    fn kind(&self) -> u16 {
        libc::IFLA_EXT_MASK
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&libc::RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
    }
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self(NetlinkSocket::open(None, ANSWER)?))
    }

    /// How packets from `src` to `dst` leave; `via` names an interface for link-local addresses.
    pub(super) fn route(
        &mut self,
        src: IpAddr,
        dst: IpAddr,
        via: Option<u32>,
    ) -> Result<RouteAnswer, Errno> {
        let bits = if dst.is_ipv4() { 32 } else { 128 };
        let header = RouteHeader {
            address_family: family(dst),
            destination_prefix_length: bits,
            source_prefix_length: bits,
            ..RouteHeader::default()
        };
        let wanted = [
            RouteAttribute::Destination(dst.into()),
            RouteAttribute::Source(src.into()),
            RouteAttribute::Oif(via.unwrap_or_default()),
        ];
        let wanted = if via.is_some() { &wanted[..] } else { &wanted[..2] };
        let answer = self.0.ask(libc::RTM_GETROUTE, &header, wanted)?;
        let kind = match RouteHeader::parse(answer).map_err(|_| Errno::PROTO)?.kind {
            RouteType::Unicast => RouteKind::Unicast,
            RouteType::Local => RouteKind::Local,
            _ => RouteKind::Other,
        };
        let attributes = answer.get(ROUTE..).unwrap_or_default();
        let interface = find(attributes, libc::RTA_OIF).and_then(number).ok_or(Errno::PROTO)?;
        let via = find(attributes, libc::RTA_VIA).and_then(|via| address(via.get(2..)?));
        let gateway = find(attributes, libc::RTA_GATEWAY).and_then(address).or(via);
        let mtu = find(attributes, libc::RTA_METRICS).and_then(|metrics| find(metrics, RTAX_MTU));
        let mtu = mtu.and_then(number).filter(|&mtu| mtu > 0);
        Ok(RouteAnswer { kind, interface, gateway, mtu: mtu.and_then(|mtu| mtu.try_into().ok()) })
    }

    /// The hardware address of `ip` on an interface, if the kernel has it.
    pub(super) fn neighbour(&mut self, index: u32, ip: IpAddr) -> Result<NeighbourAnswer, Errno> {
        let header =
            NeighbourHeader { family: family(ip), ifindex: index, ..NeighbourHeader::default() };
        let wanted = match ip {
            IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
            IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
        };
        let wanted = [NeighbourAttribute::Destination(wanted)];
        let answer = match self.0.ask(libc::RTM_GETNEIGH, &header, &wanted) {
            Err(Errno::NOENT) => return Ok(NeighbourAnswer::Unknown),
            other => other?,
        };
        let state = NeighbourHeader::parse(answer).map_err(|_| Errno::PROTO)?.state;
        let state = u16::from(state);
        let mac = find(answer.get(NEIGHBOUR..).unwrap_or_default(), libc::NDA_LLADDR);
        Ok(match mac.and_then(|mac| Mac::try_from(mac).ok()) {
            Some(mac) if state & USABLE != 0 => {
                NeighbourAnswer::Known { mac, stale: state & libc::NUD_STALE != 0 }
            }
            _ => NeighbourAnswer::Unknown,
        })
    }

    /// An interface by its index.
    pub(super) fn interface(&mut self, index: u32) -> Result<Interface, Errno> {
        let header = LinkHeader { index, ..LinkHeader::default() };
        let answer = self.0.ask(libc::RTM_GETLINK, &header, &[SkipStatistics])?;
        let header = LinkHeader::parse(answer).map_err(|_| Errno::PROTO)?;
        let attributes = answer.get(LINK..).unwrap_or_default();
        let mac = find(attributes, libc::IFLA_ADDRESS).and_then(|mac| Mac::try_from(mac).ok());
        let mtu = find(attributes, libc::IFLA_MTU).and_then(number).ok_or(Errno::PROTO)?;
        Ok(Interface {
            index,
            mac: mac.unwrap_or_default(),
            mtu: usize::try_from(mtu).map_err(|_| Errno::PROTO)?,
            ethernet: header.link_layer_type == LinkLayerType::Ether,
            loopback: header.link_layer_type == LinkLayerType::Loopback,
            arp: !header.flags.contains(LinkFlags::Noarp),
        })
    }
}

fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// A 32-bit number at the start of `bytes`.
fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.first_chunk()?))
}

/// An address by the length of its bytes.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LO: u32 = 1;

    #[test]
    fn the_loopback_interface_is_described() {
        let lo = Netlink::open().expect("netlink").interface(LO).expect("lo");
        assert!(lo.loopback && !lo.ethernet && lo.mtu > 1500, "{lo:?}");
        assert_eq!(lo.mac, [0; 6]);
    }

    #[test]
    fn a_local_address_is_reached_by_a_local_route() {
        let mut netlink = Netlink::open().expect("netlink");
        for (src, dst) in [("127.0.0.1", "127.0.0.2"), ("::1", "::1")] {
            let (src, dst) = (src.parse().expect("src"), dst.parse().expect("dst"));
            let route = netlink.route(src, dst, None).expect("route");
            assert_eq!((route.kind, route.interface), (RouteKind::Local, LO));
        }
    }

    #[test]
    fn what_does_not_exist_is_an_error_and_the_next_answer_is_the_right_one() {
        let mut netlink = Netlink::open().expect("netlink");
        assert_eq!(netlink.interface(0x7fff_fff0), Err(Errno::NODEV));
        let absent = IpAddr::from([127, 0, 0, 77]);
        assert_eq!(netlink.neighbour(LO, absent), Ok(NeighbourAnswer::Unknown));
        assert!(netlink.route("203.0.113.1".parse().expect("src"), absent, None).is_err());
        assert!(netlink.interface(LO).is_ok());
    }
}
