//! Places for requests that arrived behind a gap, until what is missing comes.
//!
//! A device has few of them, whatever its queue pairs lose at a time: a queue pair borrows one for as
//! long as it has a gap. Each is allocated when it is needed first, and used again from then on.

use uroce_wire::{Mtu, Psn};

use crate::limits;

/// The buffers of a device for requests behind gaps.
#[derive(Debug, Default)]
pub struct KeptBuffers {
    idle: Vec<Box<KeptBuffer>>,
    /// Buffers that exist, lent ones included.
    made: usize,
}

impl KeptBuffers {
    /// None is allocated yet.
    pub fn new() -> Self {
        KeptBuffers::default()
    }

    /// Bytes that the buffers take, lent ones included.
    pub fn allocated_bytes(&self) -> usize {
        self.made * limits::KEPT_BYTES
    }

    /// Buffers that queue pairs have borrowed.
    pub fn lent(&self) -> usize {
        self.made - self.idle.len()
    }

    /// Lends an empty buffer for packets of this path MTU; `None` if all are lent.
    pub(crate) fn lend(&mut self, mtu: Mtu) -> Option<Box<KeptBuffer>> {
        let mut buffer = match self.idle.pop() {
            Some(buffer) => buffer,
            None if self.made < limits::KEPT_BUFFERS => {
                self.made += 1;
                Box::new(KeptBuffer::new())
            }
            None => return None,
        };
        buffer.clear(mtu);
        Some(buffer)
    }

    pub(crate) fn give_back(&mut self, buffer: Box<KeptBuffer>) {
        self.idle.push(buffer);
    }
}

/// A request in a [`KeptBuffer`]; without a length there is none.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    psn: Psn,
    length: usize,
}

/// Packets by their PSN, at most a window of them.
#[derive(Debug)]
pub(crate) struct KeptBuffer {
    bytes: Box<[u8]>,
    slots: [Slot; limits::MAX_WINDOW as usize],
    /// Slots in use, a power of two, and the room of each.
    count: usize,
    room: usize,
    /// One past the last PSN that was seen.
    end: Option<Psn>,
}

impl KeptBuffer {
    fn new() -> Self {
        KeptBuffer {
            bytes: vec![0; limits::KEPT_BYTES].into_boxed_slice(),
            slots: [Slot::default(); limits::MAX_WINDOW as usize],
            count: 0,
            room: 0,
            end: None,
        }
    }

    fn clear(&mut self, mtu: Mtu) {
        self.slots.fill(Slot::default());
        self.count = (limits::MAX_WINDOW_BYTES as usize / mtu.bytes()).min(self.slots.len());
        self.room = mtu.bytes() + limits::KEPT_HEADERS;
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

    /// Keeps a packet in reach. False if it is there already, or too long: the first one stays.
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
        *slot = Slot { psn, length: packet.len() };
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

    fn buffer(mtu: Mtu) -> Box<KeptBuffer> {
        KeptBuffers::new().lend(mtu).unwrap()
    }

    #[test]
    fn every_packet_of_a_window_has_a_place_of_its_own() {
        for mtu in Mtu::ALL {
            let mut buffer = buffer(mtu);
            let window = (limits::MAX_WINDOW_BYTES as usize / mtu.bytes()).min(256) as u32;
            let expected = psn(0xff_ffc0);
            assert!(!buffer.note(expected, expected), "what is expected is not behind a gap");
            for ahead in 1..window {
                let packet = vec![ahead as u8; mtu.bytes() + limits::KEPT_HEADERS];
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
        assert!(!buffer.put(psn(7), &[0; 256 + limits::KEPT_HEADERS + 1]), "too long");
    }

    #[test]
    fn a_device_has_so_many_buffers_and_they_come_back_empty() {
        let mut buffers = KeptBuffers::new();
        assert_eq!(buffers.allocated_bytes(), 0);
        let mut lent: Vec<_> =
            (0..limits::KEPT_BUFFERS).map(|_| buffers.lend(Mtu::M1024).unwrap()).collect();
        assert!(buffers.lend(Mtu::M1024).is_none());
        let mut one = lent.pop().unwrap();
        assert!(one.note(psn(0), psn(1)) && one.put(psn(1), b"x"));
        buffers.give_back(one);
        assert_eq!(buffers.lent(), limits::KEPT_BUFFERS - 1);
        let again = buffers.lend(Mtu::M256).unwrap();
        assert!(again.get(psn(1)).is_none() && !again.reaches(psn(1)));
        assert_eq!(buffers.allocated_bytes(), limits::KEPT_BUFFERS * limits::KEPT_BYTES);
    }
}
