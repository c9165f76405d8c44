//! Memory that the kernel writes received messages into: buffers, and the ring of those that it may
//! use.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

/// The kernel wants the ring at the start of a page.
const PAGE: usize = 4096;

/// Buffers of one size and their ring, in one piece of memory: first the ring, then the buffers.
#[derive(Debug)]
pub(super) struct Pool {
    memory: NonNull<u8>,
    layout: Layout,
    count: u16,
    size: usize,
    tail: u16,
}

// SAFETY: the memory belongs to the pool alone, which hands out references only for as long as it is
// borrowed.
unsafe impl Send for Pool {}

impl Pool {
    /// `count` buffers, a power of two, of `size` bytes, a multiple of 64; all of them in the ring.
    pub(super) fn new(count: u16, size: usize) -> Self {
        assert!(count.is_power_of_two() && size.is_multiple_of(64));
        let bytes = Self::ring_bytes(count) + usize::from(count) * size;
        let layout = Layout::from_size_align(bytes, PAGE).expect("a few MiB, aligned to a page");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        for page in (0..bytes).step_by(PAGE) {
            // SAFETY: within the allocation. The write makes the page exist: a fault costs more
            // than a packet.
            unsafe { memory.add(page).write_volatile(0) };
        }
        let mut pool = Self { memory, layout, count, size, tail: 0 };
        (0..count).for_each(|index| pool.give(index));
        pool
    }

    fn ring_bytes(count: u16) -> usize {
        (usize::from(count) * size_of::<BufRingEntry>()).next_multiple_of(PAGE)
    }

    /// Where the ring is.
    pub(super) fn ring(&self) -> *mut BufRingEntry {
        self.memory.as_ptr().cast()
    }

    /// How many buffers there are.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    fn buffer(&self, index: u16) -> NonNull<u8> {
        assert!(index < self.count, "the kernel returns only buffers that it was given");
        let start = Self::ring_bytes(self.count) + usize::from(index) * self.size;
        // SAFETY: within the allocation, as `index` is one of its buffers.
        unsafe { self.memory.add(start) }
    }

    /// Lets the kernel use a buffer, which it did not have.
    pub(super) fn give(&mut self, index: u16) {
        let address = self.buffer(index).as_ptr() as u64;
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: the place is within the ring, which starts the allocation and has `count` entries.
        // The kernel reads entries only below the tail, which this one is not yet.
        let entry = unsafe { &mut *self.ring().add(place) };
        entry.set_addr(address);
        entry.set_len(self.size as u32);
        entry.set_bid(index);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the ring's base is valid and its entries are initialized (zero is a value); the
        // tail is a field of the first, aligned to 2, which no reference covers now.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.ring()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// The first `length` bytes of a buffer.
    ///
    /// # Safety
    ///
    /// The kernel has returned the buffer, and it was not [given](Self::give) back since.
    pub(super) unsafe fn bytes(&self, index: u16, length: usize) -> &[u8] {
        let start = self.buffer(index).as_ptr();
        // SAFETY: within the allocation and initialized; as the caller says, the kernel does not
        // write to it, and `give` needs the pool mutably.
        unsafe { std::slice::from_raw_parts(start, length.min(self.size)) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the pool is dropped only when the kernel has ceased
        // to use it.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_do_not_overlap_and_are_aligned() {
        let pool = Pool::new(8, 192);
        let starts: Vec<usize> = (0..8).map(|index| pool.buffer(index).as_ptr() as usize).collect();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 192));
        assert!(starts[0] - pool.ring() as usize >= 8 * size_of::<BufRingEntry>());
        assert!(starts.iter().all(|start| start % 64 == 0));
    }

    #[test]
    #[should_panic(expected = "only buffers that it was given")]
    fn a_buffer_that_does_not_exist_is_refused() {
        Pool::new(8, 64).give(8);
    }
}
