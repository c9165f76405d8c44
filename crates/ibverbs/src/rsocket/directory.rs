//! Which socket a number is.

use super::socket::Socket;
use crate::errno::Errno;
use libc::c_int;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

static SOCKETS: LazyLock<RwLock<HashMap<c_int, Arc<Socket>>>> = LazyLock::new(RwLock::default);

/// From now on the socket is known by its descriptor.
pub(super) fn add(socket: Socket) -> c_int {
    let fd = socket.fd;
    SOCKETS.write().unwrap_or_else(PoisonError::into_inner).insert(fd, Arc::new(socket));
    fd
}

/// The socket with this number, if it is one of ours.
pub(super) fn find(fd: c_int) -> Option<Arc<Socket>> {
    SOCKETS.read().unwrap_or_else(PoisonError::into_inner).get(&fd).cloned()
}

/// # Errors
/// EBADF: it is none of ours.
pub(super) fn get(fd: c_int) -> Result<Arc<Socket>, Errno> {
    find(fd).ok_or(Errno(libc::EBADF))
}

/// # Errors
/// EBADF: it is none of ours.
pub(super) fn remove(fd: c_int) -> Result<Arc<Socket>, Errno> {
    let mut sockets = SOCKETS.write().unwrap_or_else(PoisonError::into_inner);
    sockets.remove(&fd).ok_or(Errno(libc::EBADF))
}
