//! `rsetsockopt`, `rgetsockopt`, `rfcntl`.

use libc::{c_int, c_long, c_void, linger, socklen_t};
use uroce_ibverbs::errno::{Errno, INVALID, NOT_SUPPORTED};
use uroce_ibverbs::return_value::{minus_one, number};
use uroce_rsockets::Handle;
use uroce_verbs_abi::{RDMA_ROUTE, SOL_RDMA};

/// rsetsockopt(3). Sizes count for connections that are made later.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rsetsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    minus_one(|| {
        let socket = Handle::get(socket)?;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                // SAFETY: the program gives a value and its length, as rsetsockopt(3) asks.
                let value: linger = unsafe { read(value, length)? };
                socket.set_linger((value.l_onoff != 0).then_some(value.l_linger));
                Ok(())
            }
            (SOL_RDMA, RDMA_ROUTE) => Err(NOT_SUPPORTED),
            _ => {
                // SAFETY: the program gives a value and its length, as rsetsockopt(3) asks.
                socket.set_option(level, name, unsafe { read(value, length)? })
            }
        }
    })
}

/// # Safety
/// `value` is null or points to `length` bytes; `T` is integers.
unsafe fn read<T: Copy>(value: *const c_void, length: socklen_t) -> Result<T, Errno> {
    if value.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    if (length as usize) < size_of::<T>() {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise, and long enough.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// rgetsockopt(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rgetsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    minus_one(|| {
        let socket = Handle::get(socket)?;
        // SAFETY: null or a number, as rgetsockopt(3) asks.
        let length = unsafe { length.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = socket.linger();
                let l_onoff = c_int::from(seconds.is_some());
                let found = linger { l_onoff, l_linger: seconds.unwrap_or(0) };
                // SAFETY: the program gives a buffer and its length, as rgetsockopt(3) asks.
                unsafe { write(found, value, length) }
            }
            (SOL_RDMA, RDMA_ROUTE) => Err(NOT_SUPPORTED),
            _ => {
                let found = socket.option(level, name)?;
                // SAFETY: the program gives a buffer and its length, as rgetsockopt(3) asks.
                unsafe { write(found, value, length) }
            }
        }
    })
}

/// As much of it as there is room for, which POSIX wants cut off in silence.
///
/// # Safety
/// `value` is null or points to `length` bytes; `T` is integers.
unsafe fn write<T: Copy>(
    found: T,
    value: *mut c_void,
    length: &mut socklen_t,
) -> Result<(), Errno> {
    if value.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    *length = (*length).min(size_of::<T>() as socklen_t);
    // SAFETY: the caller's promise, and no more than there is of both.
    unsafe {
        value.cast::<u8>().copy_from_nonoverlapping((&raw const found).cast(), *length as usize);
    }
    Ok(())
}

/// rfcntl(3): F_GETFL and F_SETFL. The third argument is there with F_SETFL only; on the systems that
/// this library runs on it is passed in the same way without `...`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rfcntl(socket: c_int, command: c_int, argument: c_long) -> c_int {
    number(|| Handle::get(socket)?.fcntl(command, argument))
}
