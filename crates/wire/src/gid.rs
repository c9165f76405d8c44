//! Global identifiers.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// A GID: an IPv6 address, or an IPv4 address mapped into one (docs/wire.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Gid([u8; 16]);

/// The text is not a GID: neither 32 hexadecimal digits nor an IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadGid;

impl fmt::Display for BadGid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a GID: 32 hexadecimal digits, or an IP address, are expected")
    }
}

impl core::error::Error for BadGid {}

impl Gid {
    /// The GID with these bytes.
    pub const fn new(bytes: [u8; 16]) -> Gid {
        Gid(bytes)
    }

    /// The GID of an address.
    pub fn from_ip(ip: IpAddr) -> Gid {
        match ip {
            IpAddr::V4(ip) => Gid(ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => Gid(ip.octets()),
        }
    }

    /// Its address: IPv4 where one is mapped.
    pub fn to_ip(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }

    /// `fe80::` and the EUI-64 of a MAC address.
    pub fn link_local(mac: [u8; 6]) -> Gid {
        let [a, b, c, d, e, f] = mac;
        Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
    }

    /// Its 16 bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// True if it is all zeros.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }

    /// As `ibv_*_pingpong` and perftest send it: 32 hexadecimal digits.
    pub fn to_wire_hex(self) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut out = [0; 32];
        for (pair, byte) in out.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out
    }

    /// Reads [`Gid::to_wire_hex`].
    pub fn from_wire_hex(text: &[u8]) -> Result<Gid, BadGid> {
        let digits: &[u8; 32] = text.try_into().map_err(|_| BadGid)?;
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16).ok_or(BadGid);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Gid(bytes))
    }
}

impl core::str::FromStr for Gid {
    type Err = BadGid;

    fn from_str(text: &str) -> Result<Gid, BadGid> {
        match text.parse::<IpAddr>() {
            Ok(ip) => Ok(Gid::from_ip(ip)),
            Err(_) => Gid::from_wire_hex(text.as_bytes()),
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from(self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e9_ipv4_addresses_are_mapped_and_come_back() {
        let ip: IpAddr = "10.77.0.11".parse().unwrap();
        let gid = Gid::from_ip(ip);
        assert_eq!(&gid.to_wire_hex(), b"00000000000000000000ffff0a4d000b");
        assert_eq!(gid.to_ip(), ip);
        assert_eq!(Gid::from_wire_hex(&gid.to_wire_hex()), Ok(gid));
        assert_eq!("10.77.0.11".parse(), Ok(gid));
    }

    #[test]
    fn link_local_is_the_eui_64_of_the_mac() {
        let gid = Gid::link_local([0x52, 0x54, 0, 0, 0, 0x11]);
        assert_eq!(gid.to_ip(), "fe80::5054:ff:fe00:11".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn text_that_is_no_gid_is_refused() {
        assert_eq!("".parse::<Gid>(), Err(BadGid));
        assert_eq!(Gid::from_wire_hex(&[b'g'; 32]), Err(BadGid));
        assert_eq!(Gid::from_wire_hex(b"00"), Err(BadGid));
    }
}
