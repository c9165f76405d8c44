//! From received frames to packets.

use std::net::SocketAddr;

use uroce_datapath::ethernet::FrameReader;
use uroce_datapath::{DatapathStats, PACKET_ROOM, Route, RxPacket};
use uroce_wire::FlowIcrc;

use crate::kept::{Kept, as_received};
use crate::train::{MAX_PACKETS, Train};

/// Packets to ourselves that are kept until the next call.
const ECHO: usize = 256;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) reader: FrameReader,
    kept: Kept,
    /// Frames may be several packets.
    joined: bool,
    /// For the look whether one is.
    icrc: FlowIcrc,
}

impl Inbox {
    /// An inbox for packets to `local`; `joined`: a frame may be several packets.
    pub(crate) fn new(local: SocketAddr, joined: bool) -> Self {
        let kept = Kept::new(ECHO + MAX_PACKETS, (ECHO + MAX_PACKETS) * PACKET_ROOM);
        Self { reader: FrameReader::new(local), kept, joined, icrc: FlowIcrc::default() }
    }

    /// Keeps a copy of a packet to ourselves; false when there is no room.
    pub(crate) fn echo(&mut self, route: &Route, payload: &[u8]) -> bool {
        self.kept.len() < ECHO && self.kept.put(&as_received(route, payload))
    }

    /// Whether packets are there without a look at the interface.
    #[inline]
    pub(crate) fn has_packet(&self) -> bool {
        self.kept.len() > 0
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
