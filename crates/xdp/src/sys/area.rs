//! Memory shared with the kernel: the UMEM and the mappings of the rings.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use uroce_host::fork;

/// A mapping, unmapped on drop. It never hands out references by itself.
///
/// A child process does not get it: a mapping of a ring keeps the socket open, and with it the queue of the interface.
#[derive(Debug)]
pub(crate) struct Area {
    start: NonNull<u8>,
    len: usize,
    /// The process that has it ([`fork::generation`]).
    generation: u32,
}

// SAFETY: the mapping belongs to the process, not to a thread; in this process it is reached
// through the `Area` only.
unsafe impl Send for Area {}

impl Area {
    /// `len` bytes of zeros, with every page present.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        Self::new(start.cast(), len)
    }

    /// `len` bytes of what `fd` has at `offset`, shared with the kernel.
    pub(crate) fn of(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let (access, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: as above; the new mapping overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, flags, fd, offset)? };
        Self::new(start.cast(), len)
    }

    fn new(start: *mut u8, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        let area = Self { start, len, generation: fork::generation() };
        // SAFETY: our own mapping, which stays as it is in this process.
        unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontFork)? };
        Ok(area)
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes `from..from + len`.
    ///
    /// # Panics
    ///
    /// When they are not all inside, which is a bug of the caller: what the kernel says must be
    /// checked before.
    ///
    /// # Safety
    ///
    /// Until the slice is gone, neither the kernel nor another slice may write to these bytes.
    pub(crate) unsafe fn bytes(&self, from: usize, len: usize) -> &[u8] {
        self.assert_inside(from, len);
        // SAFETY: inside the mapping, which lives as long as `self`; the caller has made sure that
        // there is no writer.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(from), len) }
    }

    /// The bytes `from..from + len`, for writing.
    ///
    /// # Panics
    ///
    /// As [`bytes`](Self::bytes).
    ///
    /// # Safety
    ///
    /// Until the slice is gone, neither the kernel nor another slice may touch these bytes.
    pub(crate) unsafe fn bytes_mut(&mut self, from: usize, len: usize) -> &mut [u8] {
        self.assert_inside(from, len);
        // SAFETY: inside the mapping, which lives as long as `self`; the caller has made sure that
        // there is no other access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(from), len) }
    }

    fn assert_inside(&self, from: usize, len: usize) {
        let end = from.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "outside of the mapping");
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // In a child nothing of it is there, and the place may be somebody else's.
            return;
        }
        // SAFETY: `start` and `len` are those of our own mapping, and no slice of it is left.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap of our own mapping");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut area = Area::anonymous(8192).expect("memory");
        // SAFETY: the only slice, of memory that no kernel writes to.
        unsafe { area.bytes_mut(4000, 200) }.fill(7);
        // SAFETY: as above.
        assert_eq!(unsafe { area.bytes(3999, 3) }, [0, 7, 7]);
    }

    #[test]
    #[should_panic(expected = "outside of the mapping")]
    fn nothing_behind_the_end_is_reached() {
        let area = Area::anonymous(4096).expect("memory");
        // SAFETY: the call panics before it makes a slice.
        let _ = unsafe { area.bytes(4000, 97) };
    }
}
