//! A received packet as the datapath hands it over.

use std::cell::RefCell;
use std::net::SocketAddr;

use uroce_wire::DropReason;

use crate::caps::DatapathStats;

/// The IPv4 identification field of a received packet, which the ICRC covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpId {
    /// The datapath saw the field.
    Known(u16),
    /// IPv4, but the datapath cannot see the field (a UDP socket). The index of the packet among
    /// those that arrived as one: they mostly are numbered one after the other.
    Hidden(u16),
    /// IPv6 has no such field.
    NotPresent,
}

impl IpId {
    /// The field as the ICRC covers it; 0 where it is hidden, or there is none (IPv6).
    pub fn known_or_zero(self) -> u16 {
        match self {
            IpId::Known(id) => id,
            IpId::Hidden(_) | IpId::NotPresent => 0,
        }
    }
}

/// Outcome of a received packet, for a capture.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Fate {
    /// The packet was accepted, as far as is known.
    #[default]
    Taken,
    /// The packet was dropped, perhaps with an answer.
    Dropped(DropReason),
    /// A fault that was asked for kept it from the device, or let it go on later, altered or more than once.
    Faulted {
        /// What was done to it, and by which rule.
        what: Box<str>,
        /// Why what reached the device in its place at once had no effect, if it had none.
        drop: Option<DropReason>,
    },
}

/// One received UDP datagram with the header fields that RoCEv2 needs.
#[derive(Debug, Clone, Copy)]
pub struct RxPacket<'a> {
    /// The sender's address and UDP source port.
    pub src: SocketAddr,
    /// The address the packet was sent to (ours, or a multicast group) and the RoCE port.
    pub dst: SocketAddr,
    /// IPv4 type of service or IPv6 traffic class, ECN bits included.
    pub traffic_class: u8,
    /// IPv4 time to live or IPv6 hop limit on arrival.
    pub hop_limit: u8,
    /// The IPv4 identification, as far as it is known.
    pub ip_id: IpId,
    /// The datapath has verified all 32 bits of the ICRC itself: no further check is needed. A
    /// [`Middleware`](crate::Middleware) that changes the payload clears this.
    pub icrc_checked: bool,
    /// Where the outcome is to be stored if the packet is being captured.
    pub fate: Option<&'a RefCell<Fate>>,
    /// The UDP payload: BTH to ICRC.
    pub payload: &'a [u8],
}

impl RxPacket<'_> {
    /// Hands over the packets that arrived as this one, of `size` bytes each but the last, which may be
    /// shorter: up to `limit` of them from byte `offset` on, which moves behind them. Returns how many.
    #[inline]
    pub fn hand_over(
        &self,
        size: usize,
        offset: &mut usize,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> usize {
        let rest = self.payload.get(*offset..).unwrap_or_default();
        let first = *offset / size.max(1);
        let mut count = 0;
        for payload in rest.chunks(size).take(limit) {
            let ip_id = match self.ip_id {
                IpId::Hidden(_) => IpId::Hidden((first + count) as u16),
                other => other,
            };
            count += 1;
            *offset += payload.len();
            stats.count_received(payload.len());
            sink(RxPacket { ip_id, payload, ..*self });
        }
        count
    }
}
