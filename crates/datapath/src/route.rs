//! Where a packet goes.

use std::net::SocketAddr;

/// The addressing of an outgoing packet: everything in its IP and UDP header that the sender chooses.
///
/// Packets of one QP share one route, so a burst compares routes to form GSO batches (see
/// [`Burst`](crate::Burst)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// Our address; the port is the UDP source port, as [`Datapath::source_port`] returned it.
    ///
    /// [`Datapath::source_port`]: crate::Datapath::source_port
    pub src: SocketAddr,
    /// The peer's address and RoCE port, or a multicast group.
    pub dst: SocketAddr,
    /// IPv4 time to live or IPv6 hop limit; 0 is sent as 1.
    pub hop_limit: u8,
    /// IPv4 type of service or IPv6 traffic class, ECN bits included.
    pub traffic_class: u8,
}

impl Route {
    /// Bytes that stand before the UDP payload in the IP packet: 28 with IPv4, 48 with IPv6.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        if self.dst.is_ipv4() { 20 + 8 } else { 40 + 8 }
    }
}
