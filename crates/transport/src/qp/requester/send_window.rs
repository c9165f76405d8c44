//! What may be on its way: the window of PSNs, how much of it may be used, and which packets of it ask for an ACK.

use uroce_memory::mutation::mutated;
use uroce_wire::Psn;

use super::path_capacity::{PathCapacity, RoundTrip};
use super::read_split::read_split;
use super::segment::carries_payload;
use super::send_queue::SendWqe;
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp::run::middle_train;
use crate::time::Instant;

/// The PSNs of a requester: `una <= next <= next_new`. Everything before `una` is acknowledged, `next` goes out next,
/// `next_new` was never sent. `next < next_new` while packets are being sent again.
#[derive(Debug, Default)]
pub(crate) struct PsnWindow {
    una: Psn,
    next: Psn,
    next_new: Psn,
    /// Behind a timeout: everything before it goes out again, however small the congestion window is.
    resend_to: Option<Psn>,
}

impl PsnWindow {
    /// Nothing is on its way, and `psn` is the first (R20).
    pub(crate) fn start(&mut self, psn: Psn) {
        *self = PsnWindow { una: psn, next: psn, next_new: psn, resend_to: None };
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
        self.end_resending();
    }

    /// R57: the peer is silent, and there are READs and atomics up to `end`. If it has executed them it goes on to say nothing
    /// about duplicates of what is before them: only they themselves draw answers, so that they have to be sent again.
    pub(super) fn resend_to(&mut self, end: Psn) {
        let end = if end.since(self.next_new) > 0 { self.next_new } else { end };
        self.resend_to = Some(end);
        self.end_resending();
    }

    /// What goes out next does so whatever the congestion window.
    pub(super) fn must_resend(&self) -> bool {
        self.resend_to.is_some()
    }

    fn end_resending(&mut self) {
        self.resend_to = self.resend_to.filter(|end| end.since(self.next) > 0);
    }

    /// What holds between two calls: `una <= next <= next_new`, and less than half of all PSNs (R17).
    pub(super) fn assert_invariants(&self) {
        debug_assert!(self.next.since(self.una) >= 0, "what is acknowledged does not go out again");
        debug_assert!(self.next_new.since(self.next) >= 0, "no PSN is skipped");
        debug_assert!(
            self.next_new.since(self.una) >= 0,
            "at most half of all PSNs are on their way"
        );
        let resent = |end: Psn| end.since(self.next) > 0 && self.next_new.since(end) >= 0;
        debug_assert!(self.resend_to.is_none_or(resent), "only what was sent is sent again");
    }

    /// Everything before `next` has been sent, from the PSN on that went out next.
    #[inline]
    pub(crate) fn note_sent(&mut self, next: Psn) {
        debug_assert!(next.since(self.next) > 0, "each packet has PSNs");
        self.next = next;
        if next.since(self.next_new) > 0 {
            self.next_new = next;
        } else {
            self.end_resending();
        }
    }
}

/// Most PSNs in flight, in packets, as TCP has a congestion window in bytes; shrinks on loss, grows with progress.
#[derive(Debug)]
pub(in crate::qp) struct CongestionWindow {
    packets: u32,
    /// It does not grow beyond this: the window of a short path, or a multiple of what the path has been shown to hold.
    limit: u32,
    /// PSNs acknowledged since the window last grew (congestion avoidance).
    acked_since_growth: u32,
    /// Nothing was lost yet, and the window doubles in each round trip.
    slow_start: bool,
    /// When a CNP last made it smaller.
    cut_at: Option<Instant>,
    path: PathCapacity,
    /// So many more while lost packets are sent again to a peer that keeps what comes behind them: that has arrived, although it is
    /// not acknowledged.
    kept: u32,
    /// During that the window is never larger than this: as far as a reorder buffer reaches, less the packets that may leave beyond the window.
    reach: u32,
}

impl Default for CongestionWindow {
    fn default() -> Self {
        CongestionWindow {
            packets: limits::INITIAL_WINDOW,
            limit: limits::SHORT_PATH_WINDOW,
            acked_since_growth: 0,
            slow_start: true,
            cut_at: None,
            path: PathCapacity::default(),
            kept: 0,
            reach: limits::SHORT_PATH_WINDOW,
        }
    }
}

impl CongestionWindow {
    /// Its size in packets.
    #[inline]
    pub(in crate::qp) fn packets(&self) -> u32 {
        match self.kept {
            0 => self.in_order(),
            kept => (self.in_order() + kept).min(self.reach),
        }
    }

    /// A packet that leaves although the window is full is in reach of a reorder buffer all the same.
    pub(super) fn reaches_beyond(&self, outstanding: u32) -> bool {
        outstanding < self.reach + limits::ASKS_BEYOND_WINDOW
    }

    /// The same without what is kept behind a gap.
    #[inline]
    fn in_order(&self) -> u32 {
        self.packets.min(self.limit)
    }

    /// Lost packets are sent again to a peer that keeps what comes behind them.
    pub(super) fn note_repair(&mut self, mtu_shift: u32) {
        self.kept = Self::of_short_path(mtu_shift) / limits::KEPT_SHARE;
    }

    /// The peer has told that it keeps so many packets. Up to a whole window of them may be replaced: they are not on their way any
    /// more, as in the estimate of the pipe of TCP with SACK (RFC 6675, section 4).
    pub(super) fn note_kept(&mut self, told: u32, mtu_shift: u32) {
        let room = Self::largest(mtu_shift).saturating_sub(self.in_order());
        self.kept = self.kept.max(told.min(room).min(self.limit));
    }

    /// All of them are acknowledged, or everything is sent again.
    #[inline]
    pub(super) fn end_repair(&mut self) {
        self.kept = 0;
    }

    /// May a request with `want` PSNs go out behind `outstanding`? One always may when nothing is in flight.
    #[inline]
    pub(super) fn has_room(&self, outstanding: u32, want: u32) -> bool {
        outstanding == 0 || outstanding + want <= self.packets()
    }

    /// The size of a window that has lost nothing on a short path, in packets of so many bytes, as a power of two.
    pub(super) fn of_short_path(mtu_shift: u32) -> u32 {
        limits::SHORT_PATH_WINDOW.min((limits::SHORT_PATH_WINDOW_BYTES >> mtu_shift) as u32)
    }

    /// The largest window, in the same packets.
    fn largest(mtu_shift: u32) -> u32 {
        limits::MAX_WINDOW.min((limits::MAX_WINDOW_BYTES >> mtu_shift) as u32)
    }

    /// What the path holds by itself, in packets, so that it is not on its way into a receiver's buffer; 0 on a short path.
    #[inline]
    pub(in crate::qp) fn path_packets(&self) -> u32 {
        self.path.packets()
    }

    /// Nothing is known of the path, which has this path MTU.
    pub(in crate::qp) fn start_path(&mut self, mtu_shift: u32) {
        self.path = PathCapacity::default();
        self.end_repair();
        self.limit = Self::of_short_path(mtu_shift);
        self.reach = Self::largest(mtu_shift) - limits::ASKS_BEYOND_WINDOW;
        self.packets = self.packets.min(limits::SHORT_PATH_WINDOW);
    }

    /// A round trip was measured.
    #[inline]
    pub(super) fn note_round_trip(&mut self, sample_ns: u64, now: Instant, mtu_shift: u32) {
        match self.path.note_round_trip(sample_ns, now) {
            RoundTrip::Usual => {}
            RoundTrip::ShortPath => self.limit = Self::of_short_path(mtu_shift),
            // What waits in queues is in the measure, if anything does. With half the window it is not.
            RoundTrip::Longer => self.packets -= (self.packets / 2).min(self.excess(mtu_shift)),
        }
    }

    /// Something leaves while nothing is in flight. After a pause nothing is known of the queues on a long path, so that the
    /// window begins small again, as that of TCP does (RFC 2861), and doubles.
    #[inline]
    pub(super) fn note_start(&mut self, now: Instant, mtu_shift: u32) {
        if self.path.is_long() && self.path.is_idle(now) {
            self.packets -= self.excess(mtu_shift);
            self.slow_start = true;
        }
    }

    /// How much larger it is than that of a short path.
    fn excess(&self, mtu_shift: u32) -> u32 {
        self.packets.saturating_sub(Self::of_short_path(mtu_shift))
    }

    /// So many packets more are acknowledged. Until something is lost the window doubles in each round, afterwards it
    /// grows slowly. `in_order`: nothing before them was missing.
    #[inline]
    pub(super) fn note_progress(
        &mut self,
        acknowledged: u32,
        now: Instant,
        in_order: bool,
        mtu_shift: u32,
    ) {
        if self.kept > 0 {
            let at_least = self.kept.min(Self::of_short_path(mtu_shift) / limits::KEPT_SHARE);
            self.kept = self.kept.saturating_sub(acknowledged).max(at_least);
        }
        if self.path.is_long() && self.path.note_delivered(acknowledged, now, in_order) {
            let held = self.path.packets().saturating_mul(limits::WINDOW_PER_PATH);
            self.limit = self.limit.max(held.min(Self::largest(mtu_shift)));
        }
        let most = self.limit.max(limits::SHORT_PATH_WINDOW);
        let mut growth = acknowledged;
        if !self.slow_start {
            self.acked_since_growth += acknowledged;
            growth = self.acked_since_growth / limits::WINDOW_GROWTH;
            self.acked_since_growth %= limits::WINDOW_GROWTH;
        }
        if self.packets < most {
            self.packets = self.packets.saturating_add(growth).min(most);
        }
    }

    /// What holds between two calls.
    pub(super) fn assert_invariants(&self) {
        let bounds = limits::MIN_WINDOW..=limits::MAX_WINDOW;
        debug_assert!(bounds.contains(&self.packets), "{} packets", self.packets);
        debug_assert!(self.limit <= limits::MAX_WINDOW, "a limit of {} packets", self.limit);
        let holds = self.path.packets() == 0 || self.path.is_long();
        debug_assert!(holds, "a short path holds nothing by itself");
        debug_assert!(self.acked_since_growth < limits::WINDOW_GROWTH, "growth is not put off");
    }

    /// Loss: a quarter less in flight.
    pub(super) fn note_loss(&mut self) {
        let used = self.in_order();
        self.packets = (used - used / 4).max(limits::MIN_WINDOW);
        self.acked_since_growth = 0;
        self.slow_start = false;
    }

    /// Loss, and all that was behind it is sent again: no more in flight than on a short path, so that the next loss costs
    /// that and an eighth of what is delivered until then.
    pub(super) fn note_going_back(&mut self, mtu_shift: u32) {
        self.note_loss();
        self.end_repair();
        self.limit = Self::of_short_path(mtu_shift);
        self.packets = self.packets.min(limits::SHORT_PATH_WINDOW);
    }

    /// The peer did not answer at all: as little as there can be in flight. The path may have become another one.
    pub(super) fn note_silence(&mut self, mtu_shift: u32) {
        self.note_loss();
        self.packets = limits::MIN_WINDOW;
        self.start_path(mtu_shift);
    }

    /// Loss of a packet whose followers have arrived: a little less in flight.
    pub(super) fn note_single_loss(&mut self) {
        let used = self.in_order();
        self.packets = (used - used / limits::SINGLE_LOSS_SHARE).max(limits::MIN_WINDOW);
        self.slow_start = false;
    }

    /// Losses of so many packets whose followers have arrived.
    pub(super) fn note_single_losses(&mut self, packets: u32) {
        (0..packets).for_each(|_| self.note_single_loss());
    }

    /// How many PSNs each READ REQUEST of a READ asks for that begins now: more than on a short path if the window is so
    /// large that as many requests as are allowed do not fill it.
    pub(super) fn read_split(&self, config: &QpConfig) -> u32 {
        let split = read_split(config.attr.path_mtu);
        if self.in_order() <= Self::of_short_path(config.mtu_shift()) {
            return split;
        }
        let allowed = split * u32::from(config.attr.max_rd_atomic).max(1);
        split * self.in_order().div_ceil(allowed).min(limits::READ_SPLITS_AT_ONCE)
    }

    /// A CNP: a quarter less in flight, at most once in a round trip, and not less than on a short path (A24).
    pub(in crate::qp) fn note_congestion(&mut self, now: Instant, mtu_shift: u32) {
        let again = self.cut_at.is_some_and(|at| now.since(at) < self.path.round_trip_ns());
        let excess = self.excess(mtu_shift);
        if again || excess == 0 {
            return;
        }
        self.packets -= (self.packets / 4).min(excess);
        self.cut_at = Some(now);
        self.slow_start = false;
    }
}

/// Which packets ask for an ACK (R82, ADR 18): when one last did, in packets.
#[derive(Debug)]
pub(super) struct AckRequests {
    /// Packets since the last one with AckReq.
    since: u32,
    /// Packets that pass through the kernel as one send.
    train: u32,
    /// An ACK was asked for a moment ago, so that unsignaled messages leave without AckReq.
    suppressed: bool,
}

impl Default for AckRequests {
    fn default() -> Self {
        AckRequests { since: 0, train: 1, suppressed: false }
    }
}

impl AckRequests {
    /// The path MTU is so many bytes, as a power of two.
    pub(super) fn start_path(&mut self, mtu_shift: u32) {
        self.train = middle_train(1 << mtu_shift);
    }

    /// Nothing that is on its way asks for an ACK.
    pub(super) fn reset(&mut self) {
        self.since = 0;
    }

    /// Whether unsignaled messages leave without AckReq now.
    #[inline]
    pub(super) fn suppress(&mut self, suppressed: bool) {
        self.suppressed = suppressed;
    }

    /// One of the next `packets` packets has to ask for an ACK, with that window; if they leave together, the last does.
    #[inline]
    pub(super) fn is_due(&self, packets: u32, window: u32) -> bool {
        packets >= self.until_due(window)
    }

    /// How many packets leave until one has to ask, that one included; 0 if one should have asked before. A window that is
    /// full always has one that asks.
    #[inline]
    pub(super) fn until_due(&self, window: u32) -> u32 {
        let share = window.min(limits::SHORT_PATH_WINDOW) / limits::ACKS_PER_WINDOW;
        // As much leaves at a time as an ACK tells of: whole trains, since each send costs as much as thirty packets.
        let share = if share > self.train { share - share % self.train } else { share };
        share.max(1).saturating_sub(self.since)
    }

    /// Whether a packet that is sent again out of turn has to ask: it fills the window.
    pub(super) fn is_due_alone(outstanding: u32, window: u32) -> bool {
        window.saturating_sub(outstanding) <= 1
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
        self.since = limits::SHORT_PATH_WINDOW;
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

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn r82_what_an_ack_tells_of_is_whole_trains() {
        let due = [8, 9, 10, 11, 12].map(|mtu_shift| {
            let mut requests = AckRequests::default();
            requests.start_path(mtu_shift);
            [CongestionWindow::of_short_path(mtu_shift), 40, 1024]
                .map(|window| requests.until_due(window))
        });
        // A train is 64 packets, or 62, 31 and 15 with the larger path MTUs.
        assert_eq!(
            due,
            [[128, 20, 128], [128, 20, 128], [124, 20, 124], [62, 20, 124], [30, 15, 120]]
        );
    }

    #[test]
    fn r17_no_window_at_any_mtu_comes_near_half_of_all_psns() {
        for mtu_shift in 8..=12 {
            let mut window = CongestionWindow::default();
            window.start_path(mtu_shift);
            (0..100_000).for_each(|_| window.note_progress(256, NOW, true, mtu_shift));
            assert_eq!(window.packets(), CongestionWindow::of_short_path(mtu_shift));
            assert!(window.has_room(window.packets() - 1, 1));
            assert!(!window.has_room(window.packets(), 1));
            let mut now = NOW;
            for _ in 0..100_000 {
                now = now.add_ns(10_000_000);
                window.note_round_trip(10_000_000, now, mtu_shift);
                window.note_progress(window.packets(), now, true, mtu_shift);
            }
            assert_eq!(window.packets(), CongestionWindow::largest(mtu_shift));
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
            window.note_progress(1, NOW, true, 10);
        }
        assert_eq!(window.packets, limits::SHORT_PATH_WINDOW);
    }

    #[test]
    fn the_first_loss_makes_the_window_smaller_at_any_mtu() {
        for mtu_shift in 8..=12 {
            for lose in [CongestionWindow::note_loss, CongestionWindow::note_single_loss] {
                let mut window = CongestionWindow::default();
                window.start_path(mtu_shift);
                window.note_progress(1_000, NOW, true, mtu_shift);
                let before = window.packets();
                lose(&mut window);
                assert!(window.packets() < before, "{before} packets of 1 << {mtu_shift} bytes");
            }
        }
    }

    /// A window of 16 MiB on a path of 10 ms.
    fn wide() -> CongestionWindow {
        let mut window = CongestionWindow::default();
        window.start_path(10);
        for round in 1..100 {
            let now = NOW.add_ns(round * 10_000_000);
            window.note_round_trip(10_000_000, now, 10);
            window.note_progress(window.packets(), now, true, 10);
        }
        assert_eq!(window.packets(), 16384);
        window
    }

    #[test]
    fn r71_what_a_peer_keeps_is_replaced_up_to_a_window_and_to_the_largest_one() {
        let mut window = wide();
        (0..100).for_each(|_| window.note_single_loss());
        let without = window.packets();
        window.note_repair(10);
        window.note_kept(1_000, 10);
        assert_eq!(window.packets(), without + 1_000);
        window.note_kept(10, 10);
        assert_eq!(window.packets(), without + 1_000, "an older list");
        window.note_progress(300, NOW, false, 10);
        assert_eq!(window.packets() - window.in_order(), 700, "some of that is acknowledged");
        window.note_kept(20_000, 10);
        assert_eq!(window.packets(), window.reach);
        window.note_progress(20_000, NOW, false, 10);
        assert_eq!(window.packets() - window.in_order(), 128);
        window.end_repair();
        assert_eq!(window.kept, 0);
        let mut short = CongestionWindow::default();
        short.start_path(10);
        short.note_repair(10);
        assert_eq!(short.kept, 128, "before it tells");
        short.note_kept(1_000, 10);
        assert_eq!(short.kept, 256);
    }

    #[test]
    fn r104_cnps_make_a_wide_window_smaller_once_in_a_round_trip_and_no_other() {
        let (mut window, now) = (wide(), NOW.add_ns(2_000_000_000));
        (0..100).for_each(|_| window.note_congestion(now, 10));
        assert_eq!(window.packets(), 16384 - 4096);
        for round in 1..100 {
            window.note_congestion(now.add_ns(round * 10_000_000), 10);
        }
        assert_eq!(window.packets(), limits::SHORT_PATH_WINDOW);
        let mut window = CongestionWindow::default();
        window.note_congestion(now, 10);
        assert_eq!(window.packets(), limits::INITIAL_WINDOW);
    }

    #[test]
    fn going_back_takes_a_wide_window_to_that_of_a_short_path() {
        let mut window = wide();
        window.note_going_back(10);
        assert_eq!(window.packets(), limits::SHORT_PATH_WINDOW);
        let mut window = wide();
        window.note_silence(10);
        assert_eq!((window.packets(), window.path_packets()), (limits::MIN_WINDOW, 0));
    }

    #[test]
    fn after_a_pause_a_wide_window_begins_small_and_doubles() {
        let mut window = wide();
        let idle = NOW.add_ns(2_000_000_000);
        window.note_start(NOW.add_ns(1_000_000_000), 10);
        assert_eq!(window.packets(), 16384, "there was no pause");
        window.note_start(idle, 10);
        assert_eq!(window.packets(), limits::SHORT_PATH_WINDOW);
        for round in 1..=6 {
            window.note_progress(window.packets(), idle.add_ns(round * 10_000_000), true, 10);
        }
        assert_eq!(window.packets(), 16384);
    }

    #[test]
    fn a_path_that_turns_out_to_be_short_has_the_window_of_one() {
        let mut window = wide();
        window.note_round_trip(40_000, NOW.add_ns(2_000_000_000), 10);
        assert_eq!((window.packets(), window.path_packets()), (limits::SHORT_PATH_WINDOW, 0));
    }
}
