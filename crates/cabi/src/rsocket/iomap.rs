//! `riomap`, `riounmap`, `riowrite`.

use libc::{c_int, c_void, off_t, size_t};
use uroce_ibverbs::errno::{INVALID, NOT_SUPPORTED};
use uroce_ibverbs::return_value::{minus_one, number};
use uroce_rsockets::{Buffer, Handle};
use uroce_verbs_abi::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE};

use super::slices::slice;

/// riomap(3): the offset, or -1.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn riomap(
    socket: c_int,
    buffer: *mut c_void,
    length: size_t,
    prot: c_int,
    flags: c_int,
    offset: off_t,
) -> off_t {
    number(|| {
        let writable = prot == libc::PROT_WRITE;
        let known = writable || prot == libc::PROT_NONE;
        if buffer.is_null() || length == 0 || u32::try_from(length).is_err() || !known {
            return Err(INVALID);
        }
        if flags != 0 {
            return Err(NOT_SUPPORTED);
        }
        let wanted = Buffer { addr: buffer.addr(), length, writable, offset };
        Handle::get(socket)?.map(&wanted, |id| {
            let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
            // SAFETY: a program keeps what it has mapped until riounmap(3) or rclose(3).
            unsafe { id.register(buffer, length, access) }
        })
    })
}

/// riounmap(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn riounmap(socket: c_int, buffer: *mut c_void, length: size_t) -> c_int {
    minus_one(|| Handle::get(socket)?.unmap(buffer.addr(), length))
}

/// riowrite(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn riowrite(
    socket: c_int,
    data: *const c_void,
    length: size_t,
    offset: off_t,
    flags: c_int,
) -> size_t {
    let written: isize = number(|| {
        let socket = Handle::get(socket)?;
        // SAFETY: the program gives a buffer and its length, as riowrite(3) asks.
        let data = unsafe { slice(data, length)? };
        socket.write_mapped(data, offset, flags).map(|written| written as isize)
    });
    written as size_t
}
