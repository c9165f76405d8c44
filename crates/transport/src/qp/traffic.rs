//! What one queue pair sent and received, and its window.

/// Counters of one queue pair, from its making on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QpTraffic {
    /// Bytes sent, from BTH to ICRC.
    pub sent_bytes: u64,
    /// Bytes accepted, from BTH to ICRC.
    pub rcvd_bytes: u64,
    /// Send work requests that succeeded.
    pub sent_messages: u64,
    /// Receive work requests that were completed, those that were flushed included.
    pub rcvd_messages: u64,
    /// Request packets sent again.
    pub retransmitted_pkts: u64,
    /// RNR NAKs received.
    pub rcvd_rnr_naks: u64,
    /// How much may be on its way, and how much is; of a queue pair that is acknowledged.
    pub window: Window,
}

/// How much a queue pair may have on its way to a peer that acknowledges, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Most packets.
    pub packets: u32,
    /// Packets that are on their way.
    pub outstanding: u32,
    /// What the path holds by itself (ADR 32); 0 on a short path.
    pub path: u32,
}
