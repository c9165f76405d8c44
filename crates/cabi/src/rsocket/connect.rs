//! Making sockets, connecting and closing them.

use libc::{c_int, sockaddr as c_sockaddr, socklen_t};
use uroce_ibverbs::return_value::{minus_one, number};
use uroce_rsockets::Handle;

use super::{address, epoll};

/// rsocket(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    number(|| uroce_rsockets::socket(domain, kind, protocol))
}

/// rbind(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rbind(
    socket: c_int,
    addr: *const c_sockaddr,
    length: socklen_t,
) -> c_int {
    minus_one(|| {
        let socket = Handle::get(socket)?;
        // SAFETY: the program gives an address and its length, as rbind(3) asks.
        socket.bind(unsafe { address::read(addr, length)? })
    })
}

/// rlisten(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rlisten(socket: c_int, backlog: c_int) -> c_int {
    minus_one(|| Handle::get(socket)?.listen(backlog))
}

/// rconnect(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rconnect(
    socket: c_int,
    addr: *const c_sockaddr,
    length: socklen_t,
) -> c_int {
    minus_one(|| {
        let socket = Handle::get(socket)?;
        // SAFETY: the program gives an address and its length, as rconnect(3) asks.
        socket.connect(unsafe { address::read(addr, length)? })
    })
}

/// raccept(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn raccept(
    socket: c_int,
    addr: *mut c_sockaddr,
    length: *mut socklen_t,
) -> c_int {
    number(|| {
        let accepted = Handle::get(socket)?.accept()?;
        // SAFETY: null, or a buffer and its length, as raccept(3) asks.
        unsafe { address::write(accepted.peer(), addr, length)? };
        Ok(accepted.into_fd())
    })
}

/// rshutdown(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rshutdown(socket: c_int, how: c_int) -> c_int {
    minus_one(|| Handle::get(socket)?.shutdown(how))
}

/// rclose(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rclose(socket: c_int) -> c_int {
    minus_one(|| {
        Handle::get(socket)?;
        epoll::forget(socket);
        uroce_rsockets::close(socket)
    })
}
