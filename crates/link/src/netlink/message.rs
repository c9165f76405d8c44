//! Netlink messages: a header, a body that the message type defines, and attributes.

use std::net::IpAddr;
use std::ops::Range;

use rustix::io::Errno;

/// Bytes of the message header: length, type, flags, sequence number, port.
const HEADER: usize = 16;

/// Bytes of an attribute's header: length, type.
const ATTRIBUTE: usize = 4;

/// Longest request: header, body of 16, an attribute of 4 and two of 16 bytes.
const REQUEST: usize = HEADER + 16 + 3 * ATTRIBUTE + 4 + 2 * 16;

/// `NLMSG_ERROR`.
const ERROR: u16 = 2;

/// `NLM_F_REQUEST`.
const IS_REQUEST: u16 = 1;

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: [u8; REQUEST],
    len: usize,
}

impl Request {
    /// A request with its body, whose length is a multiple of 4.
    pub(crate) fn new(kind: u16, body: &[u8]) -> Self {
        let mut bytes = [0; REQUEST];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&IS_REQUEST.to_ne_bytes());
        bytes[HEADER..HEADER + body.len()].copy_from_slice(body);
        Self { bytes, len: HEADER + body.len() }
    }

    /// Adds an attribute, whose length is a multiple of 4.
    pub(crate) fn push(&mut self, kind: u16, value: &[u8]) {
        let (at, length) = (self.len, ATTRIBUTE + value.len());
        self.bytes[at..at + 2].copy_from_slice(&(length as u16).to_ne_bytes());
        self.bytes[at + 2..at + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes[at + ATTRIBUTE..at + length].copy_from_slice(value);
        self.len += length;
    }

    pub(crate) fn push_address(&mut self, kind: u16, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => self.push(kind, &ip.octets()),
            IpAddr::V6(ip) => self.push(kind, &ip.octets()),
        }
    }

    /// The bytes to send.
    pub(crate) fn finish(&mut self, sequence: u32) -> &[u8] {
        self.bytes[..4].copy_from_slice(&(self.len as u32).to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes[..self.len]
    }
}

/// Where the body of the answer with that sequence number is in `bytes`, or the kernel's error;
/// `None` when it is an answer to something else.
pub(crate) fn answer(bytes: &[u8], sequence: u32) -> Option<Result<Range<usize>, Errno>> {
    let length = usize::try_from(number(bytes)?).ok()?.min(bytes.len());
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    if number(bytes.get(8..)?)? != sequence {
        return None;
    }
    if kind == ERROR {
        let code = i32::from_ne_bytes(*bytes.get(HEADER..)?.first_chunk()?);
        return Some(Err(Errno::from_raw_os_error(code.saturating_neg())));
    }
    (length >= HEADER).then_some(Ok(HEADER..length))
}

/// The attributes of a message, or within an attribute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Those behind the fixed part of a body.
    pub(crate) fn after(body: &'a [u8], fixed: usize) -> Self {
        Self(body.get(fixed..).unwrap_or_default())
    }

    /// Those within an attribute.
    pub(crate) fn of(value: &'a [u8]) -> Self {
        Self(value)
    }

    /// The value of the first attribute of that type.
    pub(crate) fn find(self, wanted: u16) -> Option<&'a [u8]> {
        self.iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }

    /// Type and value of each.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (kind, value, next) = split(rest)?;
            rest = next;
            Some((kind, value))
        })
    }
}

/// Type and value of the first attribute, and what follows it.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
    let value = bytes.get(ATTRIBUTE..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    // The two top bits are flags.
    Some((kind & 0x3fff, value, next))
}

/// A 32-bit number at the start of `bytes`.
pub(crate) fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.first_chunk()?))
}

/// An address by the length of its bytes.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_are_found_behind_each_other() {
        let mut request = Request::new(26, &[1; 12]);
        request.push(4, &7u32.to_ne_bytes());
        request.push_address(1, "10.1.2.3".parse().expect("v4"));
        request.push_address(2, "fd00::1".parse().expect("v6"));
        let bytes = request.finish(99).to_vec();
        let body = answer(&bytes, 99).expect("ours").expect("no error");
        let attributes = Attributes::after(&bytes[body], 12);
        assert_eq!(attributes.find(4).and_then(number), Some(7));
        assert_eq!(attributes.find(1).and_then(address), "10.1.2.3".parse().ok());
        assert_eq!(attributes.find(2).and_then(address), "fd00::1".parse().ok());
        assert_eq!(attributes.find(3), None);
        assert!(answer(&bytes, 98).is_none());
    }

    #[test]
    fn the_kernels_error_is_read() {
        let mut request = Request::new(ERROR, &(-libc::ENOENT).to_ne_bytes());
        assert_eq!(answer(request.finish(5), 5), Some(Err(Errno::NOENT)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..96), kind in 0u16..32,
        ) {
            if bytes.len() >= 12 {
                bytes[8..12].fill(0);
            }
            if let Some(Ok(body)) = answer(&bytes, 0) {
                let found = Attributes::after(&bytes[body], 12).find(kind);
                prop_assert!(found.is_none_or(|value| value.len() < bytes.len()));
            }
        }
    }
}
