//! Which PSNs are on their way.

use uroce_wire::Psn;

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
}
