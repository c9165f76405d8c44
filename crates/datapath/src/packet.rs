//! A received packet as the datapath hands it over.

use std::cell::{Cell, RefCell};
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

    /// That of the packet which stands so many places behind in the same buffer.
    #[inline]
    fn behind(self, places: u16, step: u16) -> IpId {
        match self {
            IpId::Known(id) => IpId::Known(id.wrapping_add(places.wrapping_mul(step))),
            IpId::Hidden(place) => IpId::Hidden(place.wrapping_add(places)),
            IpId::NotPresent => IpId::NotPresent,
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
    /// The packets behind it in the buffer that it arrived in, if the receiver may take them together with it.
    pub following: Option<&'a FollowingSegments<'a>>,
}

/// The packets that follow another one in the buffer in which all of them arrived: what the kernel has joined (GRO), or what their
/// sender sent as one (GSO). Each has the addresses and the length of that packet.
///
/// A receiver takes as many as it likes, the first ones first ([`RxPacket::take_following`]). The others are handed over one by one.
#[derive(Debug)]
pub struct FollowingSegments<'a> {
    /// Whole packets, `count` of them.
    bytes: &'a [u8],
    size: usize,
    count: usize,
    /// By how much the IPv4 identification grows from packet to packet, where it is known.
    id_step: u16,
    taken: Cell<usize>,
}

impl<'a> FollowingSegments<'a> {
    /// The first `most` whole packets of `size` bytes in `bytes`; `None` if there is none.
    #[inline]
    pub fn new(bytes: &'a [u8], size: usize, most: usize, id_step: u16) -> Option<Self> {
        let count = bytes.len().checked_div(size)?.min(most);
        let bytes = bytes.get(..count * size).filter(|whole| !whole.is_empty())?;
        Some(FollowingSegments { bytes, size, count, id_step, taken: Cell::new(0) })
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them the receiver has taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.taken.get()
    }
}

impl<'a> RxPacket<'a> {
    /// The packets behind it that may be taken together with it, in their order.
    #[inline]
    pub fn following_packets(&self) -> impl Iterator<Item = RxPacket<'a>> + use<'a> {
        let first = RxPacket { following: None, ..*self };
        let (bytes, size, step) = match self.following {
            Some(following) => (following.bytes, following.size, following.id_step),
            None => (&[][..], 1, 0),
        };
        bytes.chunks_exact(size).zip(1u16..).map(move |(payload, behind)| {
            let ip_id = first.ip_id.behind(behind, step);
            RxPacket { ip_id, payload, ..first }
        })
    }

    /// The receiver has taken the first `count` of [`following_packets`](Self::following_packets): they are not handed over again.
    #[inline]
    pub fn take_following(&self, count: usize) {
        if let Some(following) = self.following {
            debug_assert!(count <= following.count, "more than there are");
            following.taken.set(count);
        }
    }

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
        let size = size.max(1);
        let mut count = 0;
        while count < limit {
            let rest = self.payload.get(*offset..).unwrap_or_default();
            let Some((payload, behind)) = rest.split_at_checked(size.min(rest.len())) else {
                break;
            };
            if payload.is_empty() {
                break;
            }
            // One packet is read by many, and a division takes longer than all else here.
            let more = behind.len() >= size && count + 1 < limit;
            let following = match more {
                true => FollowingSegments::new(behind, size, limit - count - 1, 0),
                false => None,
            };
            let ip_id = self.ip_id.behind((*offset / size) as u16, 0);
            sink(RxPacket { ip_id, payload, following: following.as_ref(), ..*self });
            let taken = following.map_or(0, |following| following.taken());
            let bytes = payload.len() + taken * size;
            stats.count_received_packets(1 + taken, bytes);
            *offset += bytes;
            count += 1 + taken;
        }
        count
    }
}
