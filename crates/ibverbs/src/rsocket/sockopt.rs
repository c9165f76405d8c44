//! `rsetsockopt`, `rgetsockopt`, `rfcntl`.

use super::directory;
use super::options::{RDMA_ROUTE, SOL_RDMA};
use super::socket::{Phase, Socket, State};
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::outcome::{minus_one, number};
use libc::{c_int, c_long, c_void, linger, socklen_t};
use std::sync::atomic::Ordering;

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
        let mut state = socket.state();
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                // SAFETY: by the contract.
                let value: linger = unsafe { read(value, length)? };
                state.options.linger = (value.l_onoff != 0).then_some(value.l_linger);
                Ok(())
            }
            (SOL_RDMA, RDMA_ROUTE) => Err(NOT_SUPPORTED),
            // SAFETY: by the contract.
            _ => state.options.set(level, name, unsafe { read(value, length)? }),
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
        let mut state = socket.state();
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            let seconds = state.options.linger;
            let l_onoff = c_int::from(seconds.is_some());
            let found = linger { l_onoff, l_linger: seconds.unwrap_or(0) };
            // SAFETY: by the contract.
            return unsafe { give(found, value, length) };
        }
        let found = option(&mut state, level, name)?;
        // SAFETY: by the contract.
        unsafe { give(found, value, length) }
    })
}

fn option(state: &mut State, level: c_int, name: c_int) -> Result<c_int, Errno> {
    Ok(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => state.pending.take().map_or(0, |errno| errno.0),
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => c_int::from(state.phase == Phase::Listening),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
            let segment = state.stream.as_ref().map_or(0, |stream| stream.segment());
            c_int::try_from(segment).unwrap_or(c_int::MAX)
        }
        (SOL_RDMA, RDMA_ROUTE) => return Err(NOT_SUPPORTED),
        _ => state.options.get(level, name)?,
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
    number(|| flags(&*directory::get(socket)?, command, argument))
}

fn flags(socket: &Socket, command: c_int, argument: c_long) -> Result<c_int, Errno> {
    match command {
        libc::F_GETFL => {
            let nonblocking = if socket.is_nonblocking() { libc::O_NONBLOCK } else { 0 };
            Ok(libc::O_RDWR | nonblocking)
        }
        libc::F_SETFL => {
            let nonblocking = argument & c_long::from(libc::O_NONBLOCK) != 0;
            socket.nonblocking.store(nonblocking, Ordering::Relaxed);
            Ok(0)
        }
        _ => Err(NOT_SUPPORTED),
    }
}
