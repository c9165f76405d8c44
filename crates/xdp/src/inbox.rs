//! From received frames to packets.

use std::net::SocketAddr;

use uroce_datapath::ethernet::FrameReader;
use uroce_datapath::{DatapathStats, IpId, Kept, PACKET_ROOM, Route, RxPacket};
use uroce_wire::FlowIcrc;

use crate::train::{MAX_PACKETS, Train};

/// Packets to ourselves that are kept until the next call.
const ECHO: usize = 256;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) reader: FrameReader,
    /// Packets to ourselves, which no interface would bring back; and the rest of a train that was longer
    /// than the caller wanted.
    kept: Kept,
    /// Frames may be several packets.
    joined: bool,
    /// For the look whether one is.
    icrc: FlowIcrc,
}

impl Inbox {
    /// An inbox for what `reader` reads; `joined`: a frame may be several packets.
    pub(crate) fn new(reader: FrameReader, joined: bool) -> Self {
        let kept = Kept::new(ECHO + MAX_PACKETS, (ECHO + MAX_PACKETS) * PACKET_ROOM);
        Self { reader, kept, joined, icrc: FlowIcrc::default() }
    }

    /// Keeps a copy of a packet to ourselves; false when there is no room.
    pub(crate) fn echo(&mut self, route: &Route, payload: &[u8]) -> bool {
        self.kept.len() < ECHO && self.kept.put(&as_received(route, payload))
    }

    /// Whether packets are there without a look at the interface.
    #[inline]
    pub(crate) fn has_packet(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Begins to hand up to `limit` packets to `sink`: first those that were kept.
    pub(crate) fn hand_over<'a, 's>(
        &'a mut self,
        limit: usize,
        stats: &'a mut DatapathStats,
        sink: &'a mut (dyn FnMut(RxPacket<'_>) + 's),
    ) -> HandOver<'a, 's> {
        let mut call = HandOver { inbox: self, stats, sink, left: limit, count: 0 };
        call.take_kept();
        call
    }
}

/// One call to receive.
pub(crate) struct HandOver<'a, 's> {
    inbox: &'a mut Inbox,
    stats: &'a mut DatapathStats,
    sink: &'a mut (dyn FnMut(RxPacket<'_>) + 's),
    /// How many more packets may be handed over; what is refused counts too, so that a flood of it
    /// does not keep the caller here.
    left: usize,
    count: usize,
}

impl HandOver<'_, '_> {
    /// Whether another frame is wanted.
    #[inline]
    pub(crate) fn wants_more(&self) -> bool {
        self.left > 0
    }

    /// Packets handed over.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn take_kept(&mut self) {
        let Self { inbox, stats, sink, .. } = self;
        let count = inbox.kept.take(self.left, &mut |packet| {
            stats.rx_packets += 1;
            stats.rx_bytes += packet.payload.len() as u64;
            sink(packet);
        });
        self.left -= count;
        self.count += count;
    }

    /// Hands the packets of a frame over; what is too many is kept. Returns whether another frame is
    /// wanted.
    #[inline]
    pub(crate) fn unload(&mut self, frame: &[u8]) -> bool {
        match self.inbox.reader.read(frame) {
            Ok(packet) if self.inbox.joined => {
                let train = Train::of(packet, &mut self.inbox.icrc);
                self.unload_train(&train);
            }
            Ok(packet) => self.give(packet),
            Err(_) => self.drop_one(),
        }
        self.wants_more()
    }

    fn unload_train(&mut self, train: &Train<'_>) {
        for packet in (0..).map_while(|index| train.get(index)) {
            if self.left > 0 {
                self.give(packet);
            } else if !self.inbox.kept.put(&packet) {
                self.stats.rx_dropped += 1;
            }
        }
    }

    #[inline]
    fn give(&mut self, packet: RxPacket<'_>) {
        self.left = self.left.saturating_sub(1);
        self.count += 1;
        self.stats.rx_packets += 1;
        self.stats.rx_bytes += packet.payload.len() as u64;
        (self.sink)(packet);
    }

    fn drop_one(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.stats.rx_dropped += 1;
    }
}

/// What the receiver of a packet that we send would see.
fn as_received<'a>(route: &Route, payload: &'a [u8]) -> RxPacket<'a> {
    // Without the scope of a link-local address, as packets from others are.
    let plain = |addr: SocketAddr| SocketAddr::new(addr.ip(), addr.port());
    RxPacket {
        src: plain(route.src),
        dst: plain(route.dst),
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit.max(1),
        ip_id: if route.dst.is_ipv4() { IpId::Known(0) } else { IpId::NotPresent },
        icrc_checked: false,
        payload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_to_ourselves_looks_like_one_that_came_from_outside() {
        let addr = "[fe80::1%3]:4791".parse().expect("address");
        let route = Route { src: addr, dst: addr, hop_limit: 0, traffic_class: 3 };
        let seen = as_received(&route, b"bytes");
        let plain: SocketAddr = "[fe80::1]:4791".parse().expect("address");
        assert_eq!((seen.src, seen.dst, seen.payload), (plain, plain, &b"bytes"[..]));
        assert_eq!((seen.hop_limit, seen.traffic_class, seen.ip_id), (1, 3, IpId::NotPresent));
    }
}
