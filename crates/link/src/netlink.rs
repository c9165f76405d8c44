//! Questions to the kernel's routing, neighbour and interface tables (rtnetlink(7)).

mod changes;
mod dump;
pub(crate) mod generic;
mod interfaces;
pub(crate) mod message;
pub(crate) mod socket;

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use uroce_datapath::Mac;

pub use self::changes::LinkChanges;
pub use self::interfaces::{ListedInterface, interfaces};
use self::message::{
    BorrowedAttribute, FixedPart, LINK, LINK_FLAGS, LINK_TYPE, NEIGHBOUR, NEIGHBOUR_STATE, ROUTE,
    ROUTE_TYPE, short, word,
};
use self::socket::{NetlinkSocket, find};

/// Room for an answer. The longest, about an interface, has what we read in its first part.
const ANSWER: usize = 16 * 1024;

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
        let asked = FixedPart::of_route(family(dst), bits);
        let (mut to, mut from, out) = ([0; 16], [0; 16], via.unwrap_or_default().to_ne_bytes());
        let wanted = [
            BorrowedAttribute::new(libc::RTA_DST, octets(dst, &mut to)),
            BorrowedAttribute::new(libc::RTA_SRC, octets(src, &mut from)),
            BorrowedAttribute::new(libc::RTA_OIF, &out),
        ];
        let wanted = if via.is_some() { &wanted[..] } else { &wanted[..2] };
        let answer = self.0.ask(libc::RTM_GETROUTE, &asked, wanted)?;
        let (fixed, attributes) = answer.split_at_checked(ROUTE).ok_or(Errno::PROTO)?;
        let kind = match fixed[ROUTE_TYPE] {
            libc::RTN_UNICAST => RouteKind::Unicast,
            libc::RTN_LOCAL => RouteKind::Local,
            _ => RouteKind::Other,
        };
        let interface = find(attributes, libc::RTA_OIF).and_then(number).ok_or(Errno::PROTO)?;
        let via = find(attributes, libc::RTA_VIA).and_then(|via| address(via.get(2..)?));
        let gateway = find(attributes, libc::RTA_GATEWAY).and_then(address).or(via);
        let mtu = find(attributes, libc::RTA_METRICS).and_then(|metrics| find(metrics, RTAX_MTU));
        let mtu = mtu.and_then(number).filter(|&mtu| mtu > 0);
        Ok(RouteAnswer { kind, interface, gateway, mtu: mtu.and_then(|mtu| mtu.try_into().ok()) })
    }

    /// The hardware address of `ip` on an interface, if the kernel has it.
    pub(super) fn neighbour(&mut self, index: u32, ip: IpAddr) -> Result<NeighbourAnswer, Errno> {
        let asked = FixedPart::of_neighbour(family(ip), index);
        let mut of = [0; 16];
        let wanted = [BorrowedAttribute::new(libc::NDA_DST, octets(ip, &mut of))];
        let answer = match self.0.ask(libc::RTM_GETNEIGH, &asked, &wanted) {
            Err(Errno::NOENT) => return Ok(NeighbourAnswer::Unknown),
            other => other?,
        };
        let (fixed, attributes) = answer.split_at_checked(NEIGHBOUR).ok_or(Errno::PROTO)?;
        let state = short(fixed, NEIGHBOUR_STATE).ok_or(Errno::PROTO)?;
        let mac = find(attributes, libc::NDA_LLADDR);
        Ok(match mac.and_then(|mac| Mac::try_from(mac).ok()) {
            Some(mac) if state & USABLE != 0 => {
                NeighbourAnswer::Known { mac, stale: state & libc::NUD_STALE != 0 }
            }
            _ => NeighbourAnswer::Unknown,
        })
    }

    /// An interface by its index.
    pub(super) fn interface(&mut self, index: u32) -> Result<Interface, Errno> {
        let skip = libc::RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
        let no_statistics = [BorrowedAttribute::new(libc::IFLA_EXT_MASK, &skip)];
        let asked = FixedPart::of_link(index);
        let answer = self.0.ask(libc::RTM_GETLINK, &asked, &no_statistics)?;
        let (fixed, attributes) = answer.split_at_checked(LINK).ok_or(Errno::PROTO)?;
        let kind = short(fixed, LINK_TYPE).ok_or(Errno::PROTO)?;
        let flags = word(fixed, LINK_FLAGS).ok_or(Errno::PROTO)?;
        let mac = find(attributes, libc::IFLA_ADDRESS).and_then(|mac| Mac::try_from(mac).ok());
        let mtu = find(attributes, libc::IFLA_MTU).and_then(number).ok_or(Errno::PROTO)?;
        Ok(Interface {
            index,
            mac: mac.unwrap_or_default(),
            mtu: usize::try_from(mtu).map_err(|_| Errno::PROTO)?,
            ethernet: kind == libc::ARPHRD_ETHER,
            loopback: kind == libc::ARPHRD_LOOPBACK,
            arp: flags & libc::IFF_NOARP.cast_unsigned() == 0,
        })
    }
}

fn family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    family as u8
}

/// The bytes of an address, written to `room`.
fn octets(ip: IpAddr, room: &mut [u8; 16]) -> &[u8] {
    match ip {
        IpAddr::V4(ip) => {
            room[..4].copy_from_slice(&ip.octets());
            &room[..4]
        }
        IpAddr::V6(ip) => {
            *room = ip.octets();
            room
        }
    }
}

/// A 32-bit number at the start of `bytes`.
fn number(bytes: &[u8]) -> Option<u32> {
    word(bytes, 0)
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
