//! Packets that wait for the hardware address of their next hop (as in the arp_queue of a neighbour
//! in the kernel).

use std::time::{Duration, Instant};

use uroce_datapath::{Burst, Cursor, GsoBatch, GsoLimit, Route};

/// Most packets that wait; it is only about the first few to a new peer.
const CAPACITY: usize = 64;

/// A neighbour on the same link answers within a millisecond; after this time the transport's own
/// retransmission is better.
const RESOLUTION_TIMEOUT: Duration = Duration::from_millis(100);

/// Interval at which the kernel is asked again for the hardware address.
const RECHECK_INTERVAL: Duration = Duration::from_micros(200);

/// Decision about a packet that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The packet goes on waiting.
    Wait,
    /// The packet was sent or dropped.
    Gone,
}

/// A bounded queue of packets with the IPv4 identifications they were sealed with.
#[derive(Debug)]
pub(super) struct ArpQueue {
    waiting: Waiting,
    /// Second queue, to which packets that go on waiting are moved.
    spare: Waiting,
    /// Arrival of the oldest packet.
    since: Option<Instant>,
    looked_at: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    burst: Burst,
    ids: Vec<u16>,
}

impl Waiting {
    fn new() -> Self {
        let limit = GsoLimit { packets: 1, ..GsoLimit::NONE };
        Self { burst: Burst::new(CAPACITY, limit), ids: Vec::with_capacity(CAPACITY) }
    }

    fn clear(&mut self) {
        self.burst.clear();
        self.ids.clear();
    }
}

impl ArpQueue {
    pub(super) fn new() -> Self {
        Self { waiting: Waiting::new(), spare: Waiting::new(), since: None, looked_at: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.burst.is_empty()
    }

    /// Whether the packets have waited long enough.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= RESOLUTION_TIMEOUT)
    }

    /// Whether it is time to look whether packets can go; not again for a little while.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let recent = |at| now.saturating_duration_since(at) < RECHECK_INTERVAL;
        if self.is_empty() || self.looked_at.is_some_and(recent) {
            return false;
        }
        self.looked_at = Some(now);
        true
    }

    /// Queues a copy of the packets of `batch`, the first of which has identification `id`; returns
    /// the number of packets that fitted.
    pub(super) fn put(&mut self, burst: &Burst, batch: &GsoBatch, id: u16, now: Instant) -> usize {
        let taken = self.waiting.burst.append(burst, batch);
        self.waiting.ids.extend((0..taken).map(|n| id.wrapping_add(n as u16)));
        self.since.get_or_insert(now);
        taken
    }

    /// Offers every packet in order to `decide`, and keeps those that go on waiting.
    pub(super) fn drain(&mut self, mut decide: impl FnMut(&Route, u16, &[u8]) -> Decision) {
        let mut at = Cursor::default();
        let ids = self.waiting.ids.iter();
        for &id in ids {
            let batch = at.batch;
            let Some((route, packet)) = self.waiting.burst.next(&mut at) else {
                break;
            };
            if decide(route, id, packet) == Decision::Wait {
                self.spare.burst.append(&self.waiting.burst, &self.waiting.burst.batches()[batch]);
                self.spare.ids.push(id);
            }
        }
        self.waiting.clear();
        std::mem::swap(&mut self.waiting, &mut self.spare);
        if self.is_empty() {
            self.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: u8) -> Route {
        let (src, dst) = (([10, 0, 0, 1], 1).into(), ([10, 0, 0, host], 4791).into());
        Route { src, dst, hop_limit: 64, traffic_class: 0 }
    }

    fn burst(packets: usize) -> Burst {
        let mut burst = Burst::new(packets, GsoLimit::NONE);
        for n in 0..packets {
            burst.space().expect("room")[0] = n as u8;
            burst.commit(&route(2 + (n % 2) as u8), 10);
        }
        burst
    }

    fn put_all(arp_queue: &mut ArpQueue, burst: &Burst, now: Instant) -> usize {
        let batches = burst.batches().iter().enumerate();
        batches.map(|(n, batch)| arp_queue.put(burst, batch, 100 + n as u16, now)).sum()
    }

    #[test]
    fn what_stays_keeps_its_order_bytes_and_identification() {
        let (mut arp_queue, now) = (ArpQueue::new(), Instant::now());
        assert_eq!(put_all(&mut arp_queue, &burst(10), now), 10);
        arp_queue.drain(|route, id, packet| {
            assert_eq!(u16::from(packet[0]) + 100, id);
            if *route == self::route(2) { Decision::Gone } else { Decision::Wait }
        });
        assert!(!arp_queue.is_empty());
        let mut left = Vec::new();
        arp_queue.drain(|_, id, packet| {
            assert_eq!(u16::from(packet[0]) + 100, id);
            left.push(id);
            Decision::Gone
        });
        assert_eq!(left, [101, 103, 105, 107, 109]);
        assert!(arp_queue.is_empty() && !arp_queue.is_overdue(now + 2 * RESOLUTION_TIMEOUT));
    }

    #[test]
    fn it_is_bounded_in_number_and_time() {
        let (mut arp_queue, now) = (ArpQueue::new(), Instant::now());
        assert_eq!(put_all(&mut arp_queue, &burst(CAPACITY + 10), now), CAPACITY);
        assert!(!arp_queue.is_overdue(now) && arp_queue.is_overdue(now + RESOLUTION_TIMEOUT));
    }
}
