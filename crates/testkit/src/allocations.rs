//! An allocator that counts, for tests of what allocates nothing. A test program installs it:
//!
//! ```
//! use uroce_testkit::allocations::{CountingAllocator, allocations};
//!
//! #[global_allocator]
//! static COUNTING: CountingAllocator = CountingAllocator;
//!
//! let before = allocations();
//! drop(std::hint::black_box(vec![1]));
//! assert_eq!(allocations() - before, 1);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: every call goes to the system's allocator unchanged; the counter does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How often this thread has allocated.
pub fn allocations() -> usize {
    ALLOCATIONS.get()
}
