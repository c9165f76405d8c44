//! Whose packets the datapath may send in place: out of its memory, without a copy, so that the kernel reads them later
//! (docs/adr/037-send-in-place.md).
//!
//! Nobody says when the kernel has read them. A request is acknowledged after that: so the runs of packets that may have left in
//! place are listed until they are acknowledged, and there are no more of them than the datapath keeps unchanged. The memory is
//! for one destination at a time, and gets renewed for the next: a peer on this host may hold packets back, and read in their
//! place what is written there later.

use std::collections::VecDeque;
use std::net::IpAddr;

use uroce_datapath::Recipient;
use uroce_transport::{Instant, QueuePair};
use uroce_wire::{Psn, Qpn};

use super::qp_table::QpTable;

/// Time without such packets before they may be for another destination (ns).
const PAUSE_NS: u64 = 1_000_000_000;

/// Bytes in flight of a queue pair with which something may leave in place: what is less is copied in any case.
const SOME_BYTES: u64 = 16 * 1024;

/// Packets of a queue pair behind each other are listed together up to so many bytes.
const RUN_BYTES: u64 = 32 * 1024;

/// Most runs in the list.
const MOST_RUNS: usize = 256;

/// Packets that may have left in place, one behind the other.
#[derive(Debug)]
struct Run {
    qpn: Qpn,
    /// PSN of the last of them.
    last: Psn,
    bytes: u64,
}

impl Run {
    /// Whether nobody waits for it any more: it was acknowledged, or its queue pair was reset. What is about to be sent again is
    /// not: the peer may still have the first copy to read.
    fn is_over(&self, qp: &QueuePair) -> bool {
        !qp.is_unacknowledged(self.last)
    }
}

/// The destination whose requests leave in place.
#[derive(Debug)]
pub(crate) struct InPlace {
    /// Most bytes of runs; 0: the datapath copies everything.
    most: u64,
    destination: Option<(Recipient, Instant)>,
    /// The oldest first.
    runs: VecDeque<Run>,
    /// Bytes of all runs.
    bytes: u64,
}

impl InPlace {
    pub(crate) fn new(most: u64) -> Self {
        let runs = VecDeque::with_capacity(if most > 0 { MOST_RUNS } else { 0 });
        Self { most, destination: None, runs, bytes: 0 }
    }

    /// The destination whose requests leave in place, unless the last one was long ago.
    #[inline]
    pub(super) fn destination(&self, now: Instant) -> Option<Recipient> {
        let (destination, last) = self.destination?;
        (now.since(last) < PAUSE_NS).then_some(destination)
    }

    /// Forgets the runs that were acknowledged, from the oldest on.
    pub(super) fn forget_acknowledged(&mut self, qps: &QpTable) {
        while let Some(run) = self.runs.front()
            && qps.get(run.qpn).is_none_or(|entry| run.is_over(&entry.qp))
        {
            self.bytes -= run.bytes;
            self.runs.pop_front();
        }
        debug_assert!(!self.runs.is_empty() || self.bytes == 0, "bytes of runs add up");
    }

    /// Whether packets that `qp` has written may leave in place: so many of `len` bytes from this PSN on, which was the first that
    /// it had never sent.
    #[inline]
    pub(super) fn allows(
        &mut self,
        qp: &QueuePair,
        (first, packets, len): (Psn, usize, usize),
        now: Instant,
    ) -> bool {
        let bytes = (packets * len) as u64;
        let kept = if self.destination(now).is_some() { self.bytes } else { 0 };
        if kept + bytes > self.most || qp.bytes_in_flight() < SOME_BYTES {
            return false;
        }
        // What is repeated, or an answer, leaves the PSN as it was.
        let are_new = usize::try_from(qp.next_psn().since(first)) == Ok(packets);
        let Some(peer) = qp.acknowledging_peer().filter(|_| are_new) else { return false };
        self.is_for(peer, now) && self.list(qp.qpn(), first.add(packets as u32 - 1), bytes)
    }

    /// Whether the memory is for this destination now.
    fn is_for(&mut self, address: IpAddr, now: Instant) -> bool {
        let recipient = match (self.destination(now), self.destination) {
            (Some(known), _) if known.address != address => return false,
            (Some(known), _) => known,
            (None, before) => {
                self.runs.clear();
                self.bytes = 0;
                let period = before.map_or(0, |(known, _)| known.period.wrapping_add(1));
                Recipient { address, period }
            }
        };
        debug_assert!(self.most > 0, "a datapath that copies everything serves nobody in place");
        self.destination = Some((recipient, now));
        true
    }

    /// Lists packets up to PSN `last`; false when the list is full.
    fn list(&mut self, qpn: Qpn, last: Psn, bytes: u64) -> bool {
        let of_qp = |run: &&mut Run| run.qpn == qpn && run.bytes + bytes <= RUN_BYTES;
        if let Some(run) = self.runs.back_mut().filter(of_qp) {
            run.bytes += bytes;
            run.last = last;
        } else if self.runs.len() < MOST_RUNS {
            self.runs.push_back(Run { qpn, last, bytes });
        } else {
            return false;
        }
        self.bytes += bytes;
        debug_assert!(self.bytes <= self.most, "no more than the datapath keeps unchanged");
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

    /// An address may have gone to somebody else.
    #[test]
    fn a_pause_makes_another_recipient_of_the_same_address() {
        let mut in_place = InPlace::new(1000);
        let mut period = |now| {
            assert!(in_place.is_for(PEER, Instant::from_nanos(now)));
            in_place.destination(Instant::from_nanos(now)).expect("one").period
        };
        assert_eq!(
            [1, 2, PAUSE_NS, 2 * PAUSE_NS, 2 * PAUSE_NS + 1].map(&mut period),
            [0, 0, 0, 1, 1]
        );
    }

    /// What is written before a run is allowed goes into memory that the one before may still read.
    #[test]
    fn behind_a_pause_nobody_has_the_memory_and_old_runs_do_not_count() {
        let mut in_place = InPlace::new(1000);
        let at = Instant::from_nanos;
        assert!(in_place.is_for(PEER, at(1)) && in_place.list(Qpn::new(1), Psn::new(1), 1000));
        assert!(in_place.destination(at(PAUSE_NS)).is_some());
        assert!(in_place.destination(at(1 + PAUSE_NS)).is_none());
        assert!(in_place.is_for(OTHER, at(1 + PAUSE_NS)));
        assert!(in_place.runs.is_empty() && in_place.bytes == 0);
    }

    #[test]
    fn runs_are_listed_as_far_as_the_datapath_keeps_them() {
        let mut in_place = InPlace::new(MOST_RUNS as u64 * RUN_BYTES);
        let (qpn, other) = (Qpn::new(1), Qpn::new(2));
        assert!(in_place.list(qpn, Psn::new(1), RUN_BYTES / 2));
        assert!(in_place.list(qpn, Psn::new(2), RUN_BYTES / 2));
        assert_eq!((in_place.runs.len(), in_place.bytes), (1, RUN_BYTES));
        for n in 1..MOST_RUNS as u64 {
            assert!(in_place.list(if n % 2 == 0 { qpn } else { other }, Psn::new(3), 1));
        }
        assert!(!in_place.list(qpn, Psn::new(3), RUN_BYTES), "full");
        assert_eq!(in_place.bytes, RUN_BYTES + MOST_RUNS as u64 - 1);
    }
}
