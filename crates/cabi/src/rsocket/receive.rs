//! `rrecv` and its forms.

use std::ptr::null_mut;

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr as c_sockaddr, socklen_t, ssize_t};
use uroce_ibverbs::errno::Errno;
use uroce_ibverbs::return_value::number;
use uroce_rsockets::Handle;

use super::address;
use super::slices::{iovecs, piece_count, slice_mut};

/// rrecv(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rrecv(
    socket: c_int,
    data: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the same buffer, and no room for an address.
    unsafe { rrecvfrom(socket, data, length, flags, null_mut(), null_mut()) }
}

/// rrecvfrom(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rrecvfrom(
    socket: c_int,
    data: *mut c_void,
    length: size_t,
    flags: c_int,
    from: *mut c_sockaddr,
    from_length: *mut socklen_t,
) -> ssize_t {
    number(|| {
        let socket = Handle::get(socket)?;
        // SAFETY: the program gives a buffer and its length, as rrecvfrom(3) asks.
        let (got, peer) = socket.receive(unsafe { slice_mut(data, length)? }, flags)?;
        // SAFETY: null, or a buffer for an address and its length.
        unsafe { address::write(peer, from, from_length)? };
        Ok(got as ssize_t)
    })
}

/// rrecvmsg(3), without control messages.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rrecvmsg(
    socket: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    number(|| {
        // SAFETY: null or a message header, as rrecvmsg(3) asks.
        let message = unsafe { message.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        (message.msg_controllen, message.msg_flags) = (0, 0);
        let socket = Handle::get(socket)?;
        // SAFETY: the header says how many pieces there are.
        let pieces = unsafe { iovecs(message.msg_iov, message.msg_iovlen)? };
        // SAFETY: each piece says how long it is.
        let pieces = pieces.iter().map(|piece| unsafe { slice_mut(piece.iov_base, piece.iov_len) });
        let (got, from, is_cut) = socket.receive_message(pieces, flags)?;
        message.msg_flags = if is_cut { libc::MSG_TRUNC } else { 0 };
        let length = &raw mut message.msg_namelen;
        // SAFETY: the header says how long the room for the address is.
        unsafe { address::write(from, message.msg_name.cast(), length)? };
        Ok(got as ssize_t)
    })
}

/// rread(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rread(socket: c_int, data: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the same buffer.
    unsafe { rrecv(socket, data, length, 0) }
}

/// rreadv(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rreadv(
    socket: c_int,
    pieces: *const iovec,
    count: c_int,
) -> ssize_t {
    number(|| {
        let (count, socket) = (piece_count(count)?, Handle::get(socket)?);
        // SAFETY: the program says how many pieces there are, as rreadv(3) asks.
        let pieces = unsafe { iovecs(pieces, count)? };
        // SAFETY: each piece says how long it is.
        let pieces = pieces.iter().map(|piece| unsafe { slice_mut(piece.iov_base, piece.iov_len) });
        socket.receive_pieces(pieces, 0).map(|(got, _)| got as ssize_t)
    })
}
