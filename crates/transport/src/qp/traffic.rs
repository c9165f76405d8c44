//! What one queue pair sent and received.

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
}
