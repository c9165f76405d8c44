//! `rsetsockopt`, `rgetsockopt`, `rfcntl`.

use std::sync::atomic::Ordering;

use libc::{c_int, c_long, c_void, linger, socklen_t};

use super::directory;
use super::directory::Known;
use super::options::{RDMA_ROUTE, SOL_RDMA};
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::outcome::{minus_one, number};

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
        let socket = directory::get(socket)?;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                // SAFETY: by the contract.
                let value: linger = unsafe { read(value, length)? };
                let seconds = (value.l_onoff != 0).then_some(value.l_linger);
                socket.any().with_options(&mut |options| options.linger = seconds);
                Ok(())
            }
            (SOL_RDMA, RDMA_ROUTE) => Err(NOT_SUPPORTED),
            _ => {
                // SAFETY: by the contract.
                let value = unsafe { read(value, length)? };
                let mut done = Ok(());
                socket.any().with_options(&mut |options| done = options.set(level, name, value));
                done
            }
        }
    })
}

/// # Safety
/// Null, or `length` bytes; `T` is integers.
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
        let socket = directory::get(socket)?;
        // SAFETY: by the contract.
        let length = unsafe { length.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            let mut seconds = None;
            socket.any().with_options(&mut |options| seconds = options.linger);
            let l_onoff = c_int::from(seconds.is_some());
            let found = linger { l_onoff, l_linger: seconds.unwrap_or(0) };
            // SAFETY: by the contract.
            return unsafe { give(found, value, length) };
        }
        if (level, name) == (SOL_RDMA, RDMA_ROUTE) {
            return Err(NOT_SUPPORTED);
        }
        let found = socket.any().option(level, name)?;
        // SAFETY: by the contract.
        unsafe { give(found, value, length) }
    })
}

/// # Safety
/// Null, or `length` bytes.
unsafe fn give<T: Copy>(found: T, value: *mut c_void, length: &mut socklen_t) -> Result<(), Errno> {
    if value.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    if (*length as usize) < size_of::<T>() {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise, and there is room.
    unsafe { value.cast::<T>().write_unaligned(found) };
    *length = size_of::<T>() as socklen_t;
    Ok(())
}

/// rfcntl(3): F_GETFL and F_SETFL. The third argument is there with F_SETFL only; on the systems that
/// this library runs on it is passed in the same way without `...`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rfcntl(socket: c_int, command: c_int, argument: c_long) -> c_int {
    number(|| flags(&directory::get(socket)?, command, argument))
}

fn flags(socket: &Known, command: c_int, argument: c_long) -> Result<c_int, Errno> {
    match command {
        libc::F_GETFL => {
            let nonblocking = socket.any().nonblocking().load(Ordering::Relaxed);
            let nonblocking = if nonblocking { libc::O_NONBLOCK } else { 0 };
            Ok(libc::O_RDWR | nonblocking)
        }
        libc::F_SETFL => {
            let nonblocking = argument & c_long::from(libc::O_NONBLOCK) != 0;
            socket.any().nonblocking().store(nonblocking, Ordering::Relaxed);
            Ok(0)
        }
        _ => Err(NOT_SUPPORTED),
    }
}
