//! Packets on their way from one engine to another.

use crate::packet_queue::PacketQueue;

/// Packets in a parcel.
const PACKETS: usize = 256;

/// Bytes of payload in a parcel: any UDP payload fits.
const BYTES: usize = 64 * 1024;

/// Parcels that may be under way from one engine to another one; what is more is dropped. 4 MiB, of which only
/// what is needed is ever taken.
pub(super) const MAX_BATCHES: usize = 64;

/// While fewer than this are under way, a parcel leaves at once; else it waits until it is full, or the others
/// have been read.
pub(super) const EAGER_BATCHES: usize = 8;

/// A box with packets. It is the sender's, and comes back to him.
#[derive(Debug)]
pub(super) struct PacketBatch {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) packets: PacketQueue,
}

impl PacketBatch {
    pub(super) fn new(from: usize) -> Box<Self> {
        Box::new(Self { from, to: from, packets: PacketQueue::new(PACKETS, BYTES) })
    }
}
