//! The memory that packets lie in, and the ownership of its parts.
//!
//! ```text
//! | chunk | chunk | ...                  | slot: two chunks | slot | ... |
//!   receive: one by one to the kernel      transmit: one packet each
//!   and back                               (a frame may be longer than a chunk)
//! ```
//!
//! A [`Chunk`] and a [`Slot`] are ownership tokens: only their holder may touch the bytes. What the
//! kernel gives back is checked against what it was given.

use std::io;
use std::ops::Range;

use crate::sys::area::Area;
use crate::sys::ring::{CONTINUED, Desc};
use crate::sys::socket::{CHUNK, Socket};

/// Bytes of a transmit slot.
pub(crate) const SLOT: usize = 2 * CHUNK;

/// Received bytes in a chunk that is ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    index: usize,
    bytes: Range<usize>,
    /// The frame goes on in the next chunk.
    pub(crate) continued: bool,
}

/// A transmit slot that is ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    index: usize,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Umem {
    area: Area,
    /// For each receive chunk, whether the kernel holds it.
    lent: Box<[bool]>,
    /// For each transmit slot, how many of its chunks the kernel holds.
    in_flight: Box<[u8]>,
    /// Free slots; the last is the one used most recently, and still in the cache.
    free: Vec<usize>,
}

impl Umem {
    /// Memory for so many received chunks and packets to send.
    ///
    /// # Errors
    ///
    /// When the system has not as much.
    pub(crate) fn new(chunks: usize, slots: usize) -> io::Result<Self> {
        Ok(Self {
            area: Area::anonymous(chunks * CHUNK + slots * SLOT)?,
            lent: vec![false; chunks].into(),
            in_flight: vec![0; slots].into(),
            free: (0..slots).rev().collect(),
        })
    }

    /// Makes it the memory of a socket.
    ///
    /// # Errors
    ///
    /// What the kernel says; most often that the process may not lock as much memory.
    pub(crate) fn register(&self, socket: &Socket) -> io::Result<()> {
        // SAFETY: bytes are reached only through a `Chunk` or a `Slot`, which exist only for what
        // the kernel does not hold.
        unsafe { socket.register(&self.area) }
    }

    /// Where to send the next chunks for the kernel to receive into: all of them, once.
    pub(crate) fn lend_all(&mut self) -> impl Iterator<Item = u64> + use<> {
        assert!(self.lent.iter().all(|lent| !lent), "lent only once");
        self.lent.fill(true);
        (0..self.lent.len()).map(|index| (index * CHUNK) as u64)
    }

    /// The chunk that the kernel says it filled; `None` when that cannot be.
    #[inline]
    pub(crate) fn claim(&mut self, desc: Desc) -> Option<Chunk> {
        let start = usize::try_from(desc.addr).ok()?;
        let index = start / CHUNK;
        let end = start.checked_add(desc.len as usize)?;
        let lent = self.lent.get_mut(index)?;
        if !*lent || end > (index + 1) * CHUNK {
            return None;
        }
        *lent = false;
        Some(Chunk { index, bytes: start..end, continued: desc.options & CONTINUED != 0 })
    }

    /// The received bytes.
    #[inline]
    pub(crate) fn received(&self, chunk: &Chunk) -> &[u8] {
        // SAFETY: a `Chunk` exists only from `claim` to `lend`, and the kernel does not hold the
        // chunk between the two; nothing of ours writes to receive chunks.
        unsafe { self.area.bytes(chunk.bytes.start, chunk.bytes.len()) }
    }

    /// Takes the chunk back; returns its address, for the fill ring.
    #[inline]
    pub(crate) fn lend(&mut self, chunk: Chunk) -> u64 {
        self.lent[chunk.index] = true;
        (chunk.index * CHUNK) as u64
    }

    /// A slot to write a packet into; `None` when all are on their way.
    #[inline]
    pub(crate) fn slot(&mut self) -> Option<Slot> {
        self.free.pop().map(|index| Slot { index })
    }

    /// Whether [`slot`](Self::slot) has one.
    #[inline]
    pub(crate) fn has_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// The slot's bytes, all [`SLOT`] of them.
    #[inline]
    pub(crate) fn space(&mut self, slot: &Slot) -> &mut [u8] {
        let from = self.place(slot.index);
        // SAFETY: a `Slot` exists only while the kernel does not hold the slot, and `self` is
        // borrowed mutably.
        unsafe { self.area.bytes_mut(from, SLOT) }
    }

    /// Gives up a slot unsent.
    pub(crate) fn discard(&mut self, slot: Slot) {
        self.free.push(slot.index);
    }

    /// The descriptors for the frame that lies at `frame` in the slot, which is the kernel's from
    /// now on: one for each chunk that the frame touches.
    ///
    /// # Panics
    ///
    /// When the frame is empty or longer than the slot.
    #[inline]
    pub(crate) fn send(&mut self, slot: Slot, frame: Range<usize>) -> (Desc, Option<Desc>) {
        assert!(frame.start < frame.end && frame.end <= SLOT, "a frame outside of its slot");
        let base = self.place(slot.index);
        let part = |range: Range<usize>, options| Desc {
            addr: (base + range.start) as u64,
            len: range.len() as u32,
            options,
        };
        let whole = frame.end <= CHUNK || frame.start >= CHUNK;
        self.in_flight[slot.index] = if whole { 1 } else { 2 };
        if whole {
            return (part(frame, 0), None);
        }
        (part(frame.start..CHUNK, CONTINUED), Some(part(CHUNK..frame.end, 0)))
    }

    /// The kernel says it has done with the bytes at that address; false when that cannot be.
    #[inline]
    pub(crate) fn completed(&mut self, addr: u64) -> bool {
        let from = usize::try_from(addr).ok().and_then(|addr| addr.checked_sub(self.place(0)));
        let Some(index) = from.map(|from| from / SLOT) else {
            return false;
        };
        match self.in_flight.get_mut(index) {
            None | Some(0) => return false,
            Some(chunks) => *chunks -= 1,
        }
        if self.in_flight[index] == 0 {
            self.free.push(index);
        }
        true
    }

    /// First byte of a slot.
    #[inline]
    fn place(&self, slot: usize) -> usize {
        self.lent.len() * CHUNK + slot * SLOT
    }
}

#[cfg(test)]
mod ownership;
#[cfg(test)]
mod tests {
    use super::*;

    fn desc(addr: u64, len: u32) -> Desc {
        Desc { addr, len, options: 0 }
    }

    #[test]
    fn only_what_was_lent_can_come_back_and_only_once() {
        let mut umem = Umem::new(4, 1).expect("memory");
        assert_eq!(umem.claim(desc(0, 10)), None, "not lent yet");
        let all: Vec<u64> = umem.lend_all().collect();
        assert_eq!(all, [0, 4096, 8192, 12288]);
        let chunk = umem.claim(desc(4096 + 256, 100)).expect("lent");
        assert_eq!(umem.received(&chunk), [0; 100]);
        assert_eq!(umem.claim(desc(4096 + 256, 100)), None, "handed out twice");
        assert_eq!(umem.lend(chunk), 4096);
        assert!(umem.claim(desc(4096, 4096)).is_some());
    }

    #[test]
    fn a_descriptor_outside_of_its_chunk_is_refused() {
        let mut umem = Umem::new(2, 1).expect("memory");
        drop(umem.lend_all());
        for bad in [
            desc(0, 4097),
            desc(4095, 2),
            desc(8192, 1),
            desc(8192 + SLOT as u64, 0),
            desc(u64::MAX, 1),
            desc(u64::MAX - 4095, u32::MAX),
        ] {
            assert_eq!(umem.claim(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_long_frame_is_two_descriptors_and_comes_back_after_both() {
        let mut umem = Umem::new(1, 2).expect("memory");
        let slot = umem.slot().expect("free");
        let (first, second) = umem.send(slot, 100..4200);
        assert_eq!(first, Desc { addr: 4196, len: 3996, options: CONTINUED });
        assert_eq!(second, Some(desc(8192, 104)));
        let other = umem.slot().expect("free");
        assert!(umem.slot().is_none());
        assert!(umem.completed(first.addr) && umem.slot().is_none());
        assert!(umem.completed(8192) && !umem.completed(8192));
        assert!(umem.slot().is_some());
        umem.discard(other);
        assert!(umem.slot().is_some());
    }

    #[test]
    fn frames_up_to_the_edge_are_one_descriptor() {
        let mut umem = Umem::new(1, 1).expect("memory");
        for (frame, one) in [(100..4096, true), (100..4097, false), (4096..4200, true)] {
            let slot = umem.slot().expect("free");
            let (first, second) = umem.send(slot, frame.clone());
            assert_eq!(second.is_none(), one, "{frame:?}");
            assert!(umem.completed(first.addr) && second.is_none_or(|d| umem.completed(d.addr)));
        }
    }

    #[test]
    fn completions_that_cannot_be_are_ignored() {
        let mut umem = Umem::new(2, 1).expect("memory");
        for addr in [0, 4096, 8192, 8192 + SLOT as u64, u64::MAX] {
            assert!(!umem.completed(addr), "{addr}");
        }
        let slot = umem.slot().expect("free");
        umem.space(&slot).fill(1);
        assert!(umem.slot().is_none());
    }
}
