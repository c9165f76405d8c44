//! From received frames to packets.

use std::net::SocketAddr;

use uroce_datapath::{DatapathStats, IpId, PACKET_ROOM, PacketQueue, Route, RxPacket};
use uroce_link::FrameReader;
use uroce_wire::FlowIcrc;

use crate::gro_frame::{GroFrame, MAX_PACKETS};

/// Most packets to ourselves that are queued until the next call.
const ECHO: usize = 256;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct RxQueue {
    pub(crate) reader: FrameReader,
    /// Packets to ourselves, which no interface would bring back, and the rest of a joined frame
    /// that was longer than the caller wanted.
    queued: PacketQueue,
    /// Frames may be several packets.
    gro: bool,
    /// For the look whether one is.
    icrc: FlowIcrc,
}

impl RxQueue {
    /// An inbox for what `reader` reads; `joined`: a frame may be several packets.
    pub(crate) fn new(reader: FrameReader, gro: bool) -> Self {
        let queued = PacketQueue::new(ECHO + MAX_PACKETS, (ECHO + MAX_PACKETS) * PACKET_ROOM);
        Self { reader, queued, gro, icrc: FlowIcrc::default() }
    }

    /// Keeps a copy of a packet to ourselves; false when there is no room.
    pub(crate) fn echo(&mut self, route: &Route, payload: &[u8]) -> bool {
        self.queued.len() < ECHO && self.queued.put(&as_received(route, payload))
    }

    /// Whether packets are there without a look at the interface.
    #[inline]
    pub(crate) fn has_packet(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Begins to hand up to `limit` packets to `sink`: first those that were kept.
    pub(crate) fn hand_over<'a, 's>(
        &'a mut self,
        limit: usize,
        stats: &'a mut DatapathStats,
        sink: &'a mut (dyn FnMut(RxPacket<'_>) + 's),
    ) -> HandOver<'a, 's> {
        let mut call = HandOver { rx_queue: self, stats, sink, left: limit, count: 0 };
        call.take_queued();
        call
    }
}

/// One call to receive.
pub(crate) struct HandOver<'a, 's> {
    rx_queue: &'a mut RxQueue,
    stats: &'a mut DatapathStats,
    sink: &'a mut (dyn FnMut(RxPacket<'_>) + 's),
    /// Number of packets that may still be delivered; refused ones count too, so that a flood of
    /// them does not keep the caller here.
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

    fn take_queued(&mut self) {
        let Self { rx_queue, stats, sink, .. } = self;
        let count = rx_queue.queued.take(self.left, &mut |packet| {
            stats.count_received(packet.payload.len());
            sink(packet);
        });
        self.left -= count;
        self.count += count;
    }

    /// Hands the packets of a frame over; what is too many is kept. Returns whether another frame is
    /// wanted.
    #[inline]
    pub(crate) fn unload(&mut self, frame: &[u8]) -> bool {
        match self.rx_queue.reader.read(frame) {
            Ok(packet) if self.rx_queue.gro => {
                let frame = GroFrame::of(packet, &mut self.rx_queue.icrc);
                self.unload_gro_frame(&frame);
            }
            Ok(packet) => self.give(packet),
            Err(refused) => {
                self.left = self.left.saturating_sub(1);
                refused.count(self.stats);
            }
        }
        self.wants_more()
    }

    fn unload_gro_frame(&mut self, frame: &GroFrame<'_>) {
        for packet in (0..).map_while(|index| frame.get(index)) {
            if self.left > 0 {
                self.give(packet);
            } else if !self.rx_queue.queued.put(&packet) {
                self.stats.rx_dropped += 1;
            }
        }
    }

    #[inline]
    fn give(&mut self, packet: RxPacket<'_>) {
        self.left = self.left.saturating_sub(1);
        self.count += 1;
        self.stats.count_received(packet.payload.len());
        (self.sink)(packet);
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
        following: None,
        fate: None,
        payload,
    }
}

#[cfg(test)]
mod limits;
#[cfg(test)]
mod tests {
    use uroce_wire::{Ipv4, UdpPorts, write_ethernet, write_ipv4_udp};

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

    /// A frame to 10.0.0.1 with 8 bytes behind UDP.
    fn frame() -> Vec<u8> {
        let mut bytes = vec![0; 50];
        let (src, dst) = ([10, 0, 0, 9].into(), [10, 0, 0, 1].into());
        let ip = Ipv4 { src, dst, id: 1, ttl: 64, tos: 0, df: true };
        write_ethernet(&mut bytes, [2; 6], [4; 6], None, 0x0800).expect("room");
        let ports = UdpPorts { src: 50_000, dst: 4791 };
        write_ipv4_udp(&mut bytes[14..], &ip, ports, 8).expect("room");
        bytes
    }

    #[test]
    fn e41_each_malformed_frame_is_counted_under_its_reason() {
        let reader = FrameReader::new("10.0.0.1:4791".parse().expect("address"));
        let mut rx_queue = RxQueue::new(reader, false);
        let mut stats = DatapathStats::default();
        let mut drop = |change: fn(&mut Vec<u8>)| {
            let mut frame = frame();
            change(&mut frame);
            rx_queue.hand_over(8, &mut stats, &mut |_| {}).unload(&frame);
            stats
        };
        assert_eq!((drop(|_| {}).rx_packets, drop(|_| {}).rx_dropped), (1, 0));
        assert_eq!(drop(|f| f[20] |= 0x20).rx_refused.fragment, 1);
        assert_eq!(drop(|f| f[14] = 0x46).rx_refused.ip_options, 1);
        assert_eq!(drop(|f| f[39] += 1).rx_refused.bad_length, 1);
        assert_eq!(drop(|f| f.truncate(20)).rx_refused.too_short, 1);
        assert_eq!(drop(|f| f[23] = 6).rx_refused.not_roce, 1);
        let all = drop(|f| f[33] = 2);
        assert_eq!((all.rx_dropped, all.refused().iter().map(|(_, n)| n).sum()), (6, 5u64));
    }
}
