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
pub(super) const ROW: usize = 64;

/// The order of turns.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Those for the rows to come, in order.
    waiting: VecDeque<Qpn>,
    /// Those of the row that have not had their turn, the next one last.
    leading: Vec<(u16, Qpn)>,
    /// Those whose first packet has left.
    following: VecDeque<Qpn>,
    /// Whose turn it is stands in a row with others.
    abreast: bool,
    /// The rest of what has begun leaves.
    follows: bool,
    /// Rows are of use.
    rows: bool,
}

impl Ready {
    /// `rows`: packets of several queue pairs can travel as one.
    pub(crate) fn new(rows: bool) -> Self {
        Ready {
            waiting: VecDeque::new(),
            leading: Vec::with_capacity(ROW),
            following: VecDeque::with_capacity(ROW),
            abreast: false,
            follows: false,
            rows,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.row_is_empty()
    }

    /// The next turn is that of somebody who waits.
    pub(super) fn row_is_empty(&self) -> bool {
        self.leading.is_empty() && self.following.is_empty()
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
        if self.row_is_empty() {
            self.line_up(port);
        }
        let leads = self.leading.pop().map(|(_, qpn)| qpn);
        self.follows = leads.is_none() && !self.following.is_empty();
        leads.or_else(|| self.following.pop_front()).or_else(|| self.waiting.pop_front())
    }

    fn line_up(&mut self, mut port: impl FnMut(Qpn) -> u16) {
        self.abreast = self.rows && self.waiting.len() > 1;
        if self.abreast {
            let count = self.waiting.len().min(ROW);
            self.leading.extend(self.waiting.drain(..count).rev().map(|qpn| (port(qpn), qpn)));
            self.leading.sort_unstable_by_key(|(port, _)| *port);
        }
    }

    /// The first packet of a request has left, and what is behind it waits for those of the others.
    pub(super) fn leads(&self) -> bool {
        self.abreast && !self.follows
    }

    /// The rest of a request has left, and the others' rests are next.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// It goes on when all first packets have left.
    pub(super) fn follow(&mut self, qpn: Qpn) {
        self.following.push_back(qpn);
    }

    /// Its turn was cut short and comes again, before any other.
    pub(super) fn resume(&mut self, qpn: Qpn) {
        match self.follows {
            true => self.following.push_front(qpn),
            false => self.leading.push((0, qpn)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(rows: bool, raw: std::ops::Range<u32>) -> Ready {
        let mut ready = Ready::new(rows);
        raw.for_each(|raw| ready.push(Qpn::new(raw)));
        ready
    }

    /// Two source ports.
    fn port(qpn: Qpn) -> u16 {
        (qpn.get() % 2) as u16
    }

    /// Serves everybody; each sends a first packet, or the rest behind it.
    fn play(ready: &mut Ready) -> Vec<(u32, bool)> {
        let mut served = Vec::new();
        while let Some(qpn) = ready.pop(port) {
            served.push((qpn.get(), ready.leads()));
            if ready.leads() {
                ready.follow(qpn);
            }
        }
        assert!(ready.is_empty());
        served
    }

    #[test]
    fn one_alone_waits_for_nobody() {
        assert_eq!(play(&mut ready(true, 7..8)), [(7, false)]);
    }

    #[test]
    fn first_packets_leave_before_what_follows_them_one_port_after_the_other() {
        let served = play(&mut ready(true, 0..4));
        let ports: Vec<u32> = served.iter().map(|(qpn, _)| qpn % 2).collect();
        assert_eq!(ports, [1, 1, 0, 0, 1, 1, 0, 0]);
        let (leading, following) = served.split_at(4);
        assert!(leading.iter().all(|(_, leads)| *leads));
        assert!(following.iter().all(|(_, leads)| !*leads));
        assert!(leading.iter().map(|(qpn, _)| qpn).eq(following.iter().map(|(qpn, _)| qpn)));
    }

    #[test]
    fn where_every_packet_travels_alone_there_are_no_rows() {
        assert_eq!(play(&mut ready(false, 0..3)), [(0, false), (1, false), (2, false)]);
    }

    #[test]
    fn nobody_has_two_turns_before_somebody_who_came_earlier_has_one() {
        let mut ready = ready(true, 0..2 * ROW as u32);
        let mut served = Vec::new();
        for _ in 0..2 * ROW {
            let qpn = ready.pop(port).expect("ready");
            served.push(qpn.get());
            ready.push(qpn);
        }
        served.sort_unstable();
        assert!(served.into_iter().eq(0..2 * ROW as u32));
    }

    #[test]
    fn who_was_cut_short_is_next() {
        let mut ready = ready(true, 0..3);
        let qpn = ready.pop(port).expect("ready");
        ready.resume(qpn);
        assert_eq!(ready.pop(port), Some(qpn));
        ready.follow(qpn);
        assert_ne!(ready.pop(port), Some(qpn));
        ready.pop(port);
        assert_eq!(ready.pop(port), Some(qpn));
        assert!(ready.follows());
        ready.resume(qpn);
        assert_eq!(ready.pop(port), Some(qpn));
        assert_eq!(ready.pop(port), None);
    }
}
