//! Addresses, from C and back.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libc::{c_int, sockaddr as c_sockaddr, socklen_t};
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::return_value::minus_one;
use uroce_rdmacm::sockaddr;
use uroce_rsockets::Handle;

/// An address that a program gives.
///
/// # Safety
/// `address` is null, or points to `length` bytes.
pub(super) unsafe fn read(
    address: *const c_sockaddr,
    length: socklen_t,
) -> Result<SocketAddr, Errno> {
    if address.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return Err(INVALID);
    }
    // SAFETY: the family is within the bytes that the caller promises.
    let family = c_int::from(unsafe { (*address).sa_family });
    let needed = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        // The last field may be left out.
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>() - size_of::<u32>(),
        _ => return Err(Errno(libc::EAFNOSUPPORT)),
    };
    if (length as usize) < needed {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise, and as long as its family needs.
    unsafe { sockaddr::read(address) }
}

/// Writes as much of an address as there is room for, and its whole length.
///
/// # Safety
/// `length` is null or points to a number; `to` is null or points to so many bytes.
pub(super) unsafe fn write(
    address: Option<SocketAddr>,
    to: *mut c_sockaddr,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let length = unsafe { length.as_mut() }.ok_or(INVALID)?;
    let address = address.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
    let (storage, whole) = (sockaddr::write(address), sockaddr::length(&address));
    let count = whole.min(*length) as usize;
    // SAFETY: the program's buffer has at least `count` bytes, and so has the storage.
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
        let local = Handle::get(socket)?.local();
        if addr.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the program gives a buffer and its length, as rgetsockname(3) asks.
        unsafe { write(local, addr, length) }
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
        let peer = Handle::get(socket)?.peer().ok_or(Errno(libc::ENOTCONN))?;
        if addr.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the program gives a buffer and its length, as rgetpeername(3) asks.
        unsafe { write(Some(peer), addr, length) }
    })
}
