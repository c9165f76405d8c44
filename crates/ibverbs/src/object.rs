//! What a C object is: the struct that the program sees, and behind it what we keep about it.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// One allocation with the C struct at its start, so that one pointer is good for both.
///
/// The program reads and writes the C part as it likes, hence no reference to it is ever made; it is
/// reached by raw pointers only. What we decide by is in the Rust part, which the program cannot
/// reach without going out of its way.
#[repr(C)]
pub(crate) struct Object<C, R> {
    c: UnsafeCell<C>,
    rust: R,
}

impl<C, R> Object<C, R> {
    /// A new object; the pointer is for the program.
    pub(crate) fn create(c: C, rust: R) -> *mut C {
        Box::into_raw(Box::new(Object { c: UnsafeCell::new(c), rust })).cast()
    }

    /// Our part of an object; `None` for a null pointer.
    ///
    /// # Safety
    /// `object` is null or came from [`create`](Self::create) with the same types and was not
    /// [`destroy`](Self::destroy)ed, nor will it be while the result is in use.
    pub(crate) unsafe fn of<'a>(object: *const C) -> Option<&'a R> {
        // SAFETY: the caller's promise; `c` is the first field of a repr(C) struct, so the addresses
        // are the same. The reference covers the Rust part only.
        unsafe {
            let whole = object.cast::<Object<C, R>>();
            // No object of ours is at an odd address; perftest, for one, comes back with such a thing
            // after a failed connection.
            if whole.is_null() || !whole.is_aligned() {
                return None;
            }
            Some(&*std::ptr::addr_of!((*whole).rust))
        }
    }

    /// Frees the object.
    ///
    /// # Safety
    /// As for [`of`](Self::of), and nobody uses the object any more.
    pub(crate) unsafe fn destroy(object: *mut C) {
        // SAFETY: it came from `Box::into_raw`, by the caller's promise, and is freed once.
        drop(unsafe { Box::from_raw(object.cast::<Object<C, R>>()) });
    }
}

/// Room for an object whose address must be known before the object can be made.
pub(crate) struct Place<C, R>(Box<MaybeUninit<Object<C, R>>>);

impl<C, R> Place<C, R> {
    pub(crate) fn new() -> Self {
        Place(Box::new_uninit())
    }

    /// Where the object will be, as a number that [`pointer_to`] turns back.
    pub(crate) fn address(&mut self) -> u64 {
        self.0.as_mut_ptr().expose_provenance() as u64
    }

    /// The object; the pointer is for the program.
    pub(crate) fn fill(mut self, c: C, rust: R) -> *mut C {
        self.0.write(Object { c: UnsafeCell::new(c), rust });
        Box::into_raw(self.0).cast()
    }
}

/// The object at an address that [`Place::address`] gave.
pub(crate) fn pointer_to<C>(address: u64) -> *mut C {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// A value of C structs for which all bytes zero is right: numbers, null pointers, empty slots, and
/// (on Linux) mutexes and conditions that nobody has initialised.
///
/// # Safety
/// `T` holds no reference and no function pointer outside an `Option`.
pub(crate) unsafe fn zeroed<T>() -> T {
    // SAFETY: the caller's promise.
    unsafe { std::mem::zeroed() }
}
