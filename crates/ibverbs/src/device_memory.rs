//! Memory that this library provides: what a program uses as the memory on board of a NIC, buffers that it asks for, and
//! what is mapped of a DMA-buf.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use libc::{MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, c_int};

use crate::errno::{Errno, INVALID};
use crate::object::zeroed;

/// Most bytes of one allocation of device memory.
pub(crate) const MAX_DM_SIZE: usize = 1 << 20;
/// Copies are in words of so many bytes, as programs know it from hardware.
const WORD: u64 = 4;
/// `f_type` of the file system that DMA-bufs are in.
const DMA_BUF_MAGIC: i64 = 0x444d_4142;
/// `f_type` of a file of huge pages, whose size is `f_bsize`.
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// Bytes that peers may change at any time: whole pages, mapped.
#[derive(Debug)]
pub(crate) struct Memory {
    start: *mut u8,
    length: usize,
    handle: u32,
    /// What it is mapped from, if other processes and devices may have it too.
    file: Option<File>,
}

/// All pieces of device memory that there are, to be found by their handles.
static KNOWN: Mutex<Vec<Weak<Memory>>> = Mutex::new(Vec::new());
/// The last handle that was given out.
static LAST: AtomicU32 = AtomicU32::new(0);

// SAFETY: memory of the process, reached by raw pointers only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Device memory: it can be exported, and imported by its handle.
    pub(crate) fn of_device(length: usize) -> Result<Arc<Memory>, Errno> {
        if length == 0 || length > MAX_DM_SIZE {
            return Err(INVALID);
        }
        let file = sealed_file(length)?;
        let start = map(length, MAP_SHARED, file.as_raw_fd(), 0)?;
        let memory = Arc::new(Memory::new(start, length, Some(file)));
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|other| other.strong_count() > 0);
        known.push(Arc::downgrade(&memory));
        Ok(memory)
    }

    /// Ordinary memory of this process.
    pub(crate) fn anonymous(length: usize) -> Result<Arc<Memory>, Errno> {
        if length == 0 {
            return Err(INVALID);
        }
        let start = map(length, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)?;
        Ok(Arc::new(Memory::new(start, length, None)))
    }

    /// `length` bytes of a DMA-buf from `offset` on, and where they begin in the mapping. EINVAL: it is another file, one that
    /// may become shorter while it is mapped, or has fewer bytes.
    pub(crate) fn of_file(
        descriptor: RawFd,
        offset: u64,
        length: usize,
    ) -> Result<(Arc<Memory>, u64), Errno> {
        let page = check_file(descriptor, offset, length)?;
        let before = offset % page as u64;
        let whole = length.checked_add(before as usize).ok_or(INVALID)?;
        // Huge pages are unmapped as wholes only.
        let whole = whole.checked_next_multiple_of(page).ok_or(INVALID)?;
        let start = map(whole, MAP_SHARED, descriptor, offset - before)?;
        Ok((Arc::new(Memory::new(start, whole, None)), before))
    }

    fn new(start: *mut u8, length: usize, file: Option<File>) -> Memory {
        let handle = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Memory { start, length, handle, file }
    }

    /// The piece of device memory with this handle.
    pub(crate) fn with_handle(handle: u32) -> Option<Arc<Memory>> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(Weak::upgrade).find(|memory| memory.handle == handle)
    }

    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// A descriptor of its own for the file that it is mapped from.
    pub(crate) fn export(&self) -> Result<OwnedFd, Errno> {
        let file = self.file.as_ref().ok_or(Errno(libc::ENODATA))?;
        Ok(file.try_clone()?.into())
    }

    /// The address of `length` bytes from `offset` on.
    pub(crate) fn at(&self, offset: u64, length: usize) -> Result<*mut u8, Errno> {
        let offset = usize::try_from(offset).map_err(|_| INVALID)?;
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(self.start.wrapping_add(offset)),
            _ => Err(INVALID),
        }
    }

    /// The same for a copy.
    pub(crate) fn words_at(&self, offset: u64, length: usize) -> Result<*mut u8, Errno> {
        if !offset.is_multiple_of(WORD) || !(length as u64).is_multiple_of(WORD) {
            return Err(INVALID);
        }
        self.at(offset, length)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, unmapped once; all holders are gone.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

fn page_size() -> usize {
    // SAFETY: a number in, a number out.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A file in memory that nobody can make shorter: who touched a page that is gone would be ended by a signal.
fn sealed_file(length: usize) -> Result<File, Errno> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a string that ends with 0.
    let descriptor = unsafe { libc::memfd_create(c"uroce-dm".as_ptr(), flags) };
    if descriptor < 0 {
        return Err(Errno::last());
    }
    // SAFETY: just made.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(length as u64)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: numbers.
    if unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, seals) } != 0 {
        return Err(Errno::last());
    }
    Ok(file)
}

fn map(length: usize, flags: c_int, file: RawFd, offset: u64) -> Result<*mut u8, Errno> {
    let (protection, offset) = (libc::PROT_READ | libc::PROT_WRITE, offset as libc::off_t);
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let start = unsafe { libc::mmap(null_mut(), length, protection, flags, file, offset) };
    if start == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(start.cast()) }
}

/// A DMA-buf, which never changes its size, or a file that is sealed against becoming shorter, as those that
/// [`Memory::export`] gives. Returns the bytes of its pages, which may be huge ones.
fn check_file(descriptor: RawFd, offset: u64, length: usize) -> Result<usize, Errno> {
    if descriptor < 0 {
        return Err(Errno(libc::EBADF));
    }
    let end = offset.checked_add(length as u64).filter(|_| length > 0).ok_or(INVALID)?;
    // SAFETY: numbers and room for what the kernel writes; all of it may be zero.
    let (system, status, seals) = unsafe {
        let (mut system, mut status) = (zeroed::<libc::statfs>(), zeroed::<libc::stat>());
        if libc::fstatfs(descriptor, &raw mut system) != 0
            || libc::fstat(descriptor, &raw mut status) != 0
        {
            return Err(Errno::last());
        }
        (system, status, libc::fcntl(descriptor, libc::F_GET_SEALS))
    };
    let size = if system.f_type == DMA_BUF_MAGIC {
        // SAFETY: numbers. A DMA-buf has no position that this could change.
        unsafe { libc::lseek(descriptor, 0, libc::SEEK_END) }
    } else if seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 {
        status.st_size
    } else {
        return Err(INVALID);
    };
    if !u64::try_from(size).is_ok_and(|size| end <= size) {
        return Err(INVALID);
    }
    let huge = usize::try_from(system.f_bsize).ok().filter(|_| system.f_type == HUGETLBFS_MAGIC);
    Ok(huge.filter(|page| *page > 0).unwrap_or_else(page_size))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn exported_memory_is_the_same_memory() {
        let memory = Memory::of_device(8192).expect("memory");
        let exported = memory.export().expect("a descriptor");
        let (again, at) = Memory::of_file(exported.as_raw_fd(), 5000, 100).expect("mapped");
        assert_eq!(at, 5000 - 4096);
        // SAFETY: within both mappings.
        unsafe {
            memory.start().add(5003).write(7);
            assert_eq!(again.start().add(at as usize + 3).read(), 7);
        }
        let shorter = File::from(exported).set_len(1);
        assert!(shorter.is_err(), "nobody takes pages away that are registered");
    }

    /// Bytes of the mapping of this file, if there is one.
    fn mapped(name: &str) -> Option<u64> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("every process has it");
        let line = maps.lines().find(|line| line.contains(name))?;
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        Some(number(end) - number(start))
    }

    #[test]
    fn odd_parts_of_files_of_any_pages_are_mapped_and_unmapped_as_whole_pages() {
        const HUGE: u64 = 2 << 20;
        for (name, flags, page) in [
            (c"uroce-test-small", libc::MFD_ALLOW_SEALING, page_size() as u64),
            (c"uroce-test-huge", libc::MFD_ALLOW_SEALING | libc::MFD_HUGETLB | 21 << 26, HUGE),
        ] {
            // SAFETY: a string that ends with 0; a descriptor that was just made.
            let file = unsafe {
                let descriptor = libc::memfd_create(name.as_ptr(), flags);
                assert!(descriptor >= 0, "{name:?}");
                File::from_raw_fd(descriptor)
            };
            file.set_len(page).expect("a size");
            // SAFETY: numbers.
            let sealed =
                unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
            assert_eq!(sealed, 0);
            let name = name.to_str().expect("letters");
            match Memory::of_file(file.as_raw_fd(), page - 100, 99) {
                Ok((memory, at)) => {
                    assert_eq!((at, mapped(name)), (page - 100, Some(page)));
                    drop(memory);
                }
                // A machine may have no huge pages.
                Err(errno) => assert_eq!((errno, page), (Errno(libc::ENOMEM), HUGE)),
            }
            assert_eq!(mapped(name), None);
        }
    }

    #[test]
    fn files_that_may_become_shorter_and_ranges_beyond_the_end_are_refused() {
        let memory = Memory::of_device(4096).expect("memory");
        let exported = memory.export().expect("a descriptor");
        let refused = |fd: RawFd, offset, length| Memory::of_file(fd, offset, length).err();
        let fd = exported.as_fd().as_raw_fd();
        for (offset, length) in [(0, 4097), (4096, 1), (u64::MAX, 1), (0, 0), (1, usize::MAX)] {
            assert_eq!(refused(fd, offset, length), Some(INVALID), "{offset} {length}");
        }
        let file = File::open("/proc/self/exe").expect("every system has it");
        assert_eq!(refused(file.as_raw_fd(), 0, 1), Some(INVALID));
        assert_eq!(refused(-1, 0, 1), Some(Errno(libc::EBADF)));
        assert_eq!(
            Memory::anonymous(4096).expect("memory").export().err(),
            Some(Errno(libc::ENODATA))
        );
    }
}
