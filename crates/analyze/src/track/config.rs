//! Limits of a tracker, and what it is told about the traffic.

use std::time::Duration;

/// What a [`Tracker`](super::Tracker) keeps at most, and what it takes for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackerConfig {
    /// Flows that are followed; packets of further ones are counted and not followed.
    pub max_flows: usize,
    /// PSNs that are remembered for each flow; rounded up to a power of two.
    pub max_psns: usize,
    /// PSNs that are remembered for all flows together.
    pub max_psns_in_all: usize,
    /// Messages of a flow that may be under way; beyond it the oldest one is closed as it is.
    pub max_open_messages: usize,
    /// Finished messages that wait for [`poll_message`](super::Tracker::poll_message); beyond it the
    /// oldest one is lost to the caller. It is part of all figures.
    pub max_finished_messages: usize,
    /// Slowest messages that are remembered for each flow.
    pub slowest_messages: usize,
    /// Exchanges of connection management that are remembered.
    pub max_connections: usize,
    /// A packet of another flow or of an answer may be this many packets before its cause in the
    /// capture: several receive queues and interfaces are not captured in order.
    pub order_tolerance: u32,
    /// Local ACK timeout of the requesters, if it is known and connection management does not tell.
    pub ack_timeout: Option<Duration>,
    /// Path MTU in bytes, if it is known; otherwise it is learned from full packets.
    pub path_mtu: Option<u32>,
}

impl Default for TrackerConfig {
    fn default() -> Self {
        Self {
            max_flows: 4096,
            max_psns: 4096,
            max_psns_in_all: 1 << 22,
            max_open_messages: 1024,
            max_finished_messages: 1024,
            slowest_messages: 8,
            max_connections: 4096,
            order_tolerance: 64,
            ack_timeout: None,
            path_mtu: None,
        }
    }
}
