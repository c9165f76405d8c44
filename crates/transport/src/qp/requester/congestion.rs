//! How much may be on its way: a congestion window in packets, as TCP has one in bytes.

use crate::limits;

/// Most PSNs in flight; shrinks on loss, grows with progress.
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

#[cfg(test)]
mod tests {
    use super::*;

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
