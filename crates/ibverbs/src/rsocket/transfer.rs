//! Bytes out and in: `rsend`, `rrecv` and their forms.

use super::socket::{Socket, State};
use super::stream::{Peer, Stream};
use super::{directory, names};
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::outcome::number;
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr as c_sockaddr, socklen_t, ssize_t};

/// Flags that mean something, or that change nothing here: no signal is sent, and nothing is held back.
const SEND_FLAGS: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_WAITALL;
const RECEIVE_FLAGS: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_PEEK | libc::MSG_WAITALL;
/// Most pieces of a call, as in the kernel.
const MOST_PIECES: usize = 1024;

/// Sends all of it, or as much as there is room for if the call does not wait.
fn send(socket: &Socket, data: &[u8], flags: c_int) -> Result<usize, Errno> {
    if flags & !SEND_FLAGS != 0 {
        return Err(NOT_SUPPORTED);
    }
    send_with(socket, data.len(), flags, |stream, done| stream.send(&data[done..]))
}

/// Gives bytes to the stream until all are gone. What was sent before an error counts.
pub(super) fn send_with(
    socket: &Socket,
    whole: usize,
    flags: c_int,
    put: impl Fn(&mut Stream, usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut sent = 0;
    let done = socket.wait(socket.patience(flags), |state| {
        let writes = state.writes;
        let stream = match state.connected()? {
            Ok(stream) => stream,
            Err(errno) => return Some(Err(errno)),
        };
        match sendable(stream, writes).and_then(|()| put(stream, sent)) {
            Ok(now) => sent += now,
            Err(errno) => return Some(Err(errno)),
        }
        (sent == whole).then_some(Ok(()))
    });
    match done {
        Err(errno) if sent == 0 => Err(errno),
        _ => Ok(sent),
    }
}

fn sendable(stream: &Stream, writes: bool) -> Result<(), Errno> {
    match stream.broken {
        _ if !writes => Err(Errno(libc::EPIPE)),
        Some(errno) => Err(errno),
        None if stream.peer == Peer::Gone => Err(Errno(libc::ECONNRESET)),
        None => Ok(()),
    }
}

/// Fills `out` with what there is, or to its end if `flags` say so. 0: no more will come.
fn receive(socket: &Socket, out: &mut [u8], flags: c_int) -> Result<usize, Errno> {
    if flags & !RECEIVE_FLAGS != 0 {
        return Err(NOT_SUPPORTED);
    }
    let peek = flags & libc::MSG_PEEK != 0;
    let all = flags & libc::MSG_WAITALL != 0 && !peek;
    let mut got = 0;
    let done = socket.wait(socket.patience(flags), |state| {
        match take(state, &mut out[got..], peek) {
            Some(Ok(now)) => got += now,
            Some(Err(errno)) => return Some(Err(errno)),
            None => return (out.is_empty()).then_some(Ok(())),
        }
        let ended = at_end(state);
        (got == out.len() || !all || ended).then_some(Ok(()))
    });
    match done {
        Err(errno) if got == 0 => Err(errno),
        _ => Ok(got),
    }
}

/// Reads what there is; `None`: wait for more.
fn take(state: &mut State, out: &mut [u8], peek: bool) -> Option<Result<usize, Errno>> {
    let reads = state.reads;
    let stream = match state.connected()? {
        Ok(stream) => stream,
        Err(errno) => return Some(Err(errno)),
    };
    let got = if reads { stream.inbound.read(out, peek) } else { 0 };
    if got > 0 {
        // The room is the peer's again.
        stream.progress();
        return Some(Ok(got));
    }
    match stream.broken {
        _ if !reads || stream.peer != Peer::Talks => Some(Ok(0)),
        Some(errno) => Some(Err(errno)),
        None => None,
    }
}

/// Whether nothing more will come.
fn at_end(state: &mut State) -> bool {
    let reads = state.reads;
    match state.connected() {
        Some(Ok(stream)) => {
            !stream.inbound.has_data()
                && (!reads || stream.peer != Peer::Talks || stream.broken.is_some())
        }
        _ => true,
    }
}

/// A buffer of the program as a slice.
///
/// # Safety
/// `length` bytes, for as long as the result is in use.
pub(super) unsafe fn slice<'a>(data: *const c_void, length: size_t) -> Result<&'a [u8], Errno> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() || length > isize::MAX as usize {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// # Safety
/// As for [`slice`], and nobody else uses the bytes.
unsafe fn slice_mut<'a>(data: *mut c_void, length: size_t) -> Result<&'a mut [u8], Errno> {
    if length == 0 {
        return Ok(&mut []);
    }
    if data.is_null() || length > isize::MAX as usize {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), length) })
}

/// Does a call for each piece until one is not done whole; later ones do not wait if `eager`.
///
/// # Safety
/// `count` pieces, each of as many bytes as it says.
unsafe fn each_piece(
    pieces: *const iovec,
    count: usize,
    mut call: impl FnMut(&iovec, usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    if count > MOST_PIECES {
        return Err(INVALID);
    }
    if count > 0 && pieces.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let mut whole = 0;
    for index in 0..count {
        // SAFETY: the caller's promise.
        let piece = unsafe { &*pieces.add(index) };
        match call(piece, whole) {
            Ok(done) if done == piece.iov_len => whole += done,
            Ok(done) => return Ok(whole + done),
            Err(errno) if whole == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(whole)
}

/// # Safety
/// By the contract.
unsafe fn send_pieces(
    socket: c_int,
    pieces: *const iovec,
    count: usize,
    flags: c_int,
) -> Result<ssize_t, Errno> {
    let socket = directory::get(socket)?;
    // SAFETY: by the contract.
    let sent = unsafe {
        each_piece(pieces, count, |piece, _| {
            send(&socket, slice(piece.iov_base, piece.iov_len)?, flags)
        })?
    };
    Ok(sent as ssize_t)
}

/// # Safety
/// By the contract.
unsafe fn receive_pieces(
    socket: c_int,
    pieces: *const iovec,
    count: usize,
    flags: c_int,
) -> Result<ssize_t, Errno> {
    let socket = directory::get(socket)?;
    // SAFETY: by the contract.
    let got = unsafe {
        each_piece(pieces, count, |piece, before| {
            let waits = before == 0 || flags & libc::MSG_WAITALL != 0;
            let flags = if waits { flags } else { flags | libc::MSG_DONTWAIT };
            receive(&socket, slice_mut(piece.iov_base, piece.iov_len)?, flags)
        })?
    };
    Ok(got as ssize_t)
}

/// rsend(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rsend(
    socket: c_int,
    data: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    number(|| {
        let socket = directory::get(socket)?;
        // SAFETY: by the contract.
        send(&socket, unsafe { slice(data, length)? }, flags).map(|sent| sent as ssize_t)
    })
}

/// rsendto(3). A stream knows its peer, and takes no other.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rsendto(
    socket: c_int,
    data: *const c_void,
    length: size_t,
    flags: c_int,
    to: *const c_sockaddr,
    _to_length: socklen_t,
) -> ssize_t {
    if !to.is_null() {
        return number(|| Err(Errno(libc::EISCONN)));
    }
    // SAFETY: the caller's promise is the same.
    unsafe { rsend(socket, data, length, flags) }
}

/// rsendmsg(3), without control messages.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rsendmsg(
    socket: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    number(|| {
        // SAFETY: by the contract.
        let message = unsafe { message.as_ref() }.ok_or(Errno(libc::EFAULT))?;
        if message.msg_controllen > 0 {
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: by the contract.
        unsafe { send_pieces(socket, message.msg_iov, message.msg_iovlen, flags) }
    })
}

/// rwrite(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rwrite(
    socket: c_int,
    data: *const c_void,
    length: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise is the same.
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
        let count = usize::try_from(count).map_err(|_| INVALID)?;
        // SAFETY: by the contract.
        unsafe { send_pieces(socket, pieces, count, 0) }
    })
}

/// rrecv(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rrecv(
    socket: c_int,
    data: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    number(|| {
        let socket = directory::get(socket)?;
        // SAFETY: by the contract.
        receive(&socket, unsafe { slice_mut(data, length)? }, flags).map(|got| got as ssize_t)
    })
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
        let known = directory::get(socket)?;
        // SAFETY: by the contract.
        let got = receive(&known, unsafe { slice_mut(data, length)? }, flags)?;
        let peer = known.state().peer();
        // SAFETY: by the contract.
        unsafe { names::give(peer, from, from_length)? };
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
        // SAFETY: by the contract.
        let message = unsafe { message.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        (message.msg_controllen, message.msg_flags) = (0, 0);
        // SAFETY: by the contract.
        unsafe { receive_pieces(socket, message.msg_iov, message.msg_iovlen, flags) }
    })
}

/// rread(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rread(socket: c_int, data: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's promise is the same.
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
        let count = usize::try_from(count).map_err(|_| INVALID)?;
        // SAFETY: by the contract.
        unsafe { receive_pieces(socket, pieces, count, 0) }
    })
}
