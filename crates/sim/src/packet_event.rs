//! What an observer of a simulation sees.

use uroce_wire::Flow;

/// Where a packet is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It leaves a node.
    Sent {
        /// The node.
        from: usize,
    },
    /// It arrives at a node, as faults have left it.
    Arrived {
        /// The node.
        to: usize,
    },
}

/// A packet at one end of the network.
#[derive(Debug, Clone, Copy)]
pub struct PacketEvent<'a> {
    /// The time, in nanoseconds of the simulation's clock.
    pub at_ns: u64,
    /// Where.
    pub passage: Passage,
    /// Its addresses and UDP ports.
    pub flow: Flow,
    /// Its IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
    /// BTH to ICRC.
    pub bytes: &'a [u8],
}
