//! Requests that wait for their answer.

use std::net::IpAddr;
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

impl Stuck {
    /// What was sent how often, in words.
    pub(super) fn words(&self) -> String {
        let psn = self.psn & 0xff_ffff;
        format!("PSN {psn:#x} sent {} times until frame {}", self.copies, self.frame)
    }
}

/// What came from the end that requests go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Answers to them.
    Answers,
    /// No answer, but the requester went on as if it had some: they took another way than the one that was captured.
    Elsewhere,
    /// No answer. Whether anything else came is not known.
    NoAnswer,
    /// No answer, but other packets of this address.
    Others(IpAddr),
    /// Nothing at all of this address.
    Nothing(IpAddr),
}

impl Heard {
    /// What keeps away the answers to a packet that was sent again and again.
    pub(super) fn explain(self, stuck: &Stuck) -> String {
        let what = stuck.words();
        match self {
            Self::Answers | Self::Elsewhere | Self::NoAnswer => what,
            Self::Others(address) => format!(
                "{what}; no answer came, only other packets of {address}: its queue pair is not ready, or the number is wrong"
            ),
            Self::Nothing(address) => format!(
                "nothing ever came from {address}: it was not reached, UDP 4791 is closed there, the queue pair number \
                 is wrong, or the capture has one direction only; {what}"
            ),
        }
    }
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
    /// Something else asks for the packet sooner than the wait is over.
    pub(super) is_cut_short: bool,
}

/// How often a requester sends again before it gives up, as far as connection management says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Retries {
    /// retry_cnt.
    pub(super) count: Option<u8>,
    /// rnr_retry; 7 is for ever.
    pub(super) rnr: Option<u8>,
}
