//! Which packets ask for an ACK (R82, ADR 18).

use super::segment::carries_payload;
use super::send_queue::SendWqe;
use crate::limits;
use crate::qp::config::QpConfig;

/// When a packet asked for an ACK, in packets.
#[derive(Debug, Default)]
pub(super) struct AckRequests {
    /// Packets since the last one with AckReq.
    since: u32,
    /// An ACK was asked for a moment ago, so that unsignaled messages leave without AckReq.
    suppressed: bool,
}

impl AckRequests {
    /// Nothing that is on its way asks for an ACK.
    pub(super) fn reset(&mut self) {
        self.since = 0;
    }

    /// Whether unsignaled messages leave without AckReq now.
    #[inline]
    pub(super) fn suppress(&mut self, suppressed: bool) {
        self.suppressed = suppressed;
    }

    /// One of the next `packets` packets has to ask for an ACK, with so many outstanding before them and that window; if
    /// they leave together, the last does.
    #[inline]
    pub(super) fn is_due(&self, packets: u32, outstanding: u32, window: u32) -> bool {
        self.since + packets >= (window / limits::ACKS_PER_WINDOW).max(1)
            || outstanding + packets >= window
    }

    /// The same for a packet that is sent again out of turn.
    pub(super) fn is_due_alone(outstanding: u32, window: u32) -> bool {
        AckRequests::default().is_due(1, outstanding, window)
    }

    /// `packets` packets have left, of which the last asks for an ACK or none does.
    #[inline]
    pub(super) fn note_sent(&mut self, packets: u32, asked: bool) {
        self.since = if asked { 0 } else { self.since + packets };
    }

    /// One packet has left in its turn, behind `outstanding` others. True if it begins a silence: asking is suppressed, and
    /// nothing that is outstanding asks.
    #[inline]
    pub(super) fn note_in_turn(&mut self, asked: bool, outstanding: u32) -> bool {
        self.note_sent(1, asked);
        self.suppressed && !asked && self.since > outstanding
    }

    /// A message that has never been out leaves without AckReq: no completion is waited for, and a later one will ask
    /// soon or a tail probe does (docs/adr/018-acks-nobody-waits-for.md).
    #[inline]
    pub(super) fn spares(&self, config: &QpConfig, wqe: &SendWqe) -> bool {
        self.suppressed && carries_payload(&wqe.op) && !config.is_signaled(wqe.flags)
    }

    /// The next packet asks.
    pub(super) fn demand(&mut self) {
        self.since = limits::MAX_WINDOW;
    }

    /// The next packet asks if what has left is not covered by an ACK that was asked for.
    pub(super) fn cover(&mut self) -> bool {
        let uncovered = self.since > 0;
        if uncovered {
            self.demand();
        }
        uncovered
    }
}
