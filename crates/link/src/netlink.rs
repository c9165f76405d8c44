//! Questions to the kernel's routing, neighbour and interface tables (rtnetlink(7)).
//!
//! The kernel answers within the call that asks, so nothing here waits. All answers are read with
//! bounds checks: a malformed one is no answer.

mod changes;
pub(crate) mod generic;
pub(crate) mod message;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

pub use changes::LinkChanges;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use uroce_datapath::Mac;

use self::message::{Attributes, Request, address, answer, number};

/// Room for an answer. The longest, about an interface, has what we read in its first part.
const ANSWER: usize = 16 * 1024;

/// Answers to earlier questions that are skipped before giving up.
const MAX_SKIPPED: usize = 8;

/// Message types and attributes: linux/rtnetlink.h, linux/neighbour.h, linux/if_link.h.
const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
const GET_NEIGHBOUR: u16 = 30;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const IFLA_ADDRESS: u16 = 1;
const IFLA_MTU: u16 = 4;
const IFLA_EXT_MASK: u16 = 29;
const SKIP_STATISTICS: u32 = 1 << 3;

/// Kinds of route (`RTN_`).
const UNICAST: u8 = 1;
const LOCAL: u8 = 2;

/// Neighbour states (`NUD_`) in which the hardware address may be used.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// The address may be used, but was not confirmed for a while.
const STALE: u16 = 0x04;

/// Kinds of link (`ARPHRD_`).
const ETHER: u16 = 1;
const LOOPBACK: u16 = 772;

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

/// A netlink socket.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Box<[u8]>,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; ANSWER].into_boxed_slice() })
    }

    /// How packets from `src` to `dst` leave; `via` names an interface for link-local addresses.
    pub(super) fn route(
        &mut self,
        src: IpAddr,
        dst: IpAddr,
        via: Option<u32>,
    ) -> Result<RouteAnswer, Errno> {
        let bits = if dst.is_ipv4() { 32 } else { 128 };
        let header = [family(dst), bits, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut request = Request::new(GET_ROUTE, &header);
        request.push_address(RTA_DST, dst);
        request.push_address(RTA_SRC, src);
        if let Some(index) = via {
            request.push(RTA_OIF, &index.to_ne_bytes());
        }
        let body = self.ask(request)?;
        let &[_, _, _, _, _, _, _, kind, ..] = body else {
            return Err(Errno::PROTO);
        };
        let kind = match kind {
            UNICAST => RouteKind::Unicast,
            LOCAL => RouteKind::Local,
            _ => RouteKind::Other,
        };
        let attributes = Attributes::after(body, header.len());
        let interface = attributes.find(RTA_OIF).and_then(number).ok_or(Errno::PROTO)?;
        let via = attributes.find(RTA_VIA).and_then(|via| address(via.get(2..)?));
        let gateway = attributes.find(RTA_GATEWAY).and_then(address).or(via);
        let metrics = attributes.find(RTA_METRICS).map(Attributes::of);
        let mtu = metrics.and_then(|metrics| metrics.find(RTAX_MTU)).and_then(number);
        let mtu = mtu.filter(|&mtu| mtu > 0).and_then(|mtu| usize::try_from(mtu).ok());
        Ok(RouteAnswer { kind, interface, gateway, mtu })
    }

    /// The hardware address of `ip` on an interface, if the kernel has it.
    pub(super) fn neighbour(&mut self, index: u32, ip: IpAddr) -> Result<NeighbourAnswer, Errno> {
        let mut header = [0; 12];
        header[0] = family(ip);
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut request = Request::new(GET_NEIGHBOUR, &header);
        request.push_address(NDA_DST, ip);
        let body = match self.ask(request) {
            Err(Errno::NOENT) => return Ok(NeighbourAnswer::Unknown),
            other => other?,
        };
        let state = body.get(8..).and_then(|rest| rest.first_chunk());
        let state = u16::from_ne_bytes(*state.ok_or(Errno::PROTO)?);
        let mac = Attributes::after(body, header.len()).find(NDA_LLADDR);
        Ok(match mac.and_then(|mac| Mac::try_from(mac).ok()) {
            Some(mac) if state & USABLE != 0 => {
                NeighbourAnswer::Known { mac, stale: state & STALE != 0 }
            }
            _ => NeighbourAnswer::Unknown,
        })
    }

    /// An interface by its index.
    pub(super) fn interface(&mut self, index: u32) -> Result<Interface, Errno> {
        let mut header = [0; 16];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut request = Request::new(GET_LINK, &header);
        request.push(IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes());
        let body = self.ask(request)?;
        let [_, _, k0, k1, _, _, _, _, f0, f1, f2, f3, ..] = *body else {
            return Err(Errno::PROTO);
        };
        let kind = u16::from_ne_bytes([k0, k1]);
        let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
        let attributes = Attributes::after(body, header.len());
        let mac = attributes.find(IFLA_ADDRESS).and_then(|mac| Mac::try_from(mac).ok());
        let mtu = attributes.find(IFLA_MTU).and_then(number).ok_or(Errno::PROTO)?;
        Ok(Interface {
            index,
            mac: mac.unwrap_or_default(),
            mtu: usize::try_from(mtu).map_err(|_| Errno::PROTO)?,
            ethernet: kind == ETHER,
            loopback: kind == LOOPBACK,
            arp: flags & libc::IFF_NOARP as u32 == 0,
        })
    }

    /// Sends a request and returns the body of its answer.
    fn ask(&mut self, mut request: Request) -> Result<&[u8], Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        rustix::net::send(&self.socket, bytes, SendFlags::empty())?;
        for _ in 0..MAX_SKIPPED {
            let (len, _) =
                rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT)?;
            match answer(&self.buffer[..len], self.sequence) {
                Some(Ok(range)) => return Ok(&self.buffer[range]),
                Some(Err(errno)) => return Err(errno),
                None => {}
            }
        }
        Err(Errno::PROTO)
    }
}

fn family(ip: IpAddr) -> u8 {
    (if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
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
        let nobody = IpAddr::from([127, 0, 0, 77]);
        assert_eq!(netlink.neighbour(LO, nobody), Ok(NeighbourAnswer::Unknown));
        assert!(netlink.route("203.0.113.1".parse().expect("src"), nobody, None).is_err());
        assert!(netlink.interface(LO).is_ok());
    }
}
