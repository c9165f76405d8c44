//! Whose packets the datapath may send in place: out of its memory, without a copy, so that the kernel reads them later
//! (docs/adr/037-send-in-place.md).
//!
//! Nobody says when the kernel has read them. A request is acknowledged after that, so as long as little is unacknowledged the
//! memory goes round behind it. It is for one destination at a time, and gets renewed for the next: a peer on this host may hold
//! packets back, and read in their place what is written there later.

use std::net::IpAddr;

use uroce_transport::{Instant, QueuePair};
use uroce_wire::Psn;

/// Time without such packets before they may be for another destination (ns).
const PAUSE_NS: u64 = 1_000_000_000;

/// Bytes in flight with which something may leave in place: what is less is copied in any case.
const SOME_BYTES: u64 = 16 * 1024;

/// The destination whose requests leave in place.
#[derive(Debug)]
pub(crate) struct InPlace {
    /// Most unacknowledged bytes at the destination; 0: the datapath copies everything.
    most: u64,
    destination: Option<(IpAddr, Instant)>,
}

impl InPlace {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, destination: None }
    }

    /// The destination whose requests leave in place, the last one that had some.
    #[inline]
    pub(super) fn destination(&self) -> Option<IpAddr> {
        self.destination.map(|(destination, _)| destination)
    }

    /// Whether packets that `qp` has written may leave in place: so many from this PSN on, which was the first that it had never
    /// sent. `in_flight`: bytes to its destination with them.
    #[inline]
    pub(super) fn allows(
        &mut self,
        qp: &QueuePair,
        (first, packets): (Psn, usize),
        in_flight: u64,
        now: Instant,
    ) -> bool {
        // What is repeated, or an answer, leaves the PSN as it was.
        let are_new = usize::try_from(qp.next_psn().since(first)) == Ok(packets);
        if !are_new || in_flight > self.most || in_flight < SOME_BYTES {
            return false;
        }
        debug_assert!(packets > 0, "something was written");
        // What has no timeout, or was given up, is not counted.
        if qp.bytes_in_flight() == 0 {
            return false;
        }
        // A long path holds more than what counts as in flight, and perhaps in a queue of this host.
        let on_path = qp.traffic().window.path;
        match qp.acknowledging_peer() {
            Some(peer) if on_path == 0 => self.is_for(peer, now),
            _ => false,
        }
    }

    /// Whether the buffer is for this destination now.
    fn is_for(&mut self, destination: IpAddr, now: Instant) -> bool {
        let other = self.destination.filter(|(known, _)| *known != destination);
        if other.is_some_and(|(_, last)| now.since(last) < PAUSE_NS) {
            return false;
        }
        debug_assert!(self.most > 0, "a datapath that copies everything serves nobody in place");
        self.destination = Some((destination, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    #[test]
    fn one_destination_at_a_time_is_served_in_place() {
        let mut in_place = InPlace::new(1000);
        let at = Instant::from_nanos;
        assert!(in_place.is_for(PEER, at(1)));
        assert!(!in_place.is_for(OTHER, at(2)));
        assert!(in_place.is_for(PEER, at(PAUSE_NS)));
        assert!(!in_place.is_for(OTHER, at(2 * PAUSE_NS - 1)), "a second behind the last one");
        assert!(in_place.is_for(OTHER, at(2 * PAUSE_NS)));
        assert!(!in_place.is_for(PEER, at(2 * PAUSE_NS)));
    }
}
