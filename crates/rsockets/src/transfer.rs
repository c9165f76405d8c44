//! Bytes out and in.

use std::net::SocketAddr;

use libc::c_int;
use uroce_ibverbs::errno::{Errno, NOT_SUPPORTED};

use crate::connection::State;
use crate::fd_table::{Handle, Known};
use crate::socket::{AnySocket, Socket};
use crate::stream::{Peer, Stream};

/// Flags that mean something, or that change nothing here: no signal is sent, and nothing is held back.
const SEND_FLAGS: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_WAITALL;
const RECEIVE_FLAGS: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_PEEK | libc::MSG_WAITALL;
/// The longest datagram.
const LONGEST: usize = 65_535;

/// Sends all pieces, or as much as there is room for if the call does not wait; those of a datagram go together.
fn send(
    socket: &Known,
    pieces: &[&[u8]],
    flags: c_int,
    to: Option<SocketAddr>,
) -> Result<usize, Errno> {
    if flags & !SEND_FLAGS != 0 {
        return Err(NOT_SUPPORTED);
    }
    match socket {
        Known::Stream(_) if to.is_some() => Err(Errno(libc::EISCONN)),
        Known::Stream(socket) => {
            let whole = pieces.iter().map(|piece| piece.len()).sum();
            send_with(socket, whole, flags, |stream, done| stream.send(rest_of(pieces, done)))
        }
        Known::Datagram(socket) => {
            let joined;
            let data = match pieces {
                [one] => one,
                several => {
                    joined = several.concat();
                    &joined[..]
                }
            };
            socket.wait(socket.deadline(flags), |state| state.send(data, to))
        }
    }
}

/// What is left of the piece that byte `done` of all of them is in.
fn rest_of<'a>(pieces: &[&'a [u8]], mut done: usize) -> &'a [u8] {
    for piece in pieces {
        match piece.get(done..) {
            Some(rest) if !rest.is_empty() => return rest,
            _ => done -= piece.len(),
        }
    }
    &[]
}

/// Gives bytes to the stream until all are gone. What was sent before an error counts.
pub(crate) fn send_with(
    socket: &Socket<State>,
    whole: usize,
    flags: c_int,
    put: impl Fn(&mut Stream, usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut sent = 0;
    let done = socket.wait(socket.deadline(flags), |state| {
        let writes = state.writes;
        let stream = match state.connected()? {
            Ok(stream) => stream,
            Err(errno) => return Some(Err(errno)),
        };
        // What there is room for goes without a gap for the bytes of another thread.
        loop {
            match sendable(stream, writes).and_then(|()| put(stream, sent)) {
                Ok(now) if sent + now == whole => {
                    sent = whole;
                    return Some(Ok(()));
                }
                Ok(0) => return None,
                Ok(now) => sent += now,
                Err(errno) => return Some(Err(errno)),
            }
        }
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
                socket.wait(socket.deadline(flags), |state| state.receive(peek).map(Ok))?;
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
    let done = socket.wait(socket.deadline(flags), |state| {
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

/// Whether nothing more will come. What a program has left unread when it shut reading down is never read.
fn at_end(state: &mut State) -> bool {
    let reads = state.reads;
    match state.connected() {
        Some(Ok(stream)) => {
            !reads
                || !stream.inbound.has_data()
                    && (stream.peer != Peer::Talks || stream.broken.is_some())
        }
        _ => true,
    }
}

/// Fills each piece by a call, which is told how many bytes came before, until one is not filled whole.
fn fill_each<'a>(
    pieces: impl Iterator<Item = Result<&'a mut [u8], Errno>>,
    mut fill: impl FnMut(&mut [u8], usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut whole = 0;
    for piece in pieces {
        let (wanted, done) = match piece {
            Ok(piece) => (piece.len(), fill(piece, whole)),
            Err(errno) => (0, Err(errno)),
        };
        match done {
            Ok(done) if done == wanted => whole += done,
            Ok(done) => return Ok(whole + done),
            Err(errno) if whole == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(whole)
}

impl Handle {
    /// Sends all of it, or as much as there is room for if the call does not wait. A stream knows its peer, and takes no
    /// other.
    ///
    /// # Errors
    /// Those of send(2).
    pub fn send(&self, data: &[u8], flags: c_int, to: Option<SocketAddr>) -> Result<usize, Errno> {
        send(&self.0, &[data], flags, to)
    }

    /// Sends pieces in turn; those of a datagram go together. A piece may be one that the program has given wrongly.
    ///
    /// # Errors
    /// Those of send(2); that of the first piece.
    pub fn send_pieces<'a>(
        &self,
        pieces: impl Iterator<Item = Result<&'a [u8], Errno>>,
        flags: c_int,
        to: Option<SocketAddr>,
    ) -> Result<usize, Errno> {
        let mut right = Vec::new();
        for piece in pieces {
            match piece {
                Ok(piece) => right.push(piece),
                Err(errno) if right.is_empty() => return Err(errno),
                // A stream goes as far as the program has given it rightly.
                Err(_) => break,
            }
        }
        send(&self.0, &right, flags, to)
    }

    /// Fills `out` with what there is, or to its end if `flags` say so; 0: no more will come. Returns who sent it, too.
    ///
    /// # Errors
    /// Those of recv(2).
    pub fn receive(
        &self,
        out: &mut [u8],
        flags: c_int,
    ) -> Result<(usize, Option<SocketAddr>), Errno> {
        receive(&self.0, out, flags)
    }

    /// Receives into pieces; a datagram fills as many as it has bytes for.
    ///
    /// # Errors
    /// Those of recv(2); that of the first piece.
    pub fn receive_pieces<'a>(
        &self,
        pieces: impl Iterator<Item = Result<&'a mut [u8], Errno>>,
        flags: c_int,
    ) -> Result<(usize, Option<SocketAddr>), Errno> {
        let (got, from, _) = self.receive_message(pieces, flags)?;
        Ok((got, from))
    }

    /// The same; says at the end whether there was no room for the rest of a datagram, which is lost.
    ///
    /// # Errors
    /// Those of recvmsg(2); that of the first piece.
    pub fn receive_message<'a>(
        &self,
        pieces: impl Iterator<Item = Result<&'a mut [u8], Errno>>,
        flags: c_int,
    ) -> Result<(usize, Option<SocketAddr>, bool), Errno> {
        let mut from = self.peer();
        let mut whole: Option<Vec<u8>> = None;
        if self.is_datagram() {
            let mut datagram = vec![0; LONGEST];
            let (length, sender) = self.receive(&mut datagram, flags)?;
            datagram.truncate(length);
            (from, whole) = (sender, Some(datagram));
        }
        let got = fill_each(pieces, |out, before| {
            if let Some(datagram) = &whole {
                let rest = &datagram[before.min(datagram.len())..];
                let count = rest.len().min(out.len());
                out[..count].copy_from_slice(&rest[..count]);
                return Ok(count);
            }
            if before > 0 && flags & libc::MSG_PEEK != 0 {
                // What was only looked at is next once more.
                return Ok(0);
            }
            let waits = before == 0 || flags & libc::MSG_WAITALL != 0;
            let flags = if waits { flags } else { flags | libc::MSG_DONTWAIT };
            Ok(self.receive(out, flags)?.0)
        })?;
        let is_cut = whole.is_some_and(|datagram| datagram.len() > got);
        Ok((got, from, is_cut))
    }
}
