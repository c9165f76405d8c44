//! The message sequence number that an acknowledgement must have.

use std::collections::VecDeque;

use uroce_wire::Packet;

/// Ends of messages that are remembered: more than a window.
const MOST: usize = 1024;
/// How many MSNs there are.
const MSNS: u32 = 1 << 24;

/// The messages that have arrived at a responder, counted as long as that is simple: every request has arrived in its
/// order, and none was refused or put off.
#[derive(Debug, Default)]
pub(super) struct MessageCount {
    ended: u32,
    /// PSNs at which messages have ended, and how many had by then.
    ends: VecDeque<(u64, u32)>,
    is_over: bool,
}

impl MessageCount {
    /// A request with the PSN that is due, whose last PSN is `last`.
    pub(super) fn handle_in_order(&mut self, packet: &Packet<'_>, last: u64) {
        if self.is_over || !packet.info.ends() {
            return;
        }
        self.ended = (self.ended + 1) % MSNS;
        if self.ends.len() == MOST {
            self.ends.pop_front();
        }
        self.ends.push_back((last, self.ended));
    }

    /// A request did not arrive in its order, or was not executed.
    pub(super) fn stop(&mut self) {
        self.is_over = true;
    }

    /// The MSN of an ACK of everything up to `psn`, as far as that is known.
    pub(super) fn msn_at(&self, psn: u64) -> Option<u32> {
        let known = self.ends.iter().rev().find(|(last, _)| *last <= psn);
        known.map(|(_, count)| *count).filter(|_| !self.is_over)
    }
}
