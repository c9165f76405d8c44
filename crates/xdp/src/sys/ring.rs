//! One ring that the kernel and the program share: indices that count up for ever, and entries.
//!
//! Each side writes one index. What the other side wrote is checked against the size of the ring
//! before it is used: a ring never offers more entries than it has, whatever stands in memory.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::area::Area;

/// What a ring may hold: integers without padding, for which all bits are a value.
pub(crate) trait Entry: Copy {}

/// A place in the UMEM, in bytes from its start: fill and completion rings.
impl Entry for u64 {}

/// `struct xdp_desc`: receive and transmit rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Desc {
    /// Where the bytes begin in the UMEM.
    pub(crate) addr: u64,
    /// How many there are.
    pub(crate) len: u32,
    /// [`CONTINUED`] or 0.
    pub(crate) options: u32,
}

/// Option of a [`Desc`]: the frame goes on in the next one.
pub(crate) const CONTINUED: u32 = 1;

impl Entry for Desc {}

/// Where the parts of a ring lie in its mapping, as the kernel says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets {
    pub(crate) producer: u64,
    pub(crate) consumer: u64,
    pub(crate) flags: u64,
    pub(crate) entries: u64,
}

/// The shared memory of one ring.
#[derive(Debug)]
struct Shared<T> {
    area: Area,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    size: u32,
    entry: PhantomData<T>,
}

impl<T: Entry> Shared<T> {
    /// Maps the ring of `size` entries at `page` of the socket.
    fn map(fd: BorrowedFd<'_>, page: u64, offsets: Offsets, size: u32) -> io::Result<Self> {
        let bytes = size as usize * size_of::<T>();
        let entries = usize::try_from(offsets.entries).unwrap_or(usize::MAX);
        let len = entries.checked_add(bytes).filter(|&len| len < MAX_MAPPING).ok_or_else(odd)?;
        Self::lay(Area::of(fd, page, len)?, offsets, size)
    }

    /// Checks that everything has its place in `area`.
    fn lay(area: Area, offsets: Offsets, size: u32) -> io::Result<Self> {
        let place = |offset: u64, bytes: usize, align: usize| {
            let offset = usize::try_from(offset).ok()?;
            let end = offset.checked_add(bytes)?;
            (offset.is_multiple_of(align) && end <= area.len()).then_some(offset)
        };
        let index = |offset| place(offset, 4, 4).ok_or_else(odd);
        let bytes = (size as usize).checked_mul(size_of::<T>()).ok_or_else(odd)?;
        let entries = place(offsets.entries, bytes, align_of::<T>()).ok_or_else(odd)?;
        if !size.is_power_of_two() {
            return Err(odd());
        }
        let (producer, consumer) = (index(offsets.producer)?, index(offsets.consumer)?);
        let flags = index(offsets.flags)?;
        Ok(Self { producer, consumer, flags, entries, size, entry: PhantomData, area })
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `lay` checked that four aligned bytes are there; the mapping lives as long as
        // `self`, and both sides use them as an atomic word only.
        unsafe { AtomicU32::from_ptr(self.area.start().as_ptr().add(offset).cast()) }
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        self.word(self.producer)
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        self.word(self.consumer)
    }

    /// The slot of the entry with that index, always inside the ring.
    #[inline]
    fn slot(&self, index: u32) -> NonNull<T> {
        let place = self.entries + (index & (self.size - 1)) as usize * size_of::<T>();
        // SAFETY: `lay` checked that `size` aligned entries are there, and the index is masked.
        unsafe { self.area.start().add(place).cast() }
    }

    /// True when the kernel waits to be called.
    #[inline]
    fn needs_wakeup(&self) -> bool {
        // The kernel raises the flag and then looks at the ring; we wrote the ring and then look
        // at the flag. The fence keeps this order, so one of the two sees the other.
        fence(Ordering::SeqCst);
        self.word(self.flags).load(Ordering::Relaxed) & 1 != 0
    }
}

/// Largest mapping of a ring that is believed.
const MAX_MAPPING: usize = 1 << 30;

fn odd() -> io::Error {
    io::Error::other("the kernel described a ring that cannot be")
}

/// A ring that we fill: fill and transmit.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Shared<T>,
    /// Index behind the last entry written.
    written: u32,
    /// Index behind the last entry that the kernel may see.
    published: u32,
}

impl<T: Entry> Producer<T> {
    /// Maps the ring; see [`Offsets`].
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        page: u64,
        offsets: Offsets,
        size: u32,
    ) -> io::Result<Self> {
        Ok(Self::over(Shared::map(fd, page, offsets, size)?))
    }

    fn over(ring: Shared<T>) -> Self {
        let start = ring.producer().load(Ordering::Relaxed);
        Self { ring, written: start, published: start }
    }

    /// Entries that the kernel has not taken yet, unpublished ones included; never more than the
    /// ring has.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        let taken = self.ring.consumer().load(Ordering::Acquire);
        self.written.wrapping_sub(taken).min(self.ring.size)
    }

    /// Entries that can be written.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        self.ring.size - self.waiting()
    }

    /// Writes an entry, for the kernel to see after [`publish`](Self::publish); false when the
    /// ring is full.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if self.room() == 0 {
            return false;
        }
        // SAFETY: the slot is inside the ring, and the kernel reads it only after `publish`: at
        // least one entry is free, and the one behind the last written is the first of them.
        unsafe { self.ring.slot(self.written).write_volatile(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    /// Shows the kernel everything that was written.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.published != self.written {
            self.ring.producer().store(self.written, Ordering::Release);
            self.published = self.written;
        }
    }

    /// True when the kernel waits to be called before it looks at the ring.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring that we empty: receive and completion.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Shared<T>,
    /// Index of the next entry.
    next: u32,
    /// Entries from `next` on that are known to be there.
    known: u32,
}

impl<T: Entry> Consumer<T> {
    /// Maps the ring; see [`Offsets`].
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        page: u64,
        offsets: Offsets,
        size: u32,
    ) -> io::Result<Self> {
        Ok(Self::over(Shared::map(fd, page, offsets, size)?))
    }

    fn over(ring: Shared<T>) -> Self {
        let next = ring.consumer().load(Ordering::Relaxed);
        Self { ring, next, known: 0 }
    }

    /// Whether an entry is there. A count that the ring cannot hold is taken for none.
    #[inline]
    pub(crate) fn has_entry(&mut self) -> bool {
        if self.known == 0 {
            let made = self.ring.producer().load(Ordering::Acquire);
            let count = made.wrapping_sub(self.next);
            self.known = if count <= self.ring.size { count } else { 0 };
        }
        self.known != 0
    }

    /// The next entry, if there is one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if !self.has_entry() {
            return None;
        }
        // SAFETY: the slot is inside the ring, and the kernel does not write to it between its
        // producer index and our `release`; whatever stands there is a value of `T`.
        let entry = unsafe { self.ring.slot(self.next).read_volatile() };
        self.next = self.next.wrapping_add(1);
        self.known -= 1;
        Some(entry)
    }

    /// Gives the entries that were taken back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
const PLACES: Offsets = Offsets { producer: 0, consumer: 64, flags: 128, entries: 192 };

#[cfg(test)]
fn shared<T: Entry>(size: u32) -> Shared<T> {
    Shared::lay(Area::anonymous(1 << 16).expect("memory"), PLACES, size).expect("ring")
}

/// A ring without a kernel, whose part the test plays.
#[cfg(test)]
impl<T: Entry> Producer<T> {
    pub(crate) fn alone(size: u32) -> Self {
        Self::over(shared(size))
    }

    pub(crate) fn kernel_reads(&self, index: u32) -> T {
        assert_ne!(self.ring.producer().load(Ordering::Acquire), index, "nothing is there");
        // SAFETY: inside the ring, and published.
        unsafe { self.ring.slot(index).read_volatile() }
    }

    pub(crate) fn kernel_took(&self, index: u32) {
        self.ring.consumer().store(index, Ordering::Release);
    }
}

/// A ring without a kernel, whose part the test plays.
#[cfg(test)]
impl<T: Entry> Consumer<T> {
    pub(crate) fn alone(size: u32) -> Self {
        Self::over(shared(size))
    }

    pub(crate) fn kernel_writes(&self, index: u32, entry: T) {
        // SAFETY: inside the ring, and not yet shown to the program.
        unsafe { self.ring.slot(index).write_volatile(entry) };
        self.ring.producer().store(index.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_takes_nothing_until_the_kernel_took_something() {
        for start in [0, 7, u32::MAX - 3] {
            let ring = shared::<u64>(8);
            ring.producer().store(start, Ordering::Relaxed);
            ring.consumer().store(start, Ordering::Relaxed);
            let mut fill = Producer::over(ring);
            assert!((0..8).all(|n| fill.push(n)) && !fill.push(8), "{start}");
            assert_eq!(fill.ring.producer().load(Ordering::Relaxed), start, "not published yet");
            fill.publish();
            assert_eq!(fill.ring.producer().load(Ordering::Relaxed), start.wrapping_add(8));
            fill.kernel_took(start.wrapping_add(3));
            assert_eq!((fill.room(), fill.waiting()), (3, 5), "{start}");
            assert!((8..11).all(|n| fill.push(n)) && !fill.push(11), "{start}");
        }
    }

    #[test]
    fn entries_come_out_in_order_and_once() {
        for start in [0, u32::MAX - 3] {
            let ring = shared::<u64>(8);
            ring.consumer().store(start, Ordering::Relaxed);
            let mut done = Consumer::over(ring);
            for n in 0..6u32 {
                done.kernel_writes(start.wrapping_add(n), u64::from(n));
            }
            let got: Vec<u64> = std::iter::from_fn(|| done.pop()).collect();
            assert_eq!(got, [0, 1, 2, 3, 4, 5]);
            done.release();
            assert_eq!(done.ring.consumer().load(Ordering::Relaxed), start.wrapping_add(6));
        }
    }

    #[test]
    fn an_index_that_cannot_be_is_not_believed() {
        for index in [9, 1000, u32::MAX, (1 << 31) + 1] {
            let ring = shared::<u64>(8);
            ring.producer().store(index, Ordering::Relaxed);
            let mut done = Consumer::over(ring);
            assert_eq!((done.has_entry(), done.pop()), (false, None), "{index}");

            let mut fill = Producer::over(shared::<u64>(8));
            // Ahead of what we ever wrote.
            fill.ring.consumer().store(index & (u32::MAX >> 1), Ordering::Relaxed);
            assert_eq!((fill.waiting(), fill.push(1)), (8, false), "{index}");
        }
    }

    #[test]
    fn the_flag_is_the_kernels_call_for_help() {
        let fill = Producer::over(shared::<u64>(8));
        assert!(!fill.needs_wakeup());
        fill.ring.word(PLACES.flags as usize).store(1, Ordering::Relaxed);
        assert!(fill.needs_wakeup());
    }

    #[test]
    fn a_ring_outside_of_its_mapping_is_refused() {
        for offsets in [
            Offsets { producer: 4094, ..PLACES },
            Offsets { producer: 2, ..PLACES },
            Offsets { consumer: u64::MAX, ..PLACES },
            Offsets { flags: 4096, ..PLACES },
            Offsets { entries: 4096 - 7 * 16, ..PLACES },
            Offsets { entries: u64::MAX - 8, ..PLACES },
        ] {
            let area = Area::anonymous(4096).expect("memory");
            assert!(Shared::<Desc>::lay(area, offsets, 8).is_err(), "{offsets:?}");
        }
        let area = Area::anonymous(4096).expect("memory");
        assert!(Shared::<Desc>::lay(area, PLACES, 7).is_err());
    }
}
