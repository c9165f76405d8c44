//! Memory of a peer.

use std::fmt;
use std::ops::RangeBounds;
use std::str::FromStr;

use uroce_memory::Rkey;

use crate::error::BadText;
use crate::range::start_and_length;

/// Memory of a peer, as a work request names it: an address, a key, a length. Only the peer's NIC decides
/// whether access is granted.
///
/// The peer makes it with [`MemoryRegion::remote`](crate::MemoryRegion::remote) or
/// [`MemoryWindow::remote`](crate::MemoryWindow::remote) and sends it by any means; or [`new`](Self::new) makes it
/// from the three numbers. It has a text form, a binary form, and with the feature `serde` one of serde:
///
/// ```
/// # use uroce_verbs::{RemoteSlice, Rkey};
/// let there = RemoteSlice::new(0x7f00_0000_1000, Rkey(0x0102_0304), 64);
/// assert_eq!(there.to_string(), "64 bytes at 0x7f0000001000 under rkey 0x01020304");
/// assert_eq!(there.to_string().parse(), Ok(there));
/// assert_eq!(RemoteSlice::from_bytes(&there.to_bytes()), there);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteSlice {
    /// Address of the first byte, as the peer registered it.
    pub addr: u64,
    /// The key that the peer's region or window has.
    pub rkey: Rkey,
    /// Number of bytes.
    pub len: u64,
}

const EXPECTED: &str =
    "remote memory, such as \"64 bytes at 0x7f0000001000 under rkey 0x01020304\"";

impl RemoteSlice {
    /// Bytes of the binary form.
    pub const LEN: usize = 20;

    /// The binary form: address, length and key, big endian.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.addr.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rkey.0.to_be_bytes());
        bytes
    }

    /// Reads the binary form. Any bytes are one: only the peer's NIC can tell what they are worth.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let rkey = Rkey(number(&bytes[16..]) as u32);
        RemoteSlice { addr: number(&bytes[..8]), len: number(&bytes[8..16]), rkey }
    }

    /// `len` bytes at `addr` under `rkey`.
    pub fn new(addr: u64, rkey: Rkey, len: u64) -> Self {
        RemoteSlice { addr, rkey, len }
    }

    /// A part of this memory. A range that reaches beyond its end is not cut: the peer will refuse the request.
    ///
    /// ```
    /// # use uroce_verbs::{RemoteSlice, Rkey};
    /// let all = RemoteSlice::new(0x1000, Rkey(7), 64);
    /// assert_eq!(all.part(8..16), RemoteSlice::new(0x1008, Rkey(7), 8));
    /// assert_eq!(all.part(8..).len, 56);
    /// ```
    #[must_use]
    pub fn part(&self, range: impl RangeBounds<usize>) -> Self {
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        let (start, len) = start_and_length(range, len);
        RemoteSlice { addr: self.addr.wrapping_add(start), rkey: self.rkey, len }
    }
}

impl fmt::Display for RemoteSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} under rkey {}", self.len, self.addr, self.rkey)
    }
}

impl FromStr for RemoteSlice {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        parse(text).ok_or_else(|| BadText::new(EXPECTED, text))
    }
}

fn parse(text: &str) -> Option<RemoteSlice> {
    let (len, rest) = text.trim().split_once(" bytes at 0x")?;
    let (addr, rkey) = rest.split_once(" under rkey 0x")?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if ![len, addr, rkey].into_iter().all(plain) {
        return None;
    }
    Some(RemoteSlice {
        addr: u64::from_str_radix(addr, 16).ok()?,
        rkey: Rkey(u32::from_str_radix(rkey, 16).ok()?),
        len: len.parse().ok()?,
    })
}
