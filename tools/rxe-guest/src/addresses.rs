//! The addresses of both ends of the wire.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Our end of the tap.
pub const HOST_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Our end of the tap.
pub const HOST_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
/// The guest's end.
pub const GUEST_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The guest's end.
pub const GUEST_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);

/// `10.77.0.1/24` or `fd77::1/64`.
pub fn with_prefix(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 24 } else { 64 })
}

/// The address that a line of the kernel's GID table stands for; `None` when it is not a GID.
///
/// An IPv4 address is stored as `::ffff:a.b.c.d`.
pub fn from_gid(text: &str) -> Option<IpAddr> {
    text.parse::<Ipv6Addr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_are_addresses() {
        assert_eq!(from_gid("0000:0000:0000:0000:0000:ffff:0a4d:0002"), Some(GUEST_V4.into()));
        assert_eq!(from_gid("fd77:0000:0000:0000:0000:0000:0000:0002"), Some(GUEST_V6.into()));
        assert_eq!(from_gid("not a gid"), None);
    }
}
