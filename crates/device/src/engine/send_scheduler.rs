//! The order in which queue pairs with something to send are served.
//!
//! Consecutive packets of one size and one route form a GSO batch, which costs little more than one
//! packet. Ready queue pairs are therefore served in rounds, sorted by source port, since all
//! packets of a batch have the same one. A round has two phases. In the header phase each queue
//! pair sends its first packet only: that of a WRITE has a RETH and is longer than those behind it,
//! so these packets form one batch. In the body phase the queue pairs send the rest, which forms
//! the next one. The packets of each queue pair stay in order, and no queue pair is served twice
//! before every other one was served once.

use std::collections::VecDeque;

use uroce_wire::Qpn;

/// Queue pairs in a round: as many as packets in a GSO batch.
pub(super) const ROUND: usize = 64;

/// Round-robin scheduler of sending queue pairs.
#[derive(Debug)]
pub(crate) struct SendScheduler {
    /// Queue pairs for the rounds to come, in FIFO order.
    waiting: VecDeque<Qpn>,
    /// Queue pairs of the round whose header phase is to come, with their source ports; the next
    /// one is last.
    headers: Vec<(u16, Qpn)>,
    /// Queue pairs of the round whose body phase is to come.
    bodies: VecDeque<Qpn>,
    /// The current round has two phases.
    interleaved: bool,
    /// The round is in its body phase.
    body_phase: bool,
    /// Rounds have two phases: the datapath uses GSO.
    interleaves: bool,
}

impl SendScheduler {
    /// `interleaves`: packets of several queue pairs can form one GSO batch.
    pub(crate) fn new(interleaves: bool) -> Self {
        SendScheduler {
            waiting: VecDeque::new(),
            headers: Vec::with_capacity(ROUND),
            bodies: VecDeque::with_capacity(ROUND),
            interleaved: false,
            body_phase: false,
            interleaves,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.round_is_empty()
    }

    /// The current round is over.
    pub(super) fn round_is_empty(&self) -> bool {
        self.headers.is_empty() && self.bodies.is_empty()
    }

    /// Number of queue pairs that wait for the next round.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Queues `qpn` behind all others.
    pub(crate) fn push(&mut self, qpn: Qpn) {
        self.waiting.push_back(qpn);
    }

    /// Queues all of `others` behind all others.
    pub(super) fn append(&mut self, others: &mut VecDeque<Qpn>) {
        self.waiting.append(others);
    }

    /// The queue pair to serve next; `port` returns the source port of a queue pair.
    pub(super) fn pop(&mut self, port: impl FnMut(Qpn) -> u16) -> Option<Qpn> {
        if self.round_is_empty() {
            self.start_round(port);
        }
        let header = self.headers.pop().map(|(_, qpn)| qpn);
        self.body_phase = header.is_none() && !self.bodies.is_empty();
        header.or_else(|| self.bodies.pop_front()).or_else(|| self.waiting.pop_front())
    }

    fn start_round(&mut self, mut port: impl FnMut(Qpn) -> u16) {
        self.interleaved = self.interleaves && self.waiting.len() > 1;
        if self.interleaved {
            let count = self.waiting.len().min(ROUND);
            self.headers.extend(self.waiting.drain(..count).rev().map(|qpn| (port(qpn), qpn)));
            self.headers.sort_unstable_by_key(|(port, _)| *port);
        }
    }

    /// True in the header phase: after its first packet the queue pair is to be deferred with
    /// [`defer_body`](Self::defer_body).
    pub(super) fn in_header_phase(&self) -> bool {
        self.interleaved && !self.body_phase
    }

    /// True in the body phase: at the end of its request the queue pair gives way to the next one.
    pub(super) fn in_body_phase(&self) -> bool {
        self.body_phase
    }

    /// Defers the rest of the request of `qpn` to the body phase.
    pub(super) fn defer_body(&mut self, qpn: Qpn) {
        self.bodies.push_back(qpn);
    }

    /// Puts a queue pair back whose service was cut short: it is served next.
    pub(super) fn resume(&mut self, qpn: Qpn) {
        match self.body_phase {
            true => self.bodies.push_front(qpn),
            false => self.headers.push((0, qpn)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler(interleaves: bool, raw: std::ops::Range<u32>) -> SendScheduler {
        let mut scheduler = SendScheduler::new(interleaves);
        raw.for_each(|raw| scheduler.push(Qpn::new(raw)));
        scheduler
    }

    /// One of two source ports.
    fn port(qpn: Qpn) -> u16 {
        (qpn.get() % 2) as u16
    }

    /// Serves all queue pairs; each sends its first packet, or the rest behind it.
    fn play(scheduler: &mut SendScheduler) -> Vec<(u32, bool)> {
        let mut served = Vec::new();
        while let Some(qpn) = scheduler.pop(port) {
            served.push((qpn.get(), scheduler.in_header_phase()));
            if scheduler.in_header_phase() {
                scheduler.defer_body(qpn);
            }
        }
        assert!(scheduler.is_empty());
        served
    }

    #[test]
    fn one_alone_waits_for_nobody() {
        assert_eq!(play(&mut scheduler(true, 7..8)), [(7, false)]);
    }

    #[test]
    fn first_packets_leave_before_what_follows_them_one_port_after_the_other() {
        let served = play(&mut scheduler(true, 0..4));
        let ports: Vec<u32> = served.iter().map(|(qpn, _)| qpn % 2).collect();
        assert_eq!(ports, [1, 1, 0, 0, 1, 1, 0, 0]);
        let (headers, bodies) = served.split_at(4);
        assert!(headers.iter().all(|(_, header)| *header));
        assert!(bodies.iter().all(|(_, header)| !*header));
        assert!(headers.iter().map(|(qpn, _)| qpn).eq(bodies.iter().map(|(qpn, _)| qpn)));
    }

    #[test]
    fn where_every_packet_travels_alone_there_are_no_rows() {
        assert_eq!(play(&mut scheduler(false, 0..3)), [(0, false), (1, false), (2, false)]);
    }

    #[test]
    fn nobody_has_two_turns_before_somebody_who_came_earlier_has_one() {
        let mut scheduler = scheduler(true, 0..2 * ROUND as u32);
        let mut served = Vec::new();
        for _ in 0..2 * ROUND {
            let qpn = scheduler.pop(port).expect("ready");
            served.push(qpn.get());
            scheduler.push(qpn);
        }
        served.sort_unstable();
        assert!(served.into_iter().eq(0..2 * ROUND as u32));
    }

    #[test]
    fn who_was_cut_short_is_next() {
        let mut scheduler = scheduler(true, 0..3);
        let qpn = scheduler.pop(port).expect("ready");
        scheduler.resume(qpn);
        assert_eq!(scheduler.pop(port), Some(qpn));
        scheduler.defer_body(qpn);
        assert_ne!(scheduler.pop(port), Some(qpn));
        scheduler.pop(port);
        assert_eq!(scheduler.pop(port), Some(qpn));
        assert!(scheduler.in_body_phase());
        scheduler.resume(qpn);
        assert_eq!(scheduler.pop(port), Some(qpn));
        assert_eq!(scheduler.pop(port), None);
    }
}
