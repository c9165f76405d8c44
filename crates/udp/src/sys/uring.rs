//! io_uring(7): messages that arrive in buffers which the kernel picks, and batches of sends.

mod pool;
mod recv;
mod send;

use std::io;

use io_uring::IoUring;
use io_uring::types::CancelBuilder;

pub(crate) use self::recv::{Arrival, Held, RecvRing};
pub(crate) use self::send::SendRing;

/// Whether this kernel can cancel what a ring waits for and be sure of it (Linux 6.0); multishot
/// receives came with the same version.
fn can_cancel(ring: &IoUring) -> bool {
    match ring.submitter().register_sync_cancel(None, CancelBuilder::any()) {
        Ok(()) => true,
        // There is nothing to cancel yet.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
