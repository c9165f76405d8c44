//! What may be on its way: the window of PSNs, how much of it may be used, and which packets of it ask for an ACK.

use uroce_memory::mutation::mutated;
use uroce_wire::Psn;

use super::segment::carries_payload;
use super::send_queue::SendWqe;
use crate::limits;
use crate::qp::config::QpConfig;

/// The PSNs of a requester: `una <= next <= next_new`. Everything before `una` is acknowledged, `next` goes out next,
/// `next_new` was never sent. `next < next_new` while packets are being sent again.
#[derive(Debug, Default)]
pub(crate) struct PsnWindow {
    una: Psn,
    next: Psn,
    next_new: Psn,
}

impl PsnWindow {
    /// Nothing is on its way, and `psn` is the first (R20).
    pub(crate) fn start(&mut self, psn: Psn) {
        *self = PsnWindow { una: psn, next: psn, next_new: psn };
    }

    /// The oldest PSN that is not acknowledged.
    #[inline]
    pub(crate) fn una(&self) -> Psn {
        self.una
    }

    /// The PSN that goes out next.
    #[inline]
    pub(crate) fn next(&self) -> Psn {
        self.next
    }

    /// The first PSN that was never sent.
    #[inline]
    pub(crate) fn next_new(&self) -> Psn {
        self.next_new
    }

    /// PSNs between the oldest unacknowledged one and the next to send.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.next.since(self.una).max(0) as u32
    }

    /// True while a request that was sent waits for its acknowledgement.
    #[inline]
    pub(crate) fn in_flight(&self) -> bool {
        self.next_new != self.una
    }

    /// True if `psn` was sent and is not acknowledged.
    #[inline]
    pub(crate) fn is_outstanding(&self, psn: Psn) -> bool {
        if mutated("psn-compare-plain") {
            return (self.una.get()..self.next_new.get()).contains(&psn.get());
        }
        psn.since(self.una) >= 0 && psn.since(self.next_new) < 0
    }

    /// True if what goes out next has never been out.
    #[inline]
    pub(crate) fn sends_new(&self) -> bool {
        self.next == self.next_new
    }

    /// Everything up to `psn` is acknowledged. What goes out next may be among it: then
    /// [`send_from`](Self::send_from) follows.
    #[inline]
    pub(crate) fn acknowledge(&mut self, psn: Psn) {
        debug_assert!(self.is_outstanding(psn), "acknowledged once, after it was sent");
        self.una = psn.add(1);
    }

    /// The packet with this PSN goes out next: one that was sent before, or the first new one.
    pub(crate) fn send_from(&mut self, psn: Psn) {
        debug_assert!(psn == self.next_new || self.is_outstanding(psn), "inside the window");
        self.next = psn;
    }

    /// What holds between two calls: `una <= next <= next_new`, and less than half of all PSNs (R17).
    pub(super) fn assert_invariants(&self) {
        debug_assert!(self.next.since(self.una) >= 0, "what is acknowledged does not go out again");
        debug_assert!(self.next_new.since(self.next) >= 0, "no PSN is skipped");
        debug_assert!(
            self.next_new.since(self.una) >= 0,
            "at most half of all PSNs are on their way"
        );
    }

    /// Everything before `next` has been sent, from the PSN on that went out next.
    #[inline]
    pub(crate) fn note_sent(&mut self, next: Psn) {
        debug_assert!(next.since(self.next) > 0, "each packet has PSNs");
        self.next = next;
        if next.since(self.next_new) > 0 {
            self.next_new = next;
        }
    }
}

/// Most PSNs in flight, in packets, as TCP has a congestion window in bytes; shrinks on loss, grows with progress.
#[derive(Debug)]
pub(super) struct CongestionWindow {
    packets: u32,
    /// PSNs acknowledged since the window last grew (congestion avoidance).
    acked_since_growth: u32,
    /// Nothing was lost yet, and the window doubles in each round trip.
    slow_start: bool,
}

impl Default for CongestionWindow {
    fn default() -> Self {
        let packets = limits::INITIAL_WINDOW;
        CongestionWindow { packets, acked_since_growth: 0, slow_start: true }
    }
}

impl CongestionWindow {
    /// Its size in packets of so many bytes, as a power of two.
    #[inline]
    pub(super) fn packets(&self, mtu_shift: u32) -> u32 {
        self.packets.min((limits::MAX_WINDOW_BYTES >> mtu_shift) as u32)
    }

    /// May a request with `want` PSNs go out behind `outstanding`? One always may when nothing is in flight.
    #[inline]
    pub(super) fn has_room(&self, outstanding: u32, want: u32, mtu_shift: u32) -> bool {
        outstanding == 0 || outstanding + want <= self.packets(mtu_shift)
    }

    /// The size of a window that has lost nothing.
    pub(super) fn widest(mtu_shift: u32) -> u32 {
        limits::MAX_WINDOW.min((limits::MAX_WINDOW_BYTES >> mtu_shift) as u32)
    }

    /// So many packets more are acknowledged. Until something is lost the window doubles in each round, afterwards it
    /// grows slowly.
    pub(super) fn note_progress(&mut self, acknowledged: u32) {
        if self.slow_start {
            self.packets = self.packets.saturating_add(acknowledged).min(limits::MAX_WINDOW);
            return;
        }
        self.acked_since_growth += acknowledged;
        let growth = self.acked_since_growth / limits::WINDOW_GROWTH;
        self.acked_since_growth %= limits::WINDOW_GROWTH;
        self.packets = (self.packets + growth).min(limits::MAX_WINDOW);
    }

    /// What holds between two calls.
    pub(super) fn assert_invariants(&self) {
        let bounds = limits::MIN_WINDOW..=limits::MAX_WINDOW;
        debug_assert!(bounds.contains(&self.packets), "{} packets", self.packets);
        debug_assert!(self.acked_since_growth < limits::WINDOW_GROWTH, "growth is not put off");
    }

    /// Loss: a quarter less in flight.
    pub(super) fn note_loss(&mut self) {
        self.packets = (self.packets - self.packets / 4).max(limits::MIN_WINDOW);
        self.acked_since_growth = 0;
        self.slow_start = false;
    }

    /// The peer did not answer at all: as little as there can be in flight.
    pub(super) fn note_silence(&mut self) {
        self.note_loss();
        self.packets = limits::MIN_WINDOW;
    }

    /// Loss of a packet whose followers have arrived: a little less in flight.
    pub(super) fn note_single_loss(&mut self) {
        let less = self.packets - self.packets / limits::SINGLE_LOSS_SHARE;
        self.packets = less.max(limits::MIN_WINDOW);
        self.slow_start = false;
    }
}

/// Which packets ask for an ACK (R82, ADR 18): when one last did, in packets.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r15_outstanding_psns_across_the_wrap() {
        let mut window = PsnWindow::default();
        window.start(Psn::new(0xff_fffe));
        window.note_sent(Psn::new(3));
        assert_eq!(window.outstanding(), 5);
        assert!(window.is_outstanding(Psn::new(0xff_ffff)));
        assert!(window.is_outstanding(Psn::new(2)));
        assert!(!window.is_outstanding(Psn::new(3)));
        assert!(!window.is_outstanding(Psn::new(0xff_fffd)));
    }

    #[test]
    fn r17_no_window_at_any_mtu_comes_near_half_of_all_psns() {
        let mut window = CongestionWindow::default();
        (0..100_000).for_each(|_| window.note_progress(limits::MAX_WINDOW));
        for mtu_shift in 8..=12 {
            let widest = window.packets(mtu_shift);
            assert!(widest == CongestionWindow::widest(mtu_shift) && widest < 1 << 23);
            assert!(window.has_room(widest - 1, 1, mtu_shift));
            assert!(!window.has_room(widest, 1, mtu_shift));
        }
    }

    #[test]
    fn the_window_shrinks_on_loss_and_stays_in_bounds() {
        let mut window = CongestionWindow::default();
        for _ in 0..20 {
            window.note_loss();
        }
        assert_eq!(window.packets, limits::MIN_WINDOW);
        for _ in 0..100_000 {
            window.note_progress(1);
        }
        assert_eq!(window.packets, limits::MAX_WINDOW);
    }
}
