//! Next hops and hardware addresses.

mod entry;

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;
use std::{fmt, io};

use rustix::io::Errno;
use uroce_datapath::{Mac, multicast_mac};

use self::entry::{Entry, Found};
use super::netlink::{Interface, NeighbourAnswer, Netlink, RouteAnswer, RouteKind};
use super::solicitor::Solicitor;

/// Destinations that are remembered; with more all are forgotten and asked for again.
const MAX_ENTRIES: usize = 1024;

/// Where frames for a destination go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// Index of the interface that they leave by. It is that of `lo` for addresses of this host.
    pub interface: u32,
    /// Our hardware address on that interface.
    pub src: Mac,
    /// The hardware address they are sent to.
    pub dst: Mac,
    /// Largest IP packet in bytes, by the interface and by what the kernel knows of the path.
    pub mtu: usize,
}

/// What is known about the way to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// Frames can be sent.
    Ready(NextHop),
    /// The kernel has been asked to resolve the next hop; ask again a little later.
    Pending,
    /// Packets must be dropped.
    Unreachable(Unreachable),
}

/// Why a destination cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreachable {
    /// The routing table has no way, or forbids it.
    NoRoute(Errno),
    /// The next hop does not answer ARP or neighbour discovery.
    Silent(IpAddr),
    /// The way leads through an interface without Ethernet frames (a tunnel, say).
    NotEthernet(u32),
    /// A broadcast address or the like.
    NotUnicast,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute(errno) => write!(
                f,
                "the routing table has no way there ({errno}): check `ip route get` and that the \
                 interface is up"
            ),
            Self::Silent(ip) => write!(
                f,
                "{ip} does not answer ARP or neighbour discovery: check that it is up and on this \
                 link"
            ),
            Self::NotEthernet(index) => write!(
                f,
                "the way leads through interface {index}, which has no Ethernet frames: use \
                 `--datapath udp`"
            ),
            Self::NotUnicast => f.write_str("it is not the address of one host: choose another"),
        }
    }
}

/// The ways to all destinations, from the kernel's routing and neighbour tables, remembered for a
/// second at a time.
///
/// A hardware address that the kernel does not have yet is asked for by an empty UDP datagram to the
/// next hop's discard port; nothing here waits for the answer.
#[derive(Debug)]
pub struct Neighbours {
    netlink: Netlink,
    solicitor: Solicitor,
    local: IpAddr,
    home: Interface,
    entries: HashMap<IpAddr, Entry>,
}

impl Neighbours {
    /// The neighbours of the address `local` on its interface `home`
    /// (see [`interface_of`](super::interface_of)).
    ///
    /// # Errors
    ///
    /// When a netlink or UDP socket cannot be opened, or `local` is not an address of this host.
    pub fn open(local: IpAddr, home: Interface) -> io::Result<Self> {
        Ok(Self {
            netlink: Netlink::open()?,
            solicitor: Solicitor::open(local, home.index)?,
            local,
            home,
            entries: HashMap::with_capacity(MAX_ENTRIES),
        })
    }

    /// The interface of our address, as it was at the start.
    #[must_use]
    pub fn home(&self) -> &Interface {
        &self.home
    }

    /// The way to `dst`, and until when it need not be asked for again.
    pub fn resolve(&mut self, dst: IpAddr, now: Instant) -> (Resolution, Instant) {
        let known = self.entries.get(&dst).copied();
        if let Some(entry) = known
            && now < entry.ask_at
        {
            return (entry.resolution, entry.ask_at);
        }
        let found = self.look_up(dst);
        let entry = known.unwrap_or_else(|| Entry::new(now));
        let (entry, solicitor) = entry.after(&found, now);
        if let (true, Some((next_hop, index))) = (solicitor, found.next_hop()) {
            self.solicitor.send(next_hop, index);
        }
        if self.entries.len() == MAX_ENTRIES && known.is_none() {
            self.entries.clear();
        }
        self.entries.insert(dst, entry);
        (entry.resolution, entry.ask_at)
    }

    fn look_up(&mut self, dst: IpAddr) -> Found {
        match self.try_look_up(dst) {
            Ok(found) => found,
            Err(errno) => Found::Never(Unreachable::NoRoute(errno)),
        }
    }

    /// Asks the kernel's tables.
    fn try_look_up(&mut self, dst: IpAddr) -> Result<Found, Errno> {
        if let Some(mac) = multicast_mac(dst) {
            let home = self.netlink.interface(self.home.index)?;
            let mac = if home.loopback { Mac::default() } else { mac };
            return Ok(Found::Local(hop(&home, mac, None)));
        }
        let via = needs_interface(dst).then_some(self.home.index);
        let route = self.netlink.route(self.local, dst, via)?;
        let interface = self.netlink.interface(route.interface)?;
        match route.kind {
            RouteKind::Other => Ok(Found::Never(Unreachable::NotUnicast)),
            RouteKind::Local => Ok(Found::Local(hop(&interface, interface.mac, route.mtu))),
            RouteKind::Unicast if interface.loopback || (interface.ethernet && !interface.arp) => {
                Ok(Found::Local(hop(&interface, interface.mac, route.mtu)))
            }
            RouteKind::Unicast if !interface.ethernet => {
                Ok(Found::Never(Unreachable::NotEthernet(interface.index)))
            }
            RouteKind::Unicast => self.neighbour(dst, &route, &interface),
        }
    }

    fn neighbour(
        &mut self,
        dst: IpAddr,
        route: &RouteAnswer,
        interface: &Interface,
    ) -> Result<Found, Errno> {
        let next_hop = route.gateway.unwrap_or(dst);
        let index = interface.index;
        Ok(match self.netlink.neighbour(index, next_hop)? {
            NeighbourAnswer::Known { mac, stale } => {
                Found::Neighbour { hop: hop(interface, mac, route.mtu), next_hop, stale }
            }
            NeighbourAnswer::Unknown => Found::Missing { next_hop, interface: index },
        })
    }
}

fn hop(interface: &Interface, dst: Mac, path_mtu: Option<usize>) -> NextHop {
    let mtu = path_mtu.map_or(interface.mtu, |path| path.min(interface.mtu));
    NextHop { interface: interface.index, src: interface.mac, dst, mtu }
}

/// Whether the address exists on every link.
fn needs_interface(dst: IpAddr) -> bool {
    matches!(dst, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_lo(local: &str) -> Neighbours {
        let local = local.parse().expect("address");
        Neighbours::open(local, super::super::interface_of(local).expect("lo")).expect("open")
    }

    #[test]
    fn addresses_of_this_host_are_ready_at_once() {
        for (local, peer) in [("127.0.0.1", "127.0.0.9"), ("::1", "::1")] {
            let mut neighbours = on_lo(local);
            let lo = *neighbours.home();
            let peer = peer.parse().expect("address");
            let (found, _) = neighbours.resolve(peer, Instant::now());
            let expected = NextHop { interface: 1, src: [0; 6], dst: [0; 6], mtu: lo.mtu };
            assert_eq!(found, Resolution::Ready(expected));
        }
    }

    #[test]
    fn a_broadcast_address_is_no_host() {
        let mut neighbours = on_lo("127.0.0.1");
        let all = IpAddr::from([255, 255, 255, 255]);
        let (found, _) = neighbours.resolve(all, Instant::now());
        assert!(matches!(found, Resolution::Unreachable(_)), "{found:?}");
    }

    #[test]
    fn more_destinations_than_entries_do_no_harm() {
        let mut neighbours = on_lo("127.0.0.1");
        let now = Instant::now();
        for n in 0..2 * MAX_ENTRIES as u32 {
            let peer = IpAddr::from((0x7f00_0001 + n).to_be_bytes());
            assert!(matches!(neighbours.resolve(peer, now).0, Resolution::Ready(_)));
        }
        assert_eq!(neighbours.entries.len(), MAX_ENTRIES);
    }

    #[test]
    fn every_reason_says_what_to_do() {
        let silent = Unreachable::Silent([10, 0, 0, 1].into());
        for reason in [Unreachable::NoRoute(Errno::NETUNREACH), silent, Unreachable::NotEthernet(3)]
        {
            let text = reason.to_string();
            assert!(text.contains(": check") || text.contains(": use"), "{text}");
        }
    }
}
