//! Memory of a peer.

use crate::range::start_and_length;
use std::fmt;
use std::ops::RangeBounds;
use uroce_memory::Rkey;

/// Memory of a peer, as the peer told us: an address, a key, a length. Only the peer's NIC decides
/// whether access is granted.
///
/// Made by [`MemoryRegion::remote`](crate::MemoryRegion::remote) or
/// [`MemoryWindow::remote`](crate::MemoryWindow::remote) there, and sent here by any means; or put
/// together from its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteSlice {
    /// First byte, as the peer's key counts.
    pub addr: u64,
    /// The key.
    pub rkey: Rkey,
    /// Bytes.
    pub len: u64,
}

impl RemoteSlice {
    /// `len` bytes at `addr` under `rkey`.
    pub fn new(addr: u64, rkey: Rkey, len: u64) -> Self {
        RemoteSlice { addr, rkey, len }
    }

    /// A part of it. A range that reaches beyond it is not cut: the peer will refuse it.
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
