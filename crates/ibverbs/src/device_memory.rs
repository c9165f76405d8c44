//! Pieces of memory that a program can use as the memory on board of a NIC.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::errno::{Errno, INVALID};

/// Most bytes of one allocation.
pub(crate) const MAX_DM_SIZE: usize = 1 << 20;
/// Copies are in words of so many bytes, as programs know it from hardware.
const WORD: u64 = 4;

/// Bytes that peers may change at any time.
#[derive(Debug)]
pub(crate) struct Memory {
    start: *mut u8,
    layout: Layout,
    handle: u32,
}

/// All pieces that there are, to be found by their handles.
static KNOWN: Mutex<Vec<Weak<Memory>>> = Mutex::new(Vec::new());
/// The last handle that was given out.
static LAST: AtomicU32 = AtomicU32::new(0);

// SAFETY: memory of the process, reached by raw pointers only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(length: usize, align: usize) -> Result<Arc<Memory>, Errno> {
        if length == 0 || length > MAX_DM_SIZE {
            return Err(INVALID);
        }
        let layout = Layout::from_size_align(length, align).map_err(|_| INVALID)?;
        // SAFETY: not of 0 bytes.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        let handle = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let memory = Arc::new(Memory { start, layout, handle });
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|other| other.strong_count() > 0);
        known.push(Arc::downgrade(&memory));
        Ok(memory)
    }

    /// The piece with this handle.
    pub(crate) fn with_handle(handle: u32) -> Option<Arc<Memory>> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(Weak::upgrade).find(|memory| memory.handle == handle)
    }

    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }

    #[cfg(test)]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// The address of `length` bytes from `offset` on.
    pub(crate) fn at(&self, offset: u64, length: usize) -> Result<*mut u8, Errno> {
        let offset = usize::try_from(offset).map_err(|_| INVALID)?;
        match offset.checked_add(length) {
            Some(end) if end <= self.layout.size() => Ok(self.start.wrapping_add(offset)),
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
        // SAFETY: allocated with this layout, freed once; all holders are gone.
        unsafe { dealloc(self.start, self.layout) }
    }
}
