//! Bytes out and in: `rsend`, `rrecv` and their forms.

use std::net::SocketAddr;
use std::ptr::null_mut;

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr as c_sockaddr, socklen_t, ssize_t};

use super::connect::address;
use super::connection::State;
use super::directory::Known;
use super::socket::{AnySocket, Socket};
use super::stream::{Peer, Stream};
use super::{directory, names};
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::outcome::number;

/// Flags that mean something, or that change nothing here: no signal is sent, and nothing is held back.
const SEND_FLAGS: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_WAITALL;
const RECEIVE_FLAGS: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_PEEK | libc::MSG_WAITALL;
/// The longest datagram.
const LONGEST: usize = 65_535;
/// Most pieces of a call, as in the kernel.
const MOST_PIECES: usize = 1024;

/// Sends all of it, or as much as there is room for if the call does not wait.
fn send(socket: &Known, data: &[u8], flags: c_int, to: Option<SocketAddr>) -> Result<usize, Errno> {
    if flags & !SEND_FLAGS != 0 {
        return Err(NOT_SUPPORTED);
    }
    match socket {
        Known::Stream(_) if to.is_some() => Err(Errno(libc::EISCONN)),
        Known::Stream(socket) => {
            send_with(socket, data.len(), flags, |stream, done| stream.send(&data[done..]))
        }
        Known::Datagram(socket) => {
            socket.wait(socket.patience(flags), |state| state.send(data, to))
        }
    }
}

/// Gives bytes to the stream until all are gone. What was sent before an error counts.
pub(super) fn send_with(
    socket: &Socket<State>,
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
fn receive(
    socket: &Known,
    out: &mut [u8],
    flags: c_int,
) -> Result<(usize, Option<SocketAddr>), Errno> {
    if flags & !RECEIVE_FLAGS != 0 {
        return Err(NOT_SUPPORTED);
    }
    match socket {
        Known::Stream(socket) => Ok((receive_bytes(socket, out, flags)?, socket.peer())),
        Known::Datagram(socket) => {
            let peek = flags & libc::MSG_PEEK != 0;
            let (from, data) =
                socket.wait(socket.patience(flags), |state| state.receive(peek).map(Ok))?;
            // What is too long for the program's buffer is cut off.
            let count = data.len().min(out.len());
            out[..count].copy_from_slice(&data[..count]);
            Ok((count, Some(from)))
        }
    }
}

fn receive_bytes(socket: &Socket<State>, out: &mut [u8], flags: c_int) -> Result<usize, Errno> {
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

/// Sends pieces; those of a datagram go together.
///
/// # Safety
/// By the contract.
unsafe fn send_pieces(
    socket: &Known,
    pieces: *const iovec,
    count: usize,
    flags: c_int,
    to: Option<SocketAddr>,
) -> Result<ssize_t, Errno> {
    let mut together = Vec::new();
    let is_datagram = matches!(socket, Known::Datagram(_));
    // SAFETY: by the contract.
    let sent = unsafe {
        each_piece(pieces, count, |piece, _| {
            let data = slice(piece.iov_base, piece.iov_len)?;
            if !is_datagram {
                return send(socket, data, flags, to);
            }
            together.extend_from_slice(data);
            Ok(data.len())
        })?
    };
    let sent = if is_datagram { send(socket, &together, flags, to)? } else { sent };
    Ok(sent as ssize_t)
}

/// Receives into pieces; a datagram fills as many as it has bytes for.
///
/// # Safety
/// By the contract.
unsafe fn receive_pieces(
    socket: &Known,
    pieces: *const iovec,
    count: usize,
    flags: c_int,
) -> Result<(ssize_t, Option<SocketAddr>), Errno> {
    let mut from = socket.any().peer();
    let mut whole: Option<Vec<u8>> = None;
    if matches!(socket, Known::Datagram(_)) {
        let mut datagram = vec![0; LONGEST];
        let (length, sender) = receive(socket, &mut datagram, flags)?;
        datagram.truncate(length);
        (from, whole) = (sender, Some(datagram));
    }
    // SAFETY: by the contract.
    let got = unsafe {
        each_piece(pieces, count, |piece, before| {
            let out = slice_mut(piece.iov_base, piece.iov_len)?;
            if let Some(datagram) = &whole {
                let rest = &datagram[before.min(datagram.len())..];
                let count = rest.len().min(out.len());
                out[..count].copy_from_slice(&rest[..count]);
                return Ok(count);
            }
            let waits = before == 0 || flags & libc::MSG_WAITALL != 0;
            let flags = if waits { flags } else { flags | libc::MSG_DONTWAIT };
            Ok(receive(socket, out, flags)?.0)
        })?
    };
    Ok((got as ssize_t, from))
}

/// rsend(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rsend(
    socket: c_int,
    data: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise is the same.
    unsafe { rsendto(socket, data, length, flags, std::ptr::null(), 0) }
}

/// rsendto(3). A stream knows its peer, and takes no other.
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
        let socket = directory::get(socket)?;
        // SAFETY: by the contract.
        let to = if to.is_null() { None } else { Some(unsafe { address(to, to_length)? }) };
        // SAFETY: by the contract.
        let data = unsafe { slice(data, length)? };
        send(&socket, data, flags, to).map(|sent| sent as ssize_t)
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
        // SAFETY: by the contract.
        let message = unsafe { message.as_ref() }.ok_or(Errno(libc::EFAULT))?;
        if message.msg_controllen > 0 {
            return Err(NOT_SUPPORTED);
        }
        let (socket, name) = (directory::get(socket)?, message.msg_name.cast());
        let to = match message.msg_namelen {
            0 => None,
            // SAFETY: by the contract.
            length => Some(unsafe { address(name, length)? }),
        };
        // SAFETY: by the contract.
        unsafe { send_pieces(&socket, message.msg_iov, message.msg_iovlen, flags, to) }
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
        unsafe { send_pieces(&directory::get(socket)?, pieces, count, 0, None) }
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
    // SAFETY: the caller's promise is the same.
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
        let socket = directory::get(socket)?;
        // SAFETY: by the contract.
        let (got, peer) = receive(&socket, unsafe { slice_mut(data, length)? }, flags)?;
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
        unsafe {
            let socket = directory::get(socket)?;
            let (pieces, count) = (message.msg_iov, message.msg_iovlen);
            let (got, from) = receive_pieces(&socket, pieces, count, flags)?;
            let length = &raw mut message.msg_namelen;
            names::give(from, message.msg_name.cast(), length)?;
            Ok(got)
        }
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
        unsafe { receive_pieces(&directory::get(socket)?, pieces, count, 0) }.map(|(got, _)| got)
    })
}
