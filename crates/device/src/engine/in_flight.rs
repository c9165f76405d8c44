//! How much may be on its way to one destination, over all queue pairs (docs/adr/013-in-flight.md).
//!
//! Each queue pair has a window of its own, but ten thousand windows overrun any receiver. What is
//! unacknowledged is therefore added up for each destination. At the limit, queue pairs with requests to
//! send wait in the order in which they came, and are called one after the other when there is room
//! again. Answers are never held back.

use crate::qp_table::{QpEntry, QpTable};
use slab::Slab;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use uroce_wire::Qpn;

/// Trains that fit into the limit.
const BATCHES: u64 = 16;

/// What one queue pair has to do with it.
#[derive(Debug, Default)]
pub(crate) struct QpCredit {
    /// Its destination, once it has one.
    destination: Option<usize>,
    /// What is added up of it.
    bytes: u64,
    /// It stands in the destination's list.
    waiting: bool,
    /// When it came there, counted in those who came before it.
    position: u64,
    /// It has waited, and may now send although others wait. What it had in flight when it was called.
    granted: Option<u64>,
}

impl QpCredit {
    /// It waits until it is called.
    pub(crate) fn waits(&self) -> bool {
        self.waiting
    }
}

#[derive(Debug)]
struct Destination {
    address: IpAddr,
    /// Queue pairs that have this destination.
    users: usize,
    /// Unacknowledged bytes of all of them.
    bytes: u64,
    /// Those who were called and have not had their turn.
    granted: u64,
    /// What each of them is expected to send: as much as the last one did.
    grant: u64,
    /// Those that wait for room with their tickets, in order.
    waiting: VecDeque<(u64, Qpn)>,
    /// Tickets given out.
    positions: u64,
    /// It stands in the list of those with room and somebody to call.
    due: bool,
    /// It was full, and there is not yet room for a train.
    full: bool,
}

impl Destination {
    /// Whether there is room. Once full, there is none until it suffices for a train: one packet for each that
    /// is acknowledged would cost as much as a train each.
    fn has_room(&mut self, limit: u64) -> bool {
        let enough = if self.full { limit - limit / BATCHES } else { limit - 1 };
        self.full = self.bytes > enough;
        !self.full && self.bytes + self.granted * self.grant < limit
    }

    /// Puts the owner of `share` into the list: behind all others, or, called `in_vain`, where it was.
    fn queue(&mut self, qpn: Qpn, credit: &mut QpCredit, unused: bool) {
        credit.waiting = true;
        if !unused {
            credit.position = self.positions;
            self.positions += 1;
        }
        let place = self.waiting.partition_point(|(position, _)| *position < credit.position);
        self.waiting.insert(place, (credit.position, qpn));
    }

    /// The owner of `share`, if it was called, has had its turn, or is gone. True if it was called.
    fn end_grant(&mut self, credit: &mut QpCredit) -> bool {
        let Some(before) = credit.granted.take() else { return false };
        self.granted -= 1;
        if credit.bytes > before {
            self.grant = credit.bytes - before;
        }
        true
    }
}

/// The destinations of a device.
#[derive(Debug)]
pub(crate) struct InFlight {
    limit: u64,
    destinations: Slab<Destination>,
    by_address: HashMap<IpAddr, usize>,
    /// Destinations with room, and with queue pairs that wait.
    due: Vec<usize>,
}

impl InFlight {
    /// Up to `limit` bytes for each destination.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, destinations: Slab::new(), by_address: HashMap::new(), due: Vec::new() }
    }

    /// Somebody can be called.
    pub(crate) fn has_grants(&self) -> bool {
        !self.due.is_empty()
    }

    /// The queue pair has (perhaps another) destination.
    pub(crate) fn join(&mut self, entry: &mut QpEntry) {
        let address = entry.qp.acknowledging_peer();
        let known = entry.credit.destination.and_then(|id| self.destinations.get(id));
        if known.map(|destination| destination.address) == address {
            return;
        }
        self.leave(entry);
        let Some(address) = address else { return };
        let InFlight { limit, ref mut destinations, .. } = *self;
        let id = *self.by_address.entry(address).or_insert_with(|| {
            destinations.insert(Destination {
                address,
                users: 0,
                bytes: 0,
                granted: 0,
                grant: limit / BATCHES,
                waiting: VecDeque::new(),
                positions: 0,
                due: false,
                full: false,
            })
        });
        self.destinations[id].users += 1;
        entry.credit = QpCredit { destination: Some(id), ..QpCredit::default() };
        self.account(entry);
    }

    /// The queue pair is gone, or goes elsewhere: what it had in flight is for others.
    pub(crate) fn leave(&mut self, entry: &mut QpEntry) {
        let mut credit = std::mem::take(&mut entry.credit);
        let Some(id) = credit.destination else { return };
        let destination = &mut self.destinations[id];
        destination.bytes -= credit.bytes;
        destination.users -= 1;
        destination.end_grant(&mut credit);
        if credit.waiting {
            destination.waiting.retain(|(_, qpn)| *qpn != entry.init.qpn);
        }
        if destination.users > 0 {
            return self.update_due(id);
        }
        let gone = self.destinations.remove(id);
        self.by_address.remove(&gone.address);
        self.due.retain(|due| *due != id);
    }

    /// Adds up what the queue pair has in flight now.
    pub(crate) fn account(&mut self, entry: &mut QpEntry) {
        let credit = &mut entry.credit;
        let Some(id) = credit.destination else { return };
        let bytes = entry.qp.bytes_in_flight();
        if bytes == credit.bytes {
            return;
        }
        let destination = &mut self.destinations[id];
        destination.bytes = destination.bytes - credit.bytes + bytes;
        credit.bytes = bytes;
        self.update_due(id);
    }

    /// How many bytes the queue pair may have in flight altogether. 0: others were there before it.
    pub(crate) fn allowance(&self, entry: &QpEntry) -> u64 {
        let QpCredit { destination, bytes, granted, .. } = entry.credit;
        let Some(destination) = destination.and_then(|id| self.destinations.get(id)) else {
            return u64::MAX;
        };
        if granted.is_none() && !destination.waiting.is_empty() {
            return 0;
        }
        self.limit.saturating_sub(destination.bytes - bytes)
    }

    /// The queue pair has had its turn, and sent so many packets. If it was `held` back from sending
    /// more, it waits from now on: behind all others, unless it was called in vain.
    pub(crate) fn finish_turn(&mut self, entry: &mut QpEntry, sent: usize, held: bool) {
        self.account(entry);
        let credit = &mut entry.credit;
        let Some(id) = credit.destination else { return };
        let destination = &mut self.destinations[id];
        let granted = destination.end_grant(credit);
        if held && !credit.waiting {
            destination.queue(entry.init.qpn, credit, granted && sent == 0);
        }
        self.update_due(id);
    }

    /// Lets the queue pair send that has waited longest where there is room.
    pub(crate) fn grant(&mut self, qps: &mut QpTable) -> Option<Qpn> {
        while let Some(id) = self.due.pop() {
            let destination = &mut self.destinations[id];
            destination.due = false;
            let room = destination.has_room(self.limit);
            let next = if room { destination.waiting.pop_front() } else { None };
            let next = next.map(|(_, qpn)| qpn);
            let granted = next.and_then(|qpn| qps.get_mut(qpn));
            debug_assert!(next.is_none() || granted.is_some(), "who leaves waits no more");
            if let Some(entry) = granted {
                entry.credit.waiting = false;
                entry.credit.granted = Some(entry.credit.bytes);
                destination.granted += 1;
                self.update_due(id);
                return next;
            }
        }
        None
    }

    /// Notes whether there is room, and somebody who waits for it.
    fn update_due(&mut self, id: usize) {
        let destination = &mut self.destinations[id];
        let due = destination.has_room(self.limit) && !destination.waiting.is_empty();
        if due && !destination.due {
            destination.due = true;
            self.due.push(id);
        }
    }
}
