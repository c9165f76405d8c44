//! Reorder buffers: requests that arrived behind a PSN gap wait there until the missing ones come.
//!
//! A device has at most `limits::REORDER_BUFFERS`, however many of its queue pairs lose packets at a time: a queue pair
//! borrows a buffer for as long as it has a gap. A buffer is allocated when it is first needed, and used again from then on.

use uroce_wire::{Mtu, Psn};

use crate::limits;

/// The reorder buffers of a device.
#[derive(Debug, Default)]
pub struct ReorderBuffers {
    idle: Vec<Box<ReorderBuffer>>,
    /// Buffers that exist, lent ones included.
    made: usize,
}

impl ReorderBuffers {
    /// No buffer is allocated yet.
    pub fn new() -> Self {
        ReorderBuffers::default()
    }

    /// Bytes that the buffers take, lent ones included.
    pub fn allocated_bytes(&self) -> usize {
        self.made * limits::REORDER_BUFFER_BYTES
    }

    /// Buffers that queue pairs have borrowed.
    pub fn lent(&self) -> usize {
        self.made - self.idle.len()
    }

    /// Lends an empty buffer for packets of this path MTU; `None` if all are lent.
    pub(crate) fn lend(&mut self, mtu: Mtu) -> Option<Box<ReorderBuffer>> {
        let mut buffer = match self.idle.pop() {
            Some(buffer) => buffer,
            None if self.made < limits::REORDER_BUFFERS => {
                self.made += 1;
                Box::new(ReorderBuffer::new())
            }
            None => return None,
        };
        buffer.clear(mtu);
        Some(buffer)
    }

    pub(crate) fn give_back(&mut self, buffer: Box<ReorderBuffer>) {
        debug_assert!(self.idle.len() < self.made, "more buffers come back than were lent");
        debug_assert!(self.made <= limits::REORDER_BUFFERS, "more buffers than a device may have");
        self.idle.push(buffer);
    }
}

/// A request in a [`ReorderBuffer`]; without a length there is none.
#[derive(Debug, Clone, Copy, Default)]
struct RequestSlot {
    psn: Psn,
    length: usize,
}

/// Packets behind a gap by their PSN, at most `limits::MAX_WINDOW` of them.
#[derive(Debug)]
pub(crate) struct ReorderBuffer {
    bytes: Box<[u8]>,
    slots: [RequestSlot; limits::MAX_WINDOW as usize],
    /// Slots in use, a power of two, and the room of each.
    count: usize,
    room: usize,
    /// One past the last PSN that was seen.
    end: Option<Psn>,
}

impl ReorderBuffer {
    fn new() -> Self {
        ReorderBuffer {
            bytes: vec![0; limits::REORDER_BUFFER_BYTES].into_boxed_slice(),
            slots: [RequestSlot::default(); limits::MAX_WINDOW as usize],
            count: 0,
            room: 0,
            end: None,
        }
    }

    fn clear(&mut self, mtu: Mtu) {
        self.slots.fill(RequestSlot::default());
        self.count = (limits::MAX_WINDOW_BYTES as usize / mtu.bytes()).min(self.slots.len());
        self.room = mtu.bytes() + limits::REORDER_HEADERS;
        debug_assert!(
            self.count.is_power_of_two(),
            "PSNs are divided among slots by their low bits"
        );
        debug_assert!(self.count * self.room <= self.bytes.len(), "each slot has its room");
        self.end = None;
    }

    /// Notes that the packet `psn` exists, if it is in reach of the first missing one, `expected`.
    pub(crate) fn note(&mut self, expected: Psn, psn: Psn) -> bool {
        let ahead = psn.since(expected);
        let reached = ahead > 0 && (ahead as usize) < self.count;
        if reached && self.end.is_none_or(|end| psn.since(end) >= 0) {
            self.end = Some(psn.add(1));
        }
        reached
    }

    /// Copies a packet in reach into the buffer. False if a packet with that PSN is there already, which stays, or
    /// if this one is too long.
    pub(crate) fn put(&mut self, psn: Psn, packet: &[u8]) -> bool {
        let index = psn.get() as usize & (self.count - 1);
        let at = index * self.room;
        let slot = &mut self.slots[index];
        let taken = slot.length != 0 && slot.psn == psn;
        let place = self.bytes.get_mut(at..at + packet.len());
        let Some(place) = place.filter(|_| !taken && packet.len() <= self.room) else {
            return false;
        };
        place.copy_from_slice(packet);
        *slot = RequestSlot { psn, length: packet.len() };
        true
    }

    /// The packet with this PSN.
    pub(crate) fn get(&self, psn: Psn) -> Option<&[u8]> {
        let index = psn.get() as usize & (self.count - 1);
        let slot = self.slots[index];
        let at = index * self.room;
        let packet = self.bytes.get(at..at + slot.length)?;
        (slot.length != 0 && slot.psn == psn).then_some(packet)
    }

    /// True if a packet with this PSN or a later one was seen.
    pub(crate) fn reaches(&self, psn: Psn) -> bool {
        self.end.is_some_and(|end| end.since(psn) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn psn(number: u32) -> Psn {
        Psn::new(number)
    }

    fn buffer(mtu: Mtu) -> Box<ReorderBuffer> {
        ReorderBuffers::new().lend(mtu).unwrap()
    }

    #[test]
    fn every_packet_of_a_window_has_a_place_of_its_own() {
        for mtu in Mtu::ALL {
            let mut buffer = buffer(mtu);
            let window = (limits::MAX_WINDOW_BYTES as usize / mtu.bytes()).min(256) as u32;
            let expected = psn(0xff_ffc0);
            assert!(!buffer.note(expected, expected), "what is expected is not behind a gap");
            for ahead in 1..window {
                let packet = vec![ahead as u8; mtu.bytes() + limits::REORDER_HEADERS];
                let at = expected.add(ahead);
                assert!(buffer.note(expected, at) && buffer.put(at, &packet), "{mtu} {ahead}");
            }
            assert!(!buffer.note(expected, expected.add(window)));
            for ahead in 1..window {
                let packet = buffer.get(expected.add(ahead)).unwrap();
                assert_eq!((packet[0], packet.len()), (ahead as u8, mtu.bytes() + 64));
            }
            assert!(buffer.get(expected).is_none());
            assert!(buffer.reaches(expected.add(window - 1)));
            assert!(!buffer.reaches(expected.add(window)));
        }
    }

    #[test]
    fn the_first_packet_of_a_psn_stays_and_a_place_is_used_again() {
        let mut buffer = buffer(Mtu::M256);
        assert!(buffer.put(psn(5), b"first"));
        assert!(!buffer.put(psn(5), b"second"));
        assert_eq!(buffer.get(psn(5)), Some(&b"first"[..]));
        assert!(buffer.put(psn(5 + 256), b"a window later"));
        assert_eq!((buffer.get(psn(5)), buffer.get(psn(261)).map(<[u8]>::len)), (None, Some(14)));
        assert!(!buffer.put(psn(7), &[0; 256 + limits::REORDER_HEADERS + 1]), "too long");
    }

    #[test]
    fn a_device_has_so_many_buffers_and_they_come_back_empty() {
        let mut buffers = ReorderBuffers::new();
        assert_eq!(buffers.allocated_bytes(), 0);
        let mut lent: Vec<_> =
            (0..limits::REORDER_BUFFERS).map(|_| buffers.lend(Mtu::M1024).unwrap()).collect();
        assert!(buffers.lend(Mtu::M1024).is_none());
        let mut one = lent.pop().unwrap();
        assert!(one.note(psn(0), psn(1)) && one.put(psn(1), b"x"));
        buffers.give_back(one);
        assert_eq!(buffers.lent(), limits::REORDER_BUFFERS - 1);
        let again = buffers.lend(Mtu::M256).unwrap();
        assert!(again.get(psn(1)).is_none() && !again.reaches(psn(1)));
        assert_eq!(
            buffers.allocated_bytes(),
            limits::REORDER_BUFFERS * limits::REORDER_BUFFER_BYTES
        );
    }
}
