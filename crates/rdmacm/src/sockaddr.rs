//! Socket addresses, from C and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object::zeroed;

/// The address behind a pointer.
///
/// # Safety
/// Null, or an address as long as its family says.
///
/// # Errors
/// EINVAL: null; EAFNOSUPPORT: neither IPv4 nor IPv6.
pub unsafe fn read(address: *const sockaddr) -> Result<SocketAddr, Errno> {
    if address.is_null() {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match c_family(address) {
            libc::AF_INET => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Ok(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<sockaddr_in6>().read_unaligned();
                let ip = IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr));
                Ok(SocketAddr::new(ip.to_canonical(), u16::from_be(v6.sin6_port)))
            }
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }
}

/// # Safety
/// As for [`read`], and not null.
unsafe fn c_family(address: *const sockaddr) -> libc::c_int {
    // SAFETY: the caller's promise; every address begins with its family.
    libc::c_int::from(unsafe { std::ptr::addr_of!((*address).sa_family).read_unaligned() })
}

/// The address as C has it.
pub fn write(address: SocketAddr) -> sockaddr_storage {
    // SAFETY: bytes and integers.
    let mut storage: sockaddr_storage = unsafe { zeroed() };
    let to = &raw mut storage;
    // SAFETY: a sockaddr_storage has room, and the alignment, for both.
    unsafe {
        match address {
            SocketAddr::V4(v4) => {
                let to = to.cast::<sockaddr_in>();
                (*to).sin_family = libc::AF_INET as libc::sa_family_t;
                (*to).sin_port = v4.port().to_be();
                (*to).sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            }
            SocketAddr::V6(v6) => {
                let to = to.cast::<sockaddr_in6>();
                (*to).sin6_family = libc::AF_INET6 as libc::sa_family_t;
                (*to).sin6_port = v6.port().to_be();
                (*to).sin6_addr.s6_addr = v6.ip().octets();
            }
        }
    }
    storage
}

/// Bytes of an address in C.
pub fn length(address: &SocketAddr) -> libc::socklen_t {
    let bytes =
        if address.is_ipv4() { size_of::<sockaddr_in>() } else { size_of::<sockaddr_in6>() };
    bytes as libc::socklen_t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["127.0.0.1:7174", "[2001:db8::1]:18515"] {
            let address: SocketAddr = text.parse().expect("an address");
            let storage = write(address);
            // SAFETY: just written.
            let back = unsafe { read((&raw const storage).cast()) };
            assert_eq!(back, Ok(address));
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(std::ptr::null()) }, Err(INVALID));
    }

    #[test]
    fn an_ipv4_address_in_ipv6_is_that_address() {
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:7".parse().expect("an address");
        let storage = write(mapped);
        // SAFETY: just written.
        let back = unsafe { read((&raw const storage).cast()) };
        assert_eq!(back, Ok("10.0.0.1:7".parse().expect("an address")));
    }

    #[test]
    fn other_families_are_refused_and_lengths_are_those_of_c() {
        let mut storage = write("127.0.0.1:1".parse().expect("an address"));
        storage.ss_family = libc::AF_UNIX as libc::sa_family_t;
        // SAFETY: just written.
        let back = unsafe { read((&raw const storage).cast()) };
        assert_eq!(back, Err(Errno(libc::EAFNOSUPPORT)));
        let length = |text: &str| length(&text.parse().expect("an address"));
        assert_eq!((length("1.2.3.4:5"), length("[::1]:5")), (16, 28));
    }
}
