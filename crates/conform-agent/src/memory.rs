//! Memory that a NIC reads and writes at any time.

use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Memory of its own, on pages of its own. Nothing refers to its bytes: they are copied in and out.
pub(crate) struct Memory {
    start: *mut u8,
    layout: Layout,
}

/// Bytes of a page: no two regions share one.
const PAGE: usize = 4096;

impl Memory {
    /// `length` bytes of zeros, at least one.
    pub(crate) fn new(length: u32) -> Option<Memory> {
        let layout = Layout::from_size_align(length.max(1) as usize, PAGE).ok()?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        (!start.is_null()).then_some(Memory { start, layout })
    }

    /// Where it starts.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// `length` bytes from `offset` on lie inside.
    pub(crate) fn has(&self, offset: u32, length: usize) -> bool {
        (offset as usize).checked_add(length).is_some_and(|end| end <= self.layout.size())
    }

    /// Copies bytes in; `false` if they do not lie inside.
    pub(crate) fn write(&self, offset: u32, bytes: &[u8]) -> bool {
        if !self.has(offset, bytes.len()) {
            return false;
        }
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: inside, as was checked. A NIC may write the same byte; volatile, so that the compiler assumes
            // nothing about it.
            unsafe { self.start.add(offset as usize + at).write_volatile(*byte) };
        }
        true
    }

    /// Copies bytes out; `None` if they do not lie inside.
    pub(crate) fn read(&self, offset: u32, length: u32) -> Option<Vec<u8>> {
        if !self.has(offset, length as usize) {
            return None;
        }
        // SAFETY: inside, as was checked; volatile as above.
        let byte = |at| unsafe { self.start.add(offset as usize + at).read_volatile() };
        Some((0..length as usize).map(byte).collect())
    }
}

// SAFETY: its bytes are only reached by volatile and atomic accesses, and it is freed by its last owner.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not in use any more: its registration ended before.
        unsafe { dealloc(self.start, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_lie_inside_is_refused() {
        let memory = Memory::new(16).expect("16 bytes");
        assert!(memory.write(12, &[1, 2, 3, 4]) && !memory.write(13, &[1, 2, 3, 4]));
        assert_eq!(memory.read(11, 3), Some(vec![0, 1, 2]));
        assert_eq!((memory.read(16, 0), memory.read(16, 1)), (Some(vec![]), None));
        assert_eq!(memory.read(u32::MAX, u32::MAX), None);
    }
}
