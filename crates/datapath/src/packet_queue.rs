//! A queue of received packets.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::packet::{IpId, RxPacket};

/// A queued packet: the position of its payload, and its header fields.
#[derive(Debug, Clone, Copy)]
struct Entry {
    src: SocketAddr,
    dst: SocketAddr,
    traffic_class: u8,
    hop_limit: u8,
    ip_id: IpId,
    icrc_checked: bool,
    start: usize,
    len: usize,
}

/// A queue of packets with their bytes; all memory is allocated by [`PacketQueue::new`].
#[derive(Debug)]
pub struct PacketQueue {
    bytes: Box<[u8]>,
    /// Position of the next payload; starts again at 0 once the queue is empty.
    end: usize,
    entries: VecDeque<Entry>,
    capacity: usize,
}

impl PacketQueue {
    /// A queue for `packets` packets, and for `bytes` bytes of payload between two times at which
    /// it is empty.
    #[must_use]
    pub fn new(packets: usize, bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes].into_boxed_slice(),
            end: 0,
            entries: VecDeque::with_capacity(packets),
            capacity: packets,
        }
    }

    /// Number of queued packets.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no packet is queued.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Queues a copy of the packet; false when there is no room.
    pub fn put(&mut self, packet: &RxPacket<'_>) -> bool {
        let (start, len) = (self.end, packet.payload.len());
        let Some(room) = self.bytes.get_mut(start..start + len) else {
            return false;
        };
        if self.entries.len() == self.capacity {
            return false;
        }
        room.copy_from_slice(packet.payload);
        self.end += len;
        let &RxPacket { src, dst, traffic_class, hop_limit, ip_id, icrc_checked, .. } = packet;
        self.entries.push_back(Entry {
            src,
            dst,
            traffic_class,
            hop_limit,
            ip_id,
            icrc_checked,
            start,
            len,
        });
        true
    }

    /// Delivers up to `limit` packets to `sink`, oldest first; returns their number.
    pub fn take(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        while count < limit
            && let Some(entry) = self.entries.pop_front()
        {
            let Entry { src, dst, traffic_class, hop_limit, ip_id, icrc_checked, start, len } =
                entry;
            let payload = &self.bytes[start..start + len];
            sink(RxPacket {
                src,
                dst,
                traffic_class,
                hop_limit,
                ip_id,
                icrc_checked,
                following: None,
                fate: None,
                payload,
            });
            count += 1;
        }
        if self.entries.is_empty() {
            self.end = 0;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8]) -> RxPacket<'_> {
        let addr = "10.0.0.1:4791".parse().expect("address");
        let (traffic_class, hop_limit, ip_id) = (3, 1, IpId::Known(7));
        RxPacket {
            src: addr,
            dst: addr,
            traffic_class,
            hop_limit,
            ip_id,
            icrc_checked: false,
            following: None,
            fate: None,
            payload,
        }
    }

    #[test]
    fn packets_come_back_in_order_and_make_room() {
        let mut queue = PacketQueue::new(4, 100);
        for round in 0..3u8 {
            assert!((0..4).all(|n| queue.put(&packet(&[round, n]))));
            assert!(!queue.put(&packet(b"one too many")));
            let mut got = Vec::new();
            while !queue.is_empty() {
                queue.take(3, &mut |rx| {
                    let sent = packet(b"");
                    assert_eq!((rx.src, rx.dst, rx.ip_id), (sent.src, sent.dst, sent.ip_id));
                    assert_eq!((rx.traffic_class, rx.hop_limit), (3, 1));
                    got.push(rx.payload.to_vec());
                });
            }
            assert_eq!(got, [[round, 0], [round, 1], [round, 2], [round, 3]]);
        }
        assert!(!queue.put(&packet(&[0; 101])));
        assert_eq!(queue.take(3, &mut |_| ()), 0);
    }
}
