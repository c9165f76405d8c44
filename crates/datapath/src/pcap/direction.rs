//! Which way a packet went.

/// Which way a captured packet went, as the capturing device saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It arrived.
    Inbound,
    /// It was sent.
    Outbound,
}
