//! Received packets that are kept for the next call.
//!
//! Packets to ourselves, which no interface would bring back; and the rest of a train that was longer
//! than the caller wanted.

use std::collections::VecDeque;
use std::net::SocketAddr;

use uroce_datapath::{IpId, Route, RxPacket};

/// A kept packet: where its payload lies, and its header fields.
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

/// A queue of packets with their bytes; all memory is allocated by [`Kept::new`].
#[derive(Debug)]
pub(crate) struct Kept {
    bytes: Box<[u8]>,
    /// Where the next payload goes; the room is used again once the queue is empty.
    end: usize,
    entries: VecDeque<Entry>,
    most: usize,
}

impl Kept {
    /// Room for so many packets, and for so many bytes of payload between two times that it is empty.
    pub(crate) fn new(packets: usize, bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes].into_boxed_slice(),
            end: 0,
            entries: VecDeque::with_capacity(packets),
            most: packets,
        }
    }

    /// Packets that [`take`](Self::take) has.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Keeps a copy of the packet; false when there is no room.
    pub(crate) fn put(&mut self, packet: &RxPacket<'_>) -> bool {
        let (start, len) = (self.end, packet.payload.len());
        let Some(room) = self.bytes.get_mut(start..start + len) else {
            return false;
        };
        if self.entries.len() == self.most {
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

    /// Hands up to `limit` packets to `sink`, oldest first; returns how many.
    pub(crate) fn take(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        while count < limit
            && let Some(entry) = self.entries.pop_front()
        {
            let Entry { src, dst, traffic_class, hop_limit, ip_id, icrc_checked, start, len } =
                entry;
            let payload = &self.bytes[start..start + len];
            sink(RxPacket { src, dst, traffic_class, hop_limit, ip_id, icrc_checked, payload });
            count += 1;
        }
        if self.entries.is_empty() {
            self.end = 0;
        }
        count
    }
}

/// What the receiver of a packet that we send would see.
pub(crate) fn as_received<'a>(route: &Route, payload: &'a [u8]) -> RxPacket<'a> {
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
    fn packets_come_back_in_order_and_make_room() {
        let addr: SocketAddr = "10.0.0.1:4791".parse().expect("address");
        let route = Route { src: addr, dst: addr, hop_limit: 0, traffic_class: 3 };
        let mut kept = Kept::new(4, 100);
        for round in 0..3u8 {
            assert!((0..4).all(|n| kept.put(&as_received(&route, &[round, n]))));
            assert!(!kept.put(&as_received(&route, b"one too many")));
            let mut got = Vec::new();
            while kept.len() > 0 {
                kept.take(3, &mut |packet| {
                    assert_eq!((packet.dst, packet.traffic_class), (addr, 3));
                    assert_eq!((packet.hop_limit, packet.ip_id), (1, IpId::Known(0)));
                    got.push(packet.payload.to_vec());
                });
            }
            assert_eq!(got, [[round, 0], [round, 1], [round, 2], [round, 3]]);
        }
        assert!(!kept.put(&as_received(&route, &[0; 101])));
        assert_eq!(kept.take(3, &mut |_| ()), 0);
    }
}
