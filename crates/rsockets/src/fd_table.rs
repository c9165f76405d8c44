//! Which socket a number is.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use libc::c_int;

use super::connection::State;
use super::datagrams::Datagrams;
use super::socket::{AnySocket, Socket};
use crate::errno::{Errno, NOT_SUPPORTED};

/// A socket of ours.
#[derive(Debug, Clone)]
pub(super) enum Known {
    Stream(Arc<Socket<State>>),
    Datagram(Arc<Socket<Datagrams>>),
}

impl Known {
    pub fn any(&self) -> &dyn AnySocket {
        match self {
            Known::Stream(socket) => &**socket,
            Known::Datagram(socket) => &**socket,
        }
    }

    fn fd(&self) -> c_int {
        match self {
            Known::Stream(socket) => socket.fd,
            Known::Datagram(socket) => socket.fd,
        }
    }
}

static SOCKETS: LazyLock<RwLock<HashMap<c_int, Known>>> = LazyLock::new(RwLock::default);

/// From now on the socket is known by its descriptor.
pub(super) fn add(socket: Known) -> c_int {
    let fd = socket.fd();
    SOCKETS.write().unwrap_or_else(PoisonError::into_inner).insert(fd, socket);
    fd
}

/// The socket with this number, if it is one of ours.
pub(super) fn find(fd: c_int) -> Option<Known> {
    SOCKETS.read().unwrap_or_else(PoisonError::into_inner).get(&fd).cloned()
}

/// All streams, if nobody changes the list just now.
pub(super) fn streams() -> Vec<Arc<Socket<State>>> {
    let Ok(sockets) = SOCKETS.try_read() else { return Vec::new() };
    let stream = |known: &Known| match known {
        Known::Stream(socket) => Some(Arc::clone(socket)),
        Known::Datagram(_) => None,
    };
    sockets.values().filter_map(stream).collect()
}

/// # Errors
/// EBADF: it is none of ours.
pub(super) fn get(fd: c_int) -> Result<Known, Errno> {
    find(fd).ok_or(Errno(libc::EBADF))
}

/// The socket with this number, for what only streams can do.
///
/// # Errors
/// EBADF: it is none of ours; EOPNOTSUPP: it is one of datagrams.
pub(super) fn stream(fd: c_int) -> Result<Arc<Socket<State>>, Errno> {
    match get(fd)? {
        Known::Stream(socket) => Ok(socket),
        Known::Datagram(_) => Err(NOT_SUPPORTED),
    }
}

/// # Errors
/// EBADF: it is none of ours.
pub(super) fn remove(fd: c_int) -> Result<Known, Errno> {
    let mut sockets = SOCKETS.write().unwrap_or_else(PoisonError::into_inner);
    sockets.remove(&fd).ok_or(Errno(libc::EBADF))
}
