//! Socket addresses in the kernel's byte layout.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Bytes of the longest name: `sockaddr_in6`.
pub const NAME: usize = 28;

/// Bytes of an IPv4 name: `sockaddr_in`.
const NAME_V4: usize = 16;

/// A socket address as the kernel reads and writes it.
pub type Name = [u8; NAME];

/// Length of a name of this family; `None` when it is not IP.
pub fn length_of(family: libc::sa_family_t) -> Option<usize> {
    match libc::c_int::from(family) {
        libc::AF_INET => Some(NAME_V4),
        libc::AF_INET6 => Some(NAME),
        _ => None,
    }
}

/// Writes `addr` in the kernel's layout; returns how many bytes it takes.
pub fn encode(addr: &SocketAddr, name: &mut Name) -> usize {
    name.fill(0);
    name[2..4].copy_from_slice(&addr.port().to_be_bytes());
    match addr {
        SocketAddr::V4(addr) => {
            name[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            name[4..8].copy_from_slice(&addr.ip().octets());
            NAME_V4
        }
        SocketAddr::V6(addr) => {
            name[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            name[8..24].copy_from_slice(&addr.ip().octets());
            name[24..28].copy_from_slice(&addr.scope_id().to_ne_bytes());
            NAME
        }
    }
}

/// Reads an address in the kernel's layout. Flow label and scope are left out, so that equal hosts
/// compare as equal.
pub fn decode(name: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*name.first_chunk()?);
    let port = u16::from_be_bytes(*name.get(2..)?.first_chunk()?);
    if length_of(family)? == NAME_V4 {
        let ip: [u8; 4] = *name.get(4..)?.first_chunk()?;
        return Some(SocketAddrV4::new(Ipv4Addr::from(ip), port).into());
    }
    let ip: [u8; 16] = *name.get(8..)?.first_chunk()?;
    Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, 0).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_survive_the_round_trip() {
        for text in ["10.1.2.3:4791", "[fd00::1]:50000"] {
            let addr: SocketAddr = text.parse().expect("address");
            let mut name = [0xff; NAME];
            let length = encode(&addr, &mut name);
            assert_eq!(decode(&name[..length]), Some(addr));
        }
    }

    #[test]
    fn layout_is_that_of_the_c_library() {
        let addr: SocketAddr = "10.1.2.3:4791".parse().expect("address");
        let theirs = socket2::SockAddr::from(addr);
        let mut name = [0; NAME];
        assert_eq!(encode(&addr, &mut name), theirs.len() as usize);
        assert_eq!(theirs.as_socket(), decode(&name));
    }

    #[test]
    fn a_short_or_foreign_name_is_refused() {
        let mut name = [0; NAME];
        let length = encode(&"[::1]:1".parse().expect("address"), &mut name);
        assert_eq!(decode(&name[..length - 5]), None);
        assert_eq!(decode(&[]), None);
        name[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
        assert_eq!(decode(&name), None);
    }
}
