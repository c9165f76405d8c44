//! The link layer of datapaths that write whole frames themselves: AF_PACKET and AF_XDP.
//!
//! - [`Router`]: from a [`Route`] to the headers of its packets, one lookup for each GSO batch. It keeps
//!   a [`HeaderTemplate`] for each route and asks [`Neighbours`] for the hardware address.
//! - [`Neighbours`]: next hop and hardware address, from the kernel's own tables.
//! - [`FrameReader`]: from a received frame to an [`RxPacket`](uroce_datapath::RxPacket).
//! - [`Segments`]: the packets of a frame that holds several.
//! - [`PortSocket`]: the UDP socket that holds our port.
//! - [`LinkChanges`]: to hear of it when an interface or an address changes.
//! - [`LinkFacts`], [`Offloads`], [`XdpSupport`]: what an interface is and can do.
//! - [`interfaces`]: all interfaces with their addresses.
//!
//! Nothing here waits or, after set-up, allocates. Frames bypass the host's firewall both ways.
#![forbid(unsafe_code)]

mod facts;
mod frame;
mod groups;
mod neighbour;
mod netlink;
mod port_socket;
mod router;
mod segments;
mod solicitor;
mod template;

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use uroce_datapath::Route;
use uroce_host::interface::Link;

pub use self::facts::{Attached, LinkFacts, Offloads, XdpSupport, bits_per_second};
pub use self::frame::{FrameReader, Refused};
pub use self::groups::Groups;
pub use self::neighbour::{Neighbours, NextHop, Resolution, Unreachable};
pub use self::netlink::{Interface, LinkChanges, ListedInterface, interfaces};
pub use self::port_socket::{PortSocket, PortSocketError, StackTraffic};
pub use self::router::{Outbound, Router, Way};
pub use self::segments::Segments;
pub use self::template::{Ethernet, HeaderTemplate, MAX_HEADERS};

/// The interface that has the address `local`: its index, hardware address and MTU.
///
/// # Errors
///
/// EADDRNOTAVAIL when no interface has it; else netlink is not to be had.
pub fn interface_of(local: IpAddr) -> io::Result<Interface> {
    let probe = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    let index = Link::of(local, &probe).index;
    if index == 0 {
        return Err(Errno::ADDRNOTAVAIL.into());
    }
    interface(index)
}

/// The interface with that index.
///
/// # Errors
///
/// ENODEV when there is none; else netlink is not to be had.
pub fn interface(index: u32) -> io::Result<Interface> {
    Ok(netlink::Netlink::open()?.interface(index)?)
}

/// Whether both ends of `route` are of the same IP version.
fn is_consistent(route: &Route) -> bool {
    route.src.is_ipv4() == route.dst.is_ipv4()
}
