//! Memory that the service and one client share, or two clients.
//!
//! The other process may write to any byte at any time. So nothing here is ever referenced: words are
//! atomics, and bytes are copied in and out, within bounds.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Seals that keep the other process from changing the length: reading behind the end of a file that
/// became shorter is a SIGBUS.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A shared mapping, unmapped on drop.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; it is reached through atomics and copies
// only.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// New memory of `len` bytes, and the descriptor by which another process maps it.
    pub(crate) fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let file = Self::file(len)?;
        Ok((Self::map(file.as_fd(), len)?, file))
    }

    /// New memory of `len` bytes, for other processes to map.
    pub(crate) fn file(len: usize) -> io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("uroce-rings", flags)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok(file)
    }

    /// Maps memory that another process has made. It is refused unless it has `len` bytes for ever.
    pub(crate) fn open(file: &OwnedFd, len: usize) -> io::Result<Self> {
        let size = usize::try_from(fstat(file)?.st_size).ok();
        if size != Some(len) || !fcntl_get_seals(file)?.contains(SEALS) {
            return Err(io::Error::other("the shared memory of the service has a wrong size"));
        }
        Self::map(file.as_fd(), len)
    }

    fn map(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// The word at `offset`.
    ///
    /// # Panics
    ///
    /// When it is not aligned, or outside, which is a bug of the caller: offsets are constants.
    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len, "outside of the memory");
        // SAFETY: four aligned bytes inside the mapping, which lives as long as `self`; both processes use
        // them as an atomic word, and whatever the other one writes is a value of it.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Reads a word; what the other process wrote before it is seen.
    #[inline]
    pub(crate) fn load(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Writes a word; whoever reads it sees what was written before.
    #[inline]
    pub(crate) fn store(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Exchanges a word.
    #[inline]
    pub(crate) fn swap(&self, offset: usize, value: u32) -> u32 {
        self.word(offset).swap(value, Ordering::AcqRel)
    }

    /// Copies bytes out. While the other process writes to them they may be any mixture.
    ///
    /// # Panics
    ///
    /// When they are not all inside, which is a bug of the caller.
    #[inline]
    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) {
        self.assert_inside(offset, to.len());
        // SAFETY: inside the mapping, and `to` is memory of this process alone, so they do not overlap. A
        // concurrent write by the other process can only change the values of the bytes, which are checked
        // after the copy.
        unsafe {
            let from = self.start.as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
        }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    ///
    /// When they are not all inside, which is a bug of the caller.
    #[inline]
    pub(crate) fn write(&self, offset: usize, from: &[u8]) {
        self.assert_inside(offset, from.len());
        // SAFETY: inside the mapping, of which no reference to bytes exists, and `from` is memory of this
        // process alone.
        unsafe {
            let to = self.start.as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
    }

    #[inline]
    fn assert_inside(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "outside of the memory");
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: our own mapping; what was lent of it has ended with `self`.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap of our own mapping");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_see_the_same_bytes_and_neither_can_shorten_them() {
        let (ours, file) = SharedMemory::create(8192).expect("memory");
        let theirs = SharedMemory::open(&file, 8192).expect("the same");
        ours.write(5000, b"packet");
        ours.store(64, 7);
        let mut bytes = [0; 6];
        theirs.read(5000, &mut bytes);
        assert_eq!(
            (&bytes, theirs.load(64), theirs.swap(64, 9), ours.load(64)),
            (b"packet", 7, 7, 9)
        );
        assert!(ftruncate(&file, 100).is_err() && ftruncate(&file, 1 << 20).is_err());
    }

    #[test]
    fn memory_that_could_become_shorter_is_refused() {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).expect("a file");
        ftruncate(&file, 8192).expect("longer");
        assert!(SharedMemory::open(&file, 8192).is_err(), "not sealed");
        let (_, sealed) = SharedMemory::create(4096).expect("memory");
        assert!(SharedMemory::open(&sealed, 8192).is_err(), "too short");
    }

    #[test]
    #[should_panic(expected = "outside of the memory")]
    fn nothing_behind_the_end_is_read() {
        let (memory, _) = SharedMemory::create(4096).expect("memory");
        memory.read(4090, &mut [0; 7]);
    }
}
