//! The sockets of the process, by their descriptors.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use libc::c_int;
use uroce_ibverbs::errno::{Errno, NOT_SUPPORTED};

use crate::connection::State;
use crate::datagrams::Datagrams;
use crate::socket::{AnySocket, Socket};

/// A socket of ours.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    Stream(Arc<Socket<State>>),
    Datagram(Arc<Socket<Datagrams>>),
}

impl Known {
    fn any(&self) -> &dyn AnySocket {
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
pub(crate) fn add(socket: Known) -> c_int {
    let fd = socket.fd();
    SOCKETS.write().unwrap_or_else(PoisonError::into_inner).insert(fd, socket);
    fd
}

/// All streams, if the list is not being changed.
pub(crate) fn streams() -> Vec<Arc<Socket<State>>> {
    let Ok(sockets) = SOCKETS.try_read() else { return Vec::new() };
    let stream = |known: &Known| match known {
        Known::Stream(socket) => Some(Arc::clone(socket)),
        Known::Datagram(_) => None,
    };
    sockets.values().filter_map(stream).collect()
}

/// A socket of this library, as a program names it by its descriptor.
#[derive(Debug, Clone)]
pub struct Handle(pub(crate) Known);

impl Handle {
    /// The socket with this number.
    ///
    /// # Errors
    /// EBADF: it is none of ours.
    pub fn get(fd: c_int) -> Result<Handle, Errno> {
        Handle::find(fd).ok_or(Errno(libc::EBADF))
    }

    /// The socket with this number, if it is one of ours.
    pub fn find(fd: c_int) -> Option<Handle> {
        let sockets = SOCKETS.read().unwrap_or_else(PoisonError::into_inner);
        sockets.get(&fd).cloned().map(Handle)
    }

    /// What sockets of both kinds can do.
    pub(crate) fn any(&self) -> &dyn AnySocket {
        self.0.any()
    }

    /// The socket, for what only streams can do.
    ///
    /// # Errors
    /// EOPNOTSUPP: it is one of datagrams.
    pub(crate) fn stream(&self) -> Result<&Arc<Socket<State>>, Errno> {
        match &self.0 {
            Known::Stream(socket) => Ok(socket),
            Known::Datagram(_) => Err(NOT_SUPPORTED),
        }
    }

    /// It sends and receives datagrams.
    pub fn is_datagram(&self) -> bool {
        matches!(self.0, Known::Datagram(_))
    }

    /// Its own address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.any().local()
    }

    /// The address of its peer.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.any().peer()
    }
}

/// # Errors
/// EBADF: it is none of ours.
pub(crate) fn remove(fd: c_int) -> Result<Known, Errno> {
    let mut sockets = SOCKETS.write().unwrap_or_else(PoisonError::into_inner);
    sockets.remove(&fd).ok_or(Errno(libc::EBADF))
}
