//! `rsend` and its forms.

use std::ptr::null;

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr as c_sockaddr, socklen_t, ssize_t};
use uroce_ibverbs::errno::{Errno, NOT_SUPPORTED};
use uroce_ibverbs::return_value::number;
use uroce_rsockets::Handle;

use super::address;
use super::slices::{iovecs, piece_count, slice};

/// rsend(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rsend(
    socket: c_int,
    data: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the same buffer, and no address.
    unsafe { rsendto(socket, data, length, flags, null(), 0) }
}

/// rsendto(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rsendto(
    socket: c_int,
    data: *const c_void,
    length: size_t,
    flags: c_int,
    to: *const c_sockaddr,
    to_length: socklen_t,
) -> ssize_t {
    number(|| {
        let socket = Handle::get(socket)?;
        // SAFETY: the program gives an address and its length, as rsendto(3) asks.
        let to = if to.is_null() { None } else { Some(unsafe { address::read(to, to_length)? }) };
        // SAFETY: the program gives a buffer and its length, as rsendto(3) asks.
        let data = unsafe { slice(data, length)? };
        socket.send(data, flags, to).map(|sent| sent as ssize_t)
    })
}

/// rsendmsg(3), without control messages.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rsendmsg(
    socket: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    number(|| {
        // SAFETY: null or a message header, as rsendmsg(3) asks.
        let message = unsafe { message.as_ref() }.ok_or(Errno(libc::EFAULT))?;
        if message.msg_controllen > 0 {
            return Err(NOT_SUPPORTED);
        }
        let (socket, name) = (Handle::get(socket)?, message.msg_name.cast());
        let to = match message.msg_namelen {
            0 => None,
            // SAFETY: the header says how long the address is.
            length => Some(unsafe { address::read(name, length)? }),
        };
        // SAFETY: the header says how many pieces there are.
        let pieces = unsafe { iovecs(message.msg_iov, message.msg_iovlen)? };
        // SAFETY: each piece says how long it is.
        let pieces = pieces.iter().map(|piece| unsafe { slice(piece.iov_base, piece.iov_len) });
        socket.send_pieces(pieces, flags, to).map(|sent| sent as ssize_t)
    })
}

/// rwrite(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rwrite(
    socket: c_int,
    data: *const c_void,
    length: size_t,
) -> ssize_t {
    // SAFETY: the same buffer.
    unsafe { rsend(socket, data, length, 0) }
}

/// rwritev(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rwritev(
    socket: c_int,
    pieces: *const iovec,
    count: c_int,
) -> ssize_t {
    number(|| {
        let (count, socket) = (piece_count(count)?, Handle::get(socket)?);
        // SAFETY: the program says how many pieces there are, as rwritev(3) asks.
        let pieces = unsafe { iovecs(pieces, count)? };
        // SAFETY: each piece says how long it is.
        let pieces = pieces.iter().map(|piece| unsafe { slice(piece.iov_base, piece.iov_len) });
        socket.send_pieces(pieces, 0, None).map(|sent| sent as ssize_t)
    })
}
