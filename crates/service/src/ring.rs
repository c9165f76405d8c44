//! A ring of packets in shared memory: heads and payloads one behind the other.
//!
//! Each side keeps its own index in its own memory and publishes it; only the index of the other side is
//! read, and checked, before anything follows from it. A sender that writes nonsense makes
//! [`RingReceiver::next`] fail; it cannot make it read outside of the ring, or for ever.

use crate::head::{self, HEAD, HeadBytes, MAX_PAYLOAD};
use crate::sys::shared_memory::SharedMemory;

/// Where a ring is in the shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingPlace {
    /// The word with the sender's index.
    sent: usize,
    /// The word with the receiver's index.
    taken: usize,
    /// The first byte of the ring.
    start: usize,
    /// Bytes, a power of two.
    size: u32,
}

/// Where a test finds what the other side reads.
#[cfg(test)]
impl RingPlace {
    pub(crate) fn sent_word(&self) -> usize {
        self.sent
    }

    pub(crate) fn taken_word(&self) -> usize {
        self.taken
    }

    pub(crate) fn first_byte(&self) -> usize {
        self.start
    }
}

/// The part of the memory before the rings: words, each in cache lines of its own.
const WORDS: usize = 4096;
/// Bytes of packets that a client may have on the way to the service.
const SENT_BYTES: u32 = 512 * 1024;
/// Bytes of packets that wait for a client, as many as a UDP socket's buffer would hold.
const ARRIVED_BYTES: u32 = 4 * 1024 * 1024;

/// Packets from the client.
pub(crate) const SENT: RingPlace =
    RingPlace { sent: 0, taken: 128, start: WORDS, size: SENT_BYTES };
/// Packets for the client.
pub(crate) const ARRIVED: RingPlace =
    RingPlace { sent: 256, taken: 384, start: WORDS + SENT_BYTES as usize, size: ARRIVED_BYTES };
/// Word that is not 0 while the service sleeps until it gets a message.
pub(crate) const SERVICE_SLEEPS: usize = 512;
/// Word that is not 0 while the client sleeps until it gets a message.
pub(crate) const CLIENT_SLEEPS: usize = 640;
/// Word with the number of packets for the client that were dropped, since its ring was full.
pub(crate) const DROPPED: usize = 768;
/// Word that changes whenever the service has said something about links over the unix socket.
pub(crate) const LINKS_CHANGED: usize = 896;
/// Most packets that a client may have on the way to the service: the shortest ones.
pub(crate) const MOST_SENT: usize = SENT_BYTES as usize / (2 * HEAD);
/// Bytes of the shared memory of one client.
pub(crate) const MEMORY: usize = WORDS + SENT_BYTES as usize + ARRIVED_BYTES as usize;

/// Bytes of packets in each direction of a link: twice what a device lets be unacknowledged to one address (ADR 13).
const LINK_BYTES: u32 = 2 * 1024 * 1024;
/// The two rings of a link, by the end that sends.
pub(crate) const LINK_RINGS: [RingPlace; 2] = [
    RingPlace { sent: 0, taken: 128, start: WORDS, size: LINK_BYTES },
    RingPlace { sent: 256, taken: 384, start: WORDS + LINK_BYTES as usize, size: LINK_BYTES },
];
/// Words of a link, each of which is not 0 while that end sleeps until it gets a message.
pub(crate) const LINK_SLEEPS: [usize; 2] = [512, 640];
/// Bytes of the shared memory of a link.
pub(crate) const LINK_MEMORY: usize = WORDS + 2 * LINK_BYTES as usize;

/// Bytes of a packet in the ring.
fn room_of(payload: usize) -> u32 {
    // At most `MAX_PAYLOAD`, as every caller has checked.
    (HEAD + payload.next_multiple_of(HEAD)) as u32
}

/// The other side has written what a sound one never writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadRing;

/// The sending end.
#[derive(Debug)]
pub(crate) struct RingSender {
    place: RingPlace,
    /// Index behind the last packet written.
    written: u32,
    published: u32,
    /// The receiver's index, as it was last read.
    taken: u32,
}

impl RingSender {
    pub(crate) fn new(place: RingPlace) -> Self {
        Self { place, written: 0, published: 0, taken: 0 }
    }

    /// Whether `room` bytes fit in one piece, perhaps behind a pad; the pad.
    fn fits(&self, room: u32) -> Option<u32> {
        let offset = self.written & (self.place.size - 1);
        let to_end = self.place.size - offset;
        let pad = if room > to_end { to_end } else { 0 };
        // An index that the receiver cannot have reached counts as one of a full ring.
        let used = self.written.wrapping_sub(self.taken).min(self.place.size);
        (room + pad <= self.place.size - used).then_some(pad)
    }

    /// Whether a packet of any length fits.
    #[inline]
    pub(crate) fn has_room(&mut self, memory: &SharedMemory) -> bool {
        let most = room_of(MAX_PAYLOAD);
        if self.fits(most).is_none() {
            self.taken = memory.load(self.place.taken);
        }
        self.fits(most).is_some()
    }

    /// Writes a packet, for the receiver to see after [`publish`](Self::publish); false if there is no
    /// room.
    #[inline]
    pub(crate) fn push(&mut self, memory: &SharedMemory, head: &HeadBytes, payload: &[u8]) -> bool {
        let room = room_of(payload.len());
        if self.fits(room).is_none() {
            self.taken = memory.load(self.place.taken);
        }
        let Some(pad) = self.fits(room) else { return false };
        if pad > 0 {
            memory.write(self.offset(), &head::pad());
            self.written = self.written.wrapping_add(pad);
        }
        let offset = self.offset();
        memory.write(offset, head);
        memory.write(offset + HEAD, payload);
        self.written = self.written.wrapping_add(room);
        true
    }

    fn offset(&self) -> usize {
        self.place.start + (self.written & (self.place.size - 1)) as usize
    }

    /// Bytes that the receiver does not see yet.
    #[inline]
    pub(crate) fn unpublished(&self) -> u32 {
        self.written.wrapping_sub(self.published)
    }

    /// Shows the receiver what was written; true if there was something.
    #[inline]
    pub(crate) fn publish(&mut self, memory: &SharedMemory) -> bool {
        let new = self.published != self.written;
        if new {
            memory.store(self.place.sent, self.written);
            self.published = self.written;
        }
        new
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct RingReceiver {
    place: RingPlace,
    /// Index of the next packet.
    next: u32,
    released: u32,
    /// The sender's index, as it was last read.
    sent: u32,
    /// Nothing comes any more but what was there.
    ended: bool,
}

impl RingReceiver {
    pub(crate) fn new(place: RingPlace) -> Self {
        Self { place, next: 0, released: 0, sent: 0, ended: false }
    }

    /// The sender has gone: what it has sent is still received, and nothing that it writes from now on.
    pub(crate) fn end(&mut self, memory: &SharedMemory) {
        if !self.ended {
            self.sent = memory.load(self.place.sent);
            self.ended = true;
        }
    }

    /// True if nothing is there.
    #[inline]
    pub(crate) fn is_empty(&self, memory: &SharedMemory) -> bool {
        self.sent == self.next && (self.ended || memory.load(self.place.sent) == self.next)
    }

    /// The head of the next packet, whose payload [`take`](Self::take) copies.
    #[inline]
    pub(crate) fn next(&mut self, memory: &SharedMemory) -> Result<Option<HeadBytes>, BadRing> {
        // A pad, and what is behind it.
        for _ in 0..2 {
            if self.sent == self.next && !self.ended {
                self.sent = memory.load(self.place.sent);
            }
            let there = self.sent.wrapping_sub(self.next);
            if there == 0 {
                return Ok(None);
            }
            if there > self.place.size || !there.is_multiple_of(HEAD as u32) {
                return Err(BadRing);
            }
            let offset = self.next & (self.place.size - 1);
            let mut head = [0; HEAD];
            memory.read(self.place.start + offset as usize, &mut head);
            let to_end = self.place.size - offset;
            if !head::is_pad(&head) {
                let room = room_of(head::payload_len(&head).ok_or(BadRing)?);
                return if room <= there.min(to_end) { Ok(Some(head)) } else { Err(BadRing) };
            }
            if to_end > there {
                return Err(BadRing);
            }
            self.next = self.next.wrapping_add(to_end);
        }
        Err(BadRing)
    }

    /// Copies the payload of the packet whose head [`next`](Self::next) has returned, and passes on.
    ///
    /// # Panics
    ///
    /// When `payload` is not as long as that head says, which is a bug of the caller.
    #[inline]
    pub(crate) fn take(&mut self, memory: &SharedMemory, payload: &mut [u8]) {
        let offset = (self.next & (self.place.size - 1)) as usize + HEAD;
        assert!(offset + payload.len() <= self.place.size as usize, "not the length in the head");
        memory.read(self.place.start + offset, payload);
        self.next = self.next.wrapping_add(room_of(payload.len()));
    }

    /// Gives the room of what was taken back to the sender.
    #[inline]
    pub(crate) fn release(&mut self, memory: &SharedMemory) {
        if self.released != self.next {
            memory.store(self.place.taken, self.next);
            self.released = self.next;
        }
    }
}

#[cfg(test)]
mod tests;
