//! Buffers of programs.

use libc::{c_int, c_void, iovec, size_t};
use uroce_ibverbs::errno::{Errno, INVALID};

/// Most pieces of a call, as in the kernel.
const MOST_PIECES: usize = 1024;

fn check(data: *const c_void, length: size_t) -> Result<(), Errno> {
    let possible = !data.is_null() && length <= isize::MAX as usize;
    if possible { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

/// A buffer of the program, to be read.
///
/// # Safety
/// `data` is null or points to `length` bytes, for as long as the result is in use.
pub(super) unsafe fn slice<'a>(data: *const c_void, length: size_t) -> Result<&'a [u8], Errno> {
    if length == 0 {
        return Ok(&[]);
    }
    check(data, length)?;
    // SAFETY: not null, and so the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// A buffer of the program, to be written.
///
/// # Safety
/// As for [`slice`], and the bytes are not used otherwise meanwhile.
pub(super) unsafe fn slice_mut<'a>(
    data: *mut c_void,
    length: size_t,
) -> Result<&'a mut [u8], Errno> {
    if length == 0 {
        return Ok(&mut []);
    }
    check(data, length)?;
    // SAFETY: not null, and so the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), length) })
}

/// The pieces of a call.
///
/// # Safety
/// `pieces` is null or points to `count` entries, for as long as the result is in use.
pub(super) unsafe fn iovecs<'a>(pieces: *const iovec, count: usize) -> Result<&'a [iovec], Errno> {
    if count > MOST_PIECES {
        return Err(INVALID);
    }
    if count == 0 {
        return Ok(&[]);
    }
    if pieces.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: not null, and so the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pieces, count) })
}

/// The number of pieces of a call, which C gives as an int.
pub(super) fn piece_count(count: c_int) -> Result<usize, Errno> {
    usize::try_from(count).map_err(|_| INVALID)
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::*;

    #[test]
    fn buffers_that_cannot_be_are_refused() {
        let byte = 7u8;
        let at = (&raw const byte).cast::<c_void>();
        // SAFETY: null is allowed, and so are lengths that are refused.
        unsafe {
            assert_eq!(slice(null(), 0), Ok(&[][..]), "nothing needs no buffer");
            assert_eq!(slice(null(), 1), Err(Errno(libc::EFAULT)));
            assert_eq!(slice(at, usize::MAX), Err(Errno(libc::EFAULT)));
            assert_eq!(slice(at, 1), Ok(&[7][..]));
            assert_eq!(slice_mut(null_mut(), 0), Ok(&mut [][..]));
            assert_eq!(slice_mut(null_mut(), 1), Err(Errno(libc::EFAULT)));
        }
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        // SAFETY: null is allowed, and so are lengths that are refused.
        unsafe {
            assert_eq!(iovecs(null(), 0).map(<[iovec]>::len), Ok(0));
            assert_eq!(iovecs(null(), 1).err(), Some(Errno(libc::EFAULT)));
            assert_eq!(iovecs(null(), MOST_PIECES + 1).err(), Some(INVALID));
        }
        assert_eq!((piece_count(-1), piece_count(3)), (Err(INVALID), Ok(3)));
    }
}
