//! A peer that does what the protocol does not allow.

use uroce_ibverbs::errno::Errno;

/// The peer broke the protocol; the connection is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProtocolError;

impl From<ProtocolError> for Errno {
    fn from(_: ProtocolError) -> Errno {
        uroce_ibverbs::log::explain(
            &"the peer of an rsocket broke the protocol, so its connection is reset",
        );
        Errno(libc::ECONNRESET)
    }
}
