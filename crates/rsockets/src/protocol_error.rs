//! A peer that does what the protocol does not allow.

use crate::errno::Errno;

/// The peer broke the protocol; the connection is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

impl From<Broken> for Errno {
    fn from(_: Broken) -> Errno {
        crate::log::explain(
            &"the peer of an rsocket broke the protocol, so its connection is reset",
        );
        Errno(libc::ECONNRESET)
    }
}
