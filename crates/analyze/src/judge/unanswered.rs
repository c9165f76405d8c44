//! Requests that wait for their answer.

use std::time::Duration;

use crate::Timestamp;

/// A packet that is sent again and again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stuck {
    pub(super) psn: u64,
    pub(super) frame: u64,
    pub(super) copies: u32,
    pub(super) first_time: Timestamp,
    pub(super) time: Timestamp,
    pub(super) interval: Duration,
    /// The interval before; zero if there was none.
    pub(super) interval_before: Duration,
}

/// A responder that was not ready.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotReady {
    pub(super) psn: u64,
    pub(super) frame: u64,
    pub(super) naks: u32,
    pub(super) wait: Duration,
    pub(super) time: Timestamp,
    /// The packet was sent again since.
    pub(super) is_over: bool,
}

/// How often a requester sends again before it gives up, as far as connection management says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Retries {
    /// retry_cnt.
    pub(super) count: Option<u8>,
    /// rnr_retry; 7 is for ever.
    pub(super) rnr: Option<u8>,
}
