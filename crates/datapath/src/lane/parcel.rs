//! Packets on their way from one engine to another.

use crate::kept::Kept;

/// Packets in a parcel.
const PACKETS: usize = 256;

/// Bytes of payload in a parcel: any UDP payload fits.
const BYTES: usize = 64 * 1024;

/// Parcels that may be under way from one engine to another one; what is more is dropped. 4 MiB, of which only
/// what is needed is ever taken.
pub(super) const MOST: usize = 64;

/// While fewer than this are under way, a parcel leaves at once; else it waits until it is full, or the others
/// have been read.
pub(super) const PROMPT: usize = 8;

/// A box with packets. It is the sender's, and comes back to him.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) packets: Kept,
}

impl Parcel {
    pub(super) fn new(from: usize) -> Box<Self> {
        Box::new(Self { from, to: from, packets: Kept::new(PACKETS, BYTES) })
    }
}
