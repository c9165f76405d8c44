//! Why a frame to the port of RoCE is no packet.

use thiserror::Error;

/// Why a frame is RoCE by its addresses, but no packet can be read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The first fragment of an IP packet. RoCE packets are never fragmented.
    #[error("an IP fragment: RoCE has none, and NICs drop them")]
    Fragment,
    /// Shorter on the wire than the shortest packet.
    #[error("{got} bytes, but BTH and ICRC take {need}")]
    TooShort {
        /// Bytes there are.
        got: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// A snap length left less than a BTH.
    #[error("cut within the BTH: capture with a larger snap length")]
    Cut,
    /// What the opcode announces is longer than the packet.
    #[error("{name}: {got} bytes, but headers, pad and ICRC take {need}")]
    HeadersDoNotFit {
        /// Name of the opcode.
        name: &'static str,
        /// Bytes there are.
        got: usize,
        /// Bytes there should be at least.
        need: usize,
    },
}
