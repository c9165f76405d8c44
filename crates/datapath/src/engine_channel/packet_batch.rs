//! Batches of packets from one engine to another.

use crate::packet_queue::PacketQueue;

/// Most packets in a batch.
const PACKETS: usize = 256;

/// Most bytes of payload in a batch: any UDP payload fits.
const BYTES: usize = 64 * 1024;

/// Most batches in transit from one engine to another; further packets are dropped. 4 MiB,
/// allocated as needed.
pub(super) const MAX_BATCHES: usize = 64;

/// With fewer batches in transit, a batch is sent at once; else it waits until it is full, or the
/// others have been read.
pub(super) const EAGER_BATCHES: usize = 8;

/// A buffer with packets, owned by the sender, to which it returns.
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
