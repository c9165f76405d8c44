//! `rgetsockname` and `rgetpeername`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libc::{c_int, sockaddr as c_sockaddr, socklen_t};

use super::directory;
use crate::errno::{Errno, INVALID};
use crate::outcome::minus_one;
use crate::rdmacm::sockaddr;

/// Writes as much of an address as there is room for, and its whole length.
///
/// # Safety
/// By the contract.
pub(super) unsafe fn give(
    address: Option<SocketAddr>,
    to: *mut c_sockaddr,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: by the contract.
    let length = unsafe { length.as_mut() }.ok_or(INVALID)?;
    let address = address.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
    let (storage, whole) = (sockaddr::write(address), sockaddr::length(&address));
    let count = whole.min(*length) as usize;
    // SAFETY: by the contract there are `length` bytes, and the storage has as many.
    unsafe { (&raw const storage).cast::<u8>().copy_to(to.cast(), count) };
    *length = whole;
    Ok(())
}

/// rgetsockname(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rgetsockname(
    socket: c_int,
    addr: *mut c_sockaddr,
    length: *mut socklen_t,
) -> c_int {
    minus_one(|| {
        let local = directory::get(socket)?.any().local();
        if addr.is_null() {
            return Err(INVALID);
        }
        // SAFETY: by the contract.
        unsafe { give(local, addr, length) }
    })
}

/// rgetpeername(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rgetpeername(
    socket: c_int,
    addr: *mut c_sockaddr,
    length: *mut socklen_t,
) -> c_int {
    minus_one(|| {
        let peer = directory::get(socket)?.any().peer().ok_or(Errno(libc::ENOTCONN))?;
        if addr.is_null() {
            return Err(INVALID);
        }
        // SAFETY: by the contract.
        unsafe { give(Some(peer), addr, length) }
    })
}
