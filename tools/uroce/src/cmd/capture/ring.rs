//! The last packets, in memory.

use std::collections::VecDeque;
use std::time::Duration;

use super::args::RingSize;

/// What belongs to one packet.
#[derive(Debug, Clone, Copy)]
struct Entry {
    time: Duration,
    len: usize,
    /// Packets that the kernel had surely dropped before it.
    dropped_before: u64,
}

/// The last packets, as blocks of a pcapng file: as many as its size allows.
#[derive(Debug)]
pub struct PacketRing {
    size: RingSize,
    bytes: VecDeque<u8>,
    entries: VecDeque<Entry>,
    newest: Duration,
    /// Packets that the kernel had dropped when it was asked last, and the time before: those are all older than
    /// the next packet.
    dropped: u64,
    dropped_earlier: u64,
}

impl PacketRing {
    /// No packets.
    pub fn new(size: RingSize) -> Self {
        let newest = Duration::ZERO;
        PacketRing {
            size,
            bytes: VecDeque::new(),
            entries: VecDeque::new(),
            newest,
            dropped: 0,
            dropped_earlier: 0,
        }
    }

    /// The kernel had no further packet a moment ago, and has dropped `dropped` so far. In that moment it may have
    /// captured some and dropped others behind them: only what it had dropped the time before is surely over.
    pub fn handle_dropped(&mut self, dropped: u64) {
        self.dropped_earlier = std::mem::replace(&mut self.dropped, dropped);
    }

    /// Packets that the kernel had surely dropped before the oldest packet.
    pub fn dropped_before(&self) -> u64 {
        self.entries.front().map_or(self.dropped_earlier, |oldest| oldest.dropped_before)
    }

    /// Adds the block of a packet and forgets those that are too old, or too many. A block that is larger than the
    /// ring is not kept.
    pub fn push(&mut self, time: Duration, block: &[u8]) {
        self.newest = self.newest.max(time);
        while self.is_too_full(block.len()) || self.is_oldest_too_old() {
            self.forget_oldest();
        }
        if block.len() <= self.size.bytes {
            self.bytes.extend(block);
            let dropped_before = self.dropped_earlier;
            self.entries.push_back(Entry { time, len: block.len(), dropped_before });
        }
    }

    /// Packets in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The blocks, the oldest first, in two parts.
    pub fn blocks(&self) -> [&[u8]; 2] {
        self.bytes.as_slices().into()
    }

    /// Forgets all packets and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    fn is_too_full(&self, more: usize) -> bool {
        !self.entries.is_empty() && self.bytes.len() + more > self.size.bytes
    }

    fn is_oldest_too_old(&self) -> bool {
        let oldest = self.entries.front();
        oldest.is_some_and(|oldest| self.newest.saturating_sub(oldest.time) > self.size.time)
    }

    fn forget_oldest(&mut self) {
        if let Some(Entry { len, .. }) = self.entries.pop_front() {
            self.bytes.drain(..len);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ring(time: u64, bytes: usize) -> PacketRing {
        PacketRing::new(RingSize { time: Duration::from_secs(time), bytes })
    }

    fn content(ring: &PacketRing) -> Vec<u8> {
        ring.blocks().concat()
    }

    #[test]
    fn old_packets_go() {
        let mut ring = ring(10, 1000);
        for second in [1, 5, 11, 12] {
            ring.push(Duration::from_secs(second), &[second as u8; 3]);
        }
        assert_eq!(content(&ring), [5, 5, 5, 11, 11, 11, 12, 12, 12]);
        ring.push(Duration::from_secs(3), &[3]);
        assert_eq!(ring.len(), 4, "a clock that goes back makes nothing old");
        ring.push(Duration::from_secs(100), &[9]);
        assert_eq!(content(&ring), [9]);
        ring.clear();
        assert_eq!((ring.len(), content(&ring)), (0, vec![]));
    }

    #[test]
    fn a_packet_larger_than_the_ring_is_not_kept() {
        let mut ring = ring(10, 5);
        ring.push(Duration::from_secs(1), &[1; 4]);
        ring.push(Duration::from_secs(1), &[2; 6]);
        assert_eq!(ring.len(), 0);
        ring.push(Duration::from_secs(1), &[3; 5]);
        assert_eq!(content(&ring), [3; 5]);
    }

    proptest! {
        #[test]
        fn the_last_packets_that_fit_are_kept_whole(
            lengths in proptest::collection::vec(1usize..40, 0..100),
        ) {
            let mut ring = ring(u64::MAX, 100);
            let blocks: Vec<Vec<u8>> =
                lengths.iter().enumerate().map(|(index, len)| vec![index as u8; *len]).collect();
            blocks.iter().for_each(|block| ring.push(Duration::ZERO, block));
            let mut room = 100usize;
            let fits = |block: &&Vec<u8>| match room.checked_sub(block.len()) {
                Some(rest) => { room = rest; true }
                None => false,
            };
            let mut wanted: Vec<&Vec<u8>> = blocks.iter().rev().take_while(fits).collect();
            wanted.reverse();
            let wanted: Vec<u8> = wanted.into_iter().flatten().copied().collect();
            prop_assert_eq!(content(&ring), wanted);
        }
    }
}
