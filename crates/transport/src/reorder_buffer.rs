//! Reorder buffers: requests that arrived behind a PSN gap wait there until the missing ones come.
//!
//! A buffer consists of blocks, each of which holds the window of a short path; it may hold the largest window. A queue pair borrows one when a packet comes
//! that belongs there, and gives it back when everything in it has been executed, so that a queue pair on a short path, where
//! two windows may be outstanding, never has more than four. A device has at most `limits::REORDER_BLOCKS`, however many of its queue pairs lose packets
//! at a time. A block is allocated when it is first needed, and used again from then on.

use uroce_wire::{GAPS_PER_LIST, Gap, Mtu, Psn};

use crate::limits;

/// Most blocks of one buffer.
const BLOCKS: usize = limits::REORDER_BLOCKS_PER_QP;

/// The reorder buffers of a device.
#[derive(Debug, Default)]
pub struct ReorderBuffers {
    idle: Vec<Box<Block>>,
    /// Buffers without a block.
    #[expect(
        clippy::vec_box,
        reason = "a queue pair borrows the box, which is not made anew each time"
    )]
    empty: Vec<Box<ReorderBuffer>>,
    /// Blocks that exist, lent ones included.
    made: usize,
}

impl ReorderBuffers {
    /// No buffer is allocated yet.
    pub fn new() -> Self {
        ReorderBuffers::default()
    }

    /// Bytes that the blocks take, lent ones included.
    pub fn allocated_bytes(&self) -> usize {
        self.made * limits::REORDER_BLOCK_BYTES
    }

    /// Blocks that queue pairs have borrowed.
    pub fn lent(&self) -> usize {
        self.made - self.idle.len()
    }

    /// Lends an empty buffer for packets of this path MTU behind the missing one, `expected`; `None` if all blocks are
    /// lent.
    pub(crate) fn lend(&mut self, mtu: Mtu, expected: Psn) -> Option<Box<ReorderBuffer>> {
        let block = self.lend_block(0)?;
        let mut buffer = self.empty.pop().unwrap_or_default();
        buffer.start(mtu, expected);
        buffer.blocks[0] = Some(block);
        Some(buffer)
    }

    /// Lends an empty block if more than `reserved` are left.
    fn lend_block(&mut self, reserved: usize) -> Option<Box<Block>> {
        if self.lent() + reserved >= limits::REORDER_BLOCKS {
            return None;
        }
        let Some(mut block) = self.idle.pop() else {
            self.made += 1;
            return Some(Box::new(Block::new()));
        };
        debug_assert!(self.lent() <= limits::REORDER_BLOCKS, "more blocks than a device may lend");
        block.slots.fill(RequestSlot::default());
        Some(block)
    }

    pub(crate) fn give_back(&mut self, mut buffer: Box<ReorderBuffer>) {
        self.idle.extend(buffer.blocks.iter_mut().filter_map(Option::take));
        debug_assert!(self.idle.len() <= self.made, "more blocks come back than were lent");
        debug_assert!(self.made <= limits::REORDER_BLOCKS, "more blocks than a device may have");
        self.empty.push(buffer);
    }
}

/// A request in a [`Block`]; without a length there is none.
#[derive(Debug, Clone, Copy, Default)]
struct RequestSlot {
    psn: Psn,
    length: usize,
    /// The request with this PSN was seen, and is not here.
    dropped: bool,
}

/// The requests of `limits::SHORT_PATH_WINDOW` PSNs at most.
#[derive(Debug)]
struct Block {
    bytes: Box<[u8]>,
    slots: [RequestSlot; limits::SHORT_PATH_WINDOW as usize],
}

impl Block {
    fn new() -> Self {
        Block {
            bytes: vec![0; limits::REORDER_BLOCK_BYTES].into_boxed_slice(),
            slots: [RequestSlot::default(); limits::SHORT_PATH_WINDOW as usize],
        }
    }
}

/// Packets behind a gap by their PSN.
#[derive(Debug)]
pub(crate) struct ReorderBuffer {
    /// A ring of blocks, the first of which begins with the PSN `base`.
    blocks: [Option<Box<Block>>; BLOCKS],
    first: usize,
    base: Psn,
    /// PSNs of a block, a power of two, and the room for each.
    count: usize,
    room: usize,
    /// One past the last PSN that was seen.
    end: Psn,
    /// The first packet that was seen and has no block: what is missing from there on is not known.
    without_block: Option<Psn>,
    /// A NAK of a gap before what is kept has left.
    nak_sent: bool,
    /// One past the last PSN of those that were seen since something that is kept has come again.
    sent_again: Option<Psn>,
    /// The peer was told of the gaps before this PSN.
    told: Psn,
    /// One past the last PSN that had been seen then.
    seen_when_told: Psn,
    /// The gaps that it was told of last.
    gaps: Vec<Gap>,
}

impl Default for ReorderBuffer {
    fn default() -> Self {
        ReorderBuffer {
            blocks: [const { None }; BLOCKS],
            first: 0,
            base: Psn::default(),
            count: 1,
            room: 0,
            end: Psn::default(),
            without_block: None,
            nak_sent: false,
            sent_again: None,
            told: Psn::default(),
            seen_when_told: Psn::default(),
            gaps: Vec::with_capacity(GAPS_PER_LIST),
        }
    }
}

impl ReorderBuffer {
    fn start(&mut self, mtu: Mtu, expected: Psn) {
        let window = limits::SHORT_PATH_WINDOW_BYTES as usize / mtu.bytes();
        self.count = window.min(limits::SHORT_PATH_WINDOW as usize);
        self.room = mtu.bytes() + limits::REORDER_HEADERS;
        debug_assert!(self.count.is_power_of_two(), "the ring is even at the wrap of PSNs");
        debug_assert!(self.blocks.iter().all(Option::is_none), "a buffer that is lent is empty");
        (self.first, self.base, self.end) = (0, expected, expected);
        (self.without_block, self.told, self.seen_when_told) = (None, expected, expected);
        (self.nak_sent, self.sent_again) = (false, None);
    }

    /// Notes that the packet `psn` exists, if it is in reach of the first missing one, `expected`, or of the last one that
    /// was seen: packets do not skip more than a block.
    pub(crate) fn note(&mut self, expected: Psn, psn: Psn) -> bool {
        let near = |from: Psn| psn.since(from) < self.count as i32;
        let ahead = psn.since(expected);
        // The first block begins less than its size before `expected`, so that there is a place for each of them.
        let in_window = ahead > 0 && ahead < (self.count * (BLOCKS - 1)) as i32;
        let reached = in_window && (near(expected) || near(self.end));
        if reached && psn.since(self.end) >= 0 {
            self.end = psn.add(1);
        }
        if reached && (self.sent_again.is_some() || self.get(psn).is_some()) {
            let before = self.sent_again.unwrap_or(expected);
            self.sent_again = Some(if psn.since(before) >= 0 { psn.add(1) } else { before });
        }
        reached
    }

    /// Place of the block of a PSN in the ring, and that of its slot in the block.
    fn place(&self, psn: Psn) -> (usize, usize) {
        let ahead = psn.since(self.base).max(0) as usize;
        ((self.first + ahead / self.count) % BLOCKS, ahead % self.count)
    }

    /// Copies a packet in reach into the buffer. False if a packet with that PSN is there already, which stays, if this
    /// one is too long, or if there is no block to borrow from `pool`.
    pub(crate) fn put(&mut self, psn: Psn, packet: &[u8], pool: &mut ReorderBuffers) -> bool {
        let (block, index) = self.place(psn);
        let place = &mut self.blocks[block];
        if place.is_none() {
            *place = pool.lend_block(limits::REORDER_BLOCKS_RESERVED);
        }
        let Some(block) = place else { return false };
        let at = index * self.room;
        let slot = &mut block.slots[index];
        let taken = slot.length != 0 && slot.psn == psn;
        let place = block.bytes.get_mut(at..at + packet.len());
        let Some(place) = place.filter(|_| !taken && packet.len() <= self.room) else {
            return false;
        };
        place.copy_from_slice(packet);
        *slot = RequestSlot { psn, length: packet.len(), dropped: false };
        true
    }

    /// The packet with this PSN.
    pub(crate) fn get(&self, psn: Psn) -> Option<&[u8]> {
        let (block, index) = self.place(psn);
        let block = self.blocks[block].as_ref()?;
        let slot = block.slots[index];
        let at = index * self.room;
        let packet = block.bytes.get(at..at + slot.length)?;
        (slot.length != 0 && slot.psn == psn).then_some(packet)
    }

    /// How many packets from this PSN on are in the buffer.
    pub(crate) fn kept_from(&self, expected: Psn) -> u64 {
        let slots = self.blocks.iter().flatten().flat_map(|block| &block.slots);
        slots.filter(|slot| slot.length != 0 && slot.psn.since(expected) >= 0).count() as u64
    }

    /// True if a packet with this PSN or a later one was seen.
    pub(crate) fn reaches(&self, psn: Psn) -> bool {
        self.end.since(psn) > 0
    }

    /// A packet in reach was dropped.
    pub(crate) fn note_dropped(&mut self, psn: Psn) {
        if self.get(psn).is_some() {
            return;
        }
        let (block, index) = self.place(psn);
        match &mut self.blocks[block] {
            Some(block) => block.slots[index] = RequestSlot { psn, length: 0, dropped: true },
            None if self.without_block.is_none_or(|first| psn.since(first) < 0) => {
                self.without_block = Some(psn);
            }
            None => {}
        }
    }

    fn was_dropped(&self, psn: Psn) -> bool {
        let (block, index) = self.place(psn);
        let slot = self.blocks[block].as_ref().map(|block| block.slots[index]);
        slot.is_some_and(|slot| slot.dropped && slot.psn == psn)
    }

    /// A NAK of the first gap has left.
    pub(crate) fn note_nak_sent(&mut self) {
        self.nak_sent = true;
    }

    /// A NAK of this gap, or of an earlier one before what is kept, has left: a requester that takes no gap lists sends all of it
    /// again.
    pub(crate) fn nak_was_sent(&self) -> bool {
        self.nak_sent
    }

    /// One past the last PSN of those that the requester has sent again, or behind that; `None` if nothing that is kept has come
    /// again.
    pub(crate) fn sent_again(&self) -> Option<Psn> {
        self.sent_again
    }

    /// True if the peer was told that `psn` is missing, and has sent it again if it still has to come.
    pub(crate) fn was_told(&self, psn: Psn) -> bool {
        self.told.since(psn) > 0
    }

    /// How many PSNs behind all that had been seen when the peer was told last this packet is, which was seen; `None` if it is
    /// among them, or out of reach.
    pub(crate) fn news_since_told(&self, psn: Psn) -> Option<u32> {
        let beyond = u32::try_from(psn.since(self.seen_when_told)).ok();
        beyond.filter(|_| self.reaches(psn))
    }

    /// What the peer was told may have been lost.
    pub(crate) fn forget_told(&mut self, expected: Psn) {
        self.told = expected;
    }

    /// What is missing from `expected` on, as far as one list tells, and one past the last PSN that was seen; it is told by that.
    /// The list ends before the first packet behind `expected` that was dropped.
    pub(crate) fn tell_gaps(&mut self, expected: Psn) -> (&[Gap], Psn) {
        let end = self.without_block.filter(|psn| psn.since(expected) > 0).unwrap_or(self.end);
        self.gaps.clear();
        let (mut psn, mut left) = (expected, limits::PACKETS_PER_GAP_LIST);
        while end.since(psn) > 0 && left > 0 {
            if psn != expected && self.was_dropped(psn) {
                break;
            }
            if self.get(psn).is_none() {
                left -= 1;
                let room = self.gaps.len() < GAPS_PER_LIST;
                match self.gaps.last_mut() {
                    Some(gap) if gap.end() == psn => gap.packets += 1,
                    _ if room => self.gaps.push(Gap { first: psn, packets: 1 }),
                    _ => break,
                }
            }
            psn = psn.add(1);
        }
        (self.told, self.seen_when_told) = (psn, self.end);
        (&self.gaps, self.end)
    }

    /// Gives back the blocks before the one of the packet that is missing now.
    pub(crate) fn pass(&mut self, expected: Psn, pool: &mut ReorderBuffers) {
        self.without_block = self.without_block.filter(|psn| psn.since(expected) >= 0);
        for _ in 0..BLOCKS {
            if expected.since(self.base) < self.count as i32 {
                return;
            }
            pool.idle.extend(self.blocks[self.first].take());
            self.first = (self.first + 1) % BLOCKS;
            self.base = self.base.add(self.count as u32);
        }
        // There is nothing left in it.
        self.base = expected;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: u32 = 0xff_ffc0;

    fn psn(number: u32) -> Psn {
        Psn::new(number)
    }

    fn block_of(mtu: Mtu) -> u32 {
        (limits::SHORT_PATH_WINDOW_BYTES as usize / mtu.bytes()).min(256) as u32
    }

    #[test]
    fn every_packet_of_a_short_window_has_a_place_of_its_own_in_one_block() {
        for mtu in Mtu::ALL {
            let mut pool = ReorderBuffers::new();
            let expected = psn(FAR);
            let mut buffer = pool.lend(mtu, expected).unwrap();
            let window = block_of(mtu);
            assert!(!buffer.note(expected, expected), "what is expected is not behind a gap");
            assert!(!buffer.note(expected, expected.add(window)));
            for ahead in 1..window {
                let packet = vec![ahead as u8; mtu.bytes() + limits::REORDER_HEADERS];
                let at = expected.add(ahead);
                assert!(buffer.note(expected, at) && buffer.put(at, &packet, &mut pool), "{mtu}");
            }
            for ahead in 1..window {
                let packet = buffer.get(expected.add(ahead)).unwrap();
                assert_eq!((packet[0], packet.len()), (ahead as u8, mtu.bytes() + 64));
            }
            assert!(buffer.get(expected).is_none());
            assert!(buffer.reaches(expected.add(window - 1)));
            assert!(!buffer.reaches(expected.add(window)));
            assert_eq!(pool.lent(), 1);
        }
    }

    #[test]
    fn the_largest_window_takes_the_blocks_that_one_may_have_and_no_more() {
        for mtu in Mtu::ALL {
            let mut pool = ReorderBuffers::new();
            let expected = psn(FAR);
            let mut buffer = pool.lend(mtu, expected).unwrap();
            let window = block_of(mtu) * (BLOCKS - 1) as u32;
            let bytes = u64::from(window) * mtu.bytes() as u64;
            assert!(window == limits::MAX_WINDOW || bytes == limits::MAX_WINDOW_BYTES, "{mtu}");
            for ahead in 1..2 * window {
                let at = expected.add(ahead);
                let kept =
                    buffer.note(expected, at) && buffer.put(at, &[ahead as u8; 9], &mut pool);
                assert_eq!(kept, ahead < window, "{mtu} {ahead}");
            }
            assert_eq!(pool.lent(), BLOCKS - 1);
            assert!((1..window).all(|ahead| buffer.get(expected.add(ahead)).is_some()));
            // Others still find a block, though not a second one.
            let mut others: Vec<_> = (0..limits::REORDER_BLOCKS - pool.lent())
                .map(|_| pool.lend(mtu, expected).unwrap())
                .collect();
            let far = expected.add(block_of(mtu));
            assert!(!others[0].put(far, b"x", &mut pool) && pool.lend(mtu, expected).is_none());
            pool.give_back(buffer);
            assert!(others[0].put(far, b"x", &mut pool));
            others.into_iter().for_each(|other| pool.give_back(other));
            assert_eq!(pool.lent(), 0);
        }
    }

    #[test]
    fn the_largest_window_has_places_wherever_in_its_block_the_missing_packet_is() {
        for mtu in Mtu::ALL {
            for into in [0, 1, block_of(mtu) - 1] {
                let mut pool = ReorderBuffers::new();
                let mut buffer = pool.lend(mtu, psn(FAR)).unwrap();
                let expected = psn(FAR).add(into);
                buffer.note(psn(FAR), expected);
                buffer.pass(expected, &mut pool);
                let window = block_of(mtu) * (BLOCKS - 1) as u32;
                for ahead in 1..=window {
                    let at = expected.add(ahead);
                    let packet = ahead.to_be_bytes();
                    let kept = buffer.note(expected, at) && buffer.put(at, &packet, &mut pool);
                    assert_eq!(kept, ahead < window, "{mtu} {into} {ahead}");
                }
                for ahead in 1..window {
                    let packet = buffer.get(expected.add(ahead));
                    assert_eq!(packet, Some(&ahead.to_be_bytes()[..]), "{mtu} {into} {ahead}");
                }
                let later = expected.add(block_of(mtu));
                buffer.pass(later, &mut pool);
                assert!(
                    (1..window - block_of(mtu)).all(|ahead| buffer.get(later.add(ahead)).is_some())
                );
                pool.give_back(buffer);
                assert_eq!(pool.lent(), 0);
            }
        }
    }

    #[test]
    fn blocks_are_given_back_as_the_gap_moves_on() {
        let mut pool = ReorderBuffers::new();
        let mut expected = psn(FAR);
        let mut buffer = pool.lend(Mtu::M1024, expected).unwrap();
        for round in 0..100_000u32 {
            let at = expected.add(200);
            assert!(buffer.note(expected, at) && buffer.put(at, &round.to_be_bytes(), &mut pool));
            expected = expected.add(199);
            buffer.pass(expected, &mut pool);
            assert_eq!(buffer.get(at), Some(&round.to_be_bytes()[..]));
            expected = expected.add(1);
            assert!(pool.lent() <= 2);
        }
        assert_eq!(pool.made, 2);
        // What is expected may skip any number of PSNs.
        expected = expected.add(1 << 22);
        buffer.pass(expected, &mut pool);
        assert_eq!(pool.lent(), 0);
        assert!(!buffer.reaches(expected));
        assert!(buffer.note(expected, expected.add(255)));
        assert!(buffer.put(expected.add(255), b"x", &mut pool));
    }

    fn gaps(buffer: &mut ReorderBuffer, expected: u32) -> Vec<(u32, u32)> {
        let (gaps, _) = buffer.tell_gaps(psn(expected));
        gaps.iter().map(|gap| (gap.first.get(), gap.packets)).collect()
    }

    fn see(buffer: &mut ReorderBuffer, expected: u32, at: u32, pool: Option<&mut ReorderBuffers>) {
        assert!(buffer.note(psn(expected), psn(at)));
        match pool {
            Some(pool) => assert!(buffer.put(psn(at), b"x", pool)),
            None => buffer.note_dropped(psn(at)),
        }
    }

    #[test]
    fn a_list_ends_before_the_first_packet_that_was_dropped_behind_the_missing_one() {
        let mut pool = ReorderBuffers::new();
        let mut buffer = pool.lend(Mtu::M256, psn(0)).unwrap();
        see(&mut buffer, 0, 2, Some(&mut pool));
        see(&mut buffer, 0, 4, None);
        see(&mut buffer, 0, 8, None);
        see(&mut buffer, 0, 10, Some(&mut pool));
        assert_eq!(gaps(&mut buffer, 0), [(0, 2), (3, 1)]);
        assert!(!buffer.was_told(psn(4)) && buffer.was_told(psn(3)));
        // The one that was dropped is missing now: it comes again whatever the list says, and there is one behind it.
        buffer.pass(psn(4), &mut pool);
        assert_eq!(gaps(&mut buffer, 4), [(4, 4)]);
        buffer.pass(psn(9), &mut pool);
        assert_eq!(gaps(&mut buffer, 9), [(9, 1)]);
        // What comes again is kept, if it may be.
        see(&mut buffer, 9, 12, None);
        see(&mut buffer, 9, 12, Some(&mut pool));
        see(&mut buffer, 9, 14, Some(&mut pool));
        assert_eq!(gaps(&mut buffer, 9), [(9, 1), (11, 1), (13, 1)]);
    }

    #[test]
    fn what_was_dropped_long_ago_says_nothing_of_what_comes_later() {
        let mut pool = ReorderBuffers::new();
        let window = block_of(Mtu::M256);
        let mut buffer = pool.lend(Mtu::M256, psn(0)).unwrap();
        // One without a block of its own.
        see(&mut buffer, 0, window - 1, Some(&mut pool));
        see(&mut buffer, 0, window + 1, None);
        assert_eq!(gaps(&mut buffer, window), [(window, 1)], "up to it");
        let mut expected = window + 2;
        buffer.pass(psn(expected), &mut pool);
        while expected < 3 << 22 {
            let at = expected + window - 1;
            see(&mut buffer, expected, at, Some(&mut pool));
            assert_eq!(gaps(&mut buffer, at - 1), [(at - 1, 1)], "no further than was seen");
            expected = at - 1;
            buffer.pass(psn(expected), &mut pool);
        }
    }

    #[test]
    fn the_first_packet_of_a_psn_stays_and_a_block_is_used_again() {
        let mut pool = ReorderBuffers::new();
        let mut buffer = pool.lend(Mtu::M256, psn(4)).unwrap();
        assert!(buffer.put(psn(5), b"first", &mut pool));
        assert!(!buffer.put(psn(5), b"second", &mut pool));
        assert_eq!(buffer.get(psn(5)), Some(&b"first"[..]));
        let long = [0; 256 + limits::REORDER_HEADERS + 1];
        assert!(!buffer.put(psn(7), &long, &mut pool), "too long");
        pool.give_back(buffer);
        let again = pool.lend(Mtu::M1024, psn(4)).unwrap();
        assert!(again.get(psn(5)).is_none() && !again.reaches(psn(4)));
        assert_eq!(pool.allocated_bytes(), limits::REORDER_BLOCK_BYTES);
    }
}
