//! What is known about a packet besides its bytes.

use uroce_wire::Flow;

use crate::Direction;

/// Time since the start of the run.
pub type Time = std::time::Duration;

/// What is known about a packet besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketMeta {
    /// Which way it goes.
    pub direction: Direction,
    /// IP addresses and UDP ports.
    pub flow: Flow,
    /// IPv4 identification, which the ICRC covers; ignored for IPv6.
    pub ip_id: u16,
    /// IPv4 TOS or IPv6 traffic class; the lower two bits are the ECN field.
    pub traffic_class: u8,
    /// Any number of the caller's. It comes back with the packet, with its copies and with answers
    /// to it.
    pub tag: u32,
}

impl PacketMeta {
    /// Meta data of an answer to this packet: the other direction, addresses and ports swapped.
    pub(crate) fn answer(&self) -> Self {
        let Flow { src, dst, src_port, dst_port } = self.flow;
        // The destination port of an answer is the RoCE port; a source port is any number.
        let flow = Flow { src: dst, dst: src, src_port, dst_port };
        Self {
            direction: self.direction.opposite(),
            flow,
            ip_id: 0,
            traffic_class: 0,
            tag: self.tag,
        }
    }
}
