//! Socket addresses as C has them.

use std::mem::zeroed;
use std::net::IpAddr;

use libc::{sockaddr_in, sockaddr_in6, sockaddr_storage};

/// An address and a port.
pub(crate) fn socket_address(ip: IpAddr, port: u16) -> sockaddr_storage {
    // SAFETY: integers.
    let mut storage: sockaddr_storage = unsafe { zeroed() };
    let place = &raw mut storage;
    // SAFETY: a sockaddr_storage has room, and the alignment, for both; integers.
    unsafe {
        match ip {
            IpAddr::V4(v4) => {
                let mut address: sockaddr_in = zeroed();
                address.sin_family = libc::AF_INET as _;
                address.sin_port = port.to_be();
                address.sin_addr.s_addr = u32::from(v4).to_be();
                place.cast::<sockaddr_in>().write(address);
            }
            IpAddr::V6(v6) => {
                let mut address: sockaddr_in6 = zeroed();
                address.sin6_family = libc::AF_INET6 as _;
                address.sin6_port = port.to_be();
                address.sin6_addr.s6_addr = v6.octets();
                place.cast::<sockaddr_in6>().write(address);
            }
        }
    }
    storage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_in_network_order() {
        let storage = socket_address([192, 0, 2, 1].into(), 0x1234);
        // SAFETY: plain bytes, all of them written.
        let bytes: [u8; 8] = unsafe { (&raw const storage).cast::<[u8; 8]>().read() };
        assert_eq!(bytes[2..], [0x12, 0x34, 192, 0, 2, 1]);
        let storage = socket_address("2001:db8::1".parse().expect("an address"), 1);
        assert_eq!(i32::from(storage.ss_family), libc::AF_INET6);
    }
}
