//! Scatter/gather lists.

use std::mem::offset_of;

use libc::c_int;
use uroce_device::memory::Sge;

use crate::abi::ibv_sge;
use crate::errno::{Errno, INVALID};

/// An SGE in C and one of ours are the same bytes.
const _: () = assert!(
    size_of::<Sge>() == size_of::<ibv_sge>()
        && align_of::<Sge>() == align_of::<ibv_sge>()
        && offset_of!(Sge, addr) == offset_of!(ibv_sge, addr)
        && offset_of!(Sge, length) == offset_of!(ibv_sge, length)
        && offset_of!(Sge, lkey) == offset_of!(ibv_sge, lkey)
);

/// A list of SGEs in C, taken as a list of ours.
///
/// # Safety
/// `count` entries from `list`, for as long as the result is in use.
pub(crate) unsafe fn sge_list<'a>(list: *const ibv_sge, count: c_int) -> Result<&'a [Sge], Errno> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        Ok(_) if list.is_null() => Err(INVALID),
        // SAFETY: the caller's promise, and the same bytes, as is asserted above.
        Ok(count) => Ok(unsafe { std::slice::from_raw_parts(list.cast(), count) }),
        Err(_) => Err(INVALID),
    }
}
