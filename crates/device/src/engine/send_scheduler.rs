//! Queue pairs that have something to send.
//!
//! Packets of one size and one route travel as a train, which costs little more than one packet. So
//! those that are ready send side by side, in rows: sorted by source port, for a train has only one. And the
//! first packet of a WRITE, which has a RETH and is longer than those behind it, leaves before anything else of the
//! row: the first packets make one train, and what follows makes the next. Each queue pair's own packets
//! stay in order, and everybody has had a turn before anybody has another one.

use std::collections::VecDeque;
use uroce_wire::Qpn;

/// Queue pairs in a row: as many as packets in a train.
pub(super) const ROUND: usize = 64;

/// The order of turns.
#[derive(Debug)]
pub(crate) struct SendScheduler {
    /// Those for the rows to come, in order.
    waiting: VecDeque<Qpn>,
    /// Those of the row that have not had their turn, the next one last.
    headers: Vec<(u16, Qpn)>,
    /// Those whose first packet has left.
    bodies: VecDeque<Qpn>,
    /// Whose turn it is stands in a row with others.
    interleaved: bool,
    /// The rest of what has begun leaves.
    body_phase: bool,
    /// Rows are of use.
    interleaves: bool,
}

impl SendScheduler {
    /// `rows`: packets of several queue pairs can travel as one.
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

    /// The next turn is that of somebody who waits.
    pub(super) fn round_is_empty(&self) -> bool {
        self.headers.is_empty() && self.bodies.is_empty()
    }

    /// How many wait for the next row.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// It will have a turn after all others.
    pub(crate) fn push(&mut self, qpn: Qpn) {
        self.waiting.push_back(qpn);
    }

    /// The same for all of `others`.
    pub(super) fn append(&mut self, others: &mut VecDeque<Qpn>) {
        self.waiting.append(others);
    }

    /// Whose turn it is; `port` is the source port of a queue pair.
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

    /// The first packet of a request has left, and what is behind it waits for those of the others.
    pub(super) fn in_header_phase(&self) -> bool {
        self.interleaved && !self.body_phase
    }

    /// The rest of a request has left, and the others' rests are next.
    pub(super) fn in_body_phase(&self) -> bool {
        self.body_phase
    }

    /// It goes on when all first packets have left.
    pub(super) fn defer_body(&mut self, qpn: Qpn) {
        self.bodies.push_back(qpn);
    }

    /// Its turn was cut short and comes again, before any other.
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

    /// Two source ports.
    fn port(qpn: Qpn) -> u16 {
        (qpn.get() % 2) as u16
    }

    /// Serves everybody; each sends a first packet, or the rest behind it.
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
