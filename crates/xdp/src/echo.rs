//! Packets to ourselves, which no interface would bring back.

use std::net::SocketAddr;

use uroce_datapath::{Burst, Cursor, IpId, Route, RxPacket, TrainLimit};

/// Packets that this datapath sends to its own address or to a group it has joined.
#[derive(Debug)]
pub(crate) struct Echo {
    burst: Burst,
    next: Cursor,
    /// Packets that are not yet handed over.
    waiting: usize,
}

impl Echo {
    /// Room for so many packets.
    pub(crate) fn new(packets: usize) -> Self {
        let burst = Burst::new(packets, TrainLimit::NONE);
        Self { burst, next: Cursor::default(), waiting: 0 }
    }

    /// Whether [`take`](Self::take) has something.
    #[inline]
    pub(crate) fn has_packet(&self) -> bool {
        self.waiting > 0
    }

    /// Keeps a copy of the packet; false when there is no room.
    pub(crate) fn put(&mut self, route: &Route, payload: &[u8]) -> bool {
        let Some(space) = self.burst.space() else {
            return false;
        };
        space[..payload.len()].copy_from_slice(payload);
        self.burst.commit(route, payload.len());
        self.waiting += 1;
        true
    }

    /// Hands up to `limit` packets to `sink` as if `local` had received them; returns how many.
    pub(crate) fn take(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        while count < limit
            && let Some((route, payload)) = self.burst.next(&mut self.next)
        {
            count += 1;
            sink(received(route, payload));
        }
        self.waiting -= count;
        if self.waiting == 0 && !self.burst.is_empty() {
            self.burst.clear();
            self.next = Cursor::default();
        }
        count
    }
}

fn received<'a>(route: &Route, payload: &'a [u8]) -> RxPacket<'a> {
    let plain = |addr: SocketAddr| SocketAddr::new(addr.ip(), addr.port());
    RxPacket {
        src: plain(route.src),
        dst: plain(route.dst),
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit.max(1),
        ip_id: if route.dst.is_ipv4() { IpId::Known(0) } else { IpId::NotPresent },
        payload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_back_in_order_and_make_room() {
        let addr: SocketAddr = "10.0.0.1:4791".parse().expect("address");
        let route = Route { src: addr, dst: addr, hop_limit: 64, traffic_class: 3 };
        let mut echo = Echo::new(4);
        for round in 0..3u8 {
            assert!((0..4).all(|n| echo.put(&route, &[round, n])));
            assert!(!echo.put(&route, b"full"));
            let mut got = Vec::new();
            while echo.has_packet() {
                echo.take(3, &mut |packet| {
                    assert_eq!((packet.dst, packet.traffic_class), (addr, 3));
                    got.push(packet.payload.to_vec());
                });
            }
            assert_eq!(got, [[round, 0], [round, 1], [round, 2], [round, 3]]);
        }
        assert_eq!(echo.take(3, &mut |_| ()), 0);
    }
}
