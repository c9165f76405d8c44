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
const TRAINS: u64 = 16;

/// What one queue pair has to do with it.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Its destination, once it has one.
    destination: Option<usize>,
    /// What is added up of it.
    bytes: u64,
    /// It stands in the destination's list.
    waiting: bool,
    /// When it came there, counted in those who came before it.
    ticket: u64,
    /// It has waited, and may now send although others wait. What it had in flight when it was called.
    called: Option<u64>,
}

impl Share {
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
    called: u64,
    /// What each of them is expected to send: as much as the last one did.
    expected: u64,
    /// Those that wait for room with their tickets, in order.
    waiting: VecDeque<(u64, Qpn)>,
    /// Tickets given out.
    tickets: u64,
    /// It stands in the list of those with room and somebody to call.
    due: bool,
    /// It was full, and there is not yet room for a train.
    full: bool,
}

impl Destination {
    /// Whether there is room. Once full, there is none until it suffices for a train: one packet for each that
    /// is acknowledged would cost as much as a train each.
    fn has_room(&mut self, limit: u64) -> bool {
        let enough = if self.full { limit - limit / TRAINS } else { limit - 1 };
        self.full = self.bytes > enough;
        !self.full && self.bytes + self.called * self.expected < limit
    }

    /// Puts the owner of `share` into the list: behind all others, or, called `in_vain`, where it was.
    fn queue(&mut self, qpn: Qpn, share: &mut Share, in_vain: bool) {
        share.waiting = true;
        if !in_vain {
            share.ticket = self.tickets;
            self.tickets += 1;
        }
        let place = self.waiting.partition_point(|(ticket, _)| *ticket < share.ticket);
        self.waiting.insert(place, (share.ticket, qpn));
    }

    /// The owner of `share`, if it was called, has had its turn, or is gone. True if it was called.
    fn passed(&mut self, share: &mut Share) -> bool {
        let Some(before) = share.called.take() else { return false };
        self.called -= 1;
        if share.bytes > before {
            self.expected = share.bytes - before;
        }
        true
    }
}

/// The destinations of a device.
#[derive(Debug)]
pub(crate) struct Flight {
    limit: u64,
    destinations: Slab<Destination>,
    by_address: HashMap<IpAddr, usize>,
    /// Destinations with room, and with queue pairs that wait.
    due: Vec<usize>,
}

impl Flight {
    /// Up to `limit` bytes for each destination.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, destinations: Slab::new(), by_address: HashMap::new(), due: Vec::new() }
    }

    /// Somebody can be called.
    pub(crate) fn wants_turn(&self) -> bool {
        !self.due.is_empty()
    }

    /// The queue pair has (perhaps another) destination.
    pub(crate) fn join(&mut self, entry: &mut QpEntry) {
        let address = entry.qp.acknowledging_peer();
        let known = entry.share.destination.and_then(|id| self.destinations.get(id));
        if known.map(|destination| destination.address) == address {
            return;
        }
        self.leave(entry);
        let Some(address) = address else { return };
        let Flight { limit, ref mut destinations, .. } = *self;
        let id = *self.by_address.entry(address).or_insert_with(|| {
            destinations.insert(Destination {
                address,
                users: 0,
                bytes: 0,
                called: 0,
                expected: limit / TRAINS,
                waiting: VecDeque::new(),
                tickets: 0,
                due: false,
                full: false,
            })
        });
        self.destinations[id].users += 1;
        entry.share = Share { destination: Some(id), ..Share::default() };
        self.account(entry);
    }

    /// The queue pair is gone, or goes elsewhere: what it had in flight is for others.
    pub(crate) fn leave(&mut self, entry: &mut QpEntry) {
        let mut share = std::mem::take(&mut entry.share);
        let Some(id) = share.destination else { return };
        let destination = &mut self.destinations[id];
        destination.bytes -= share.bytes;
        destination.users -= 1;
        destination.passed(&mut share);
        if share.waiting {
            destination.waiting.retain(|(_, qpn)| *qpn != entry.init.qpn);
        }
        if destination.users > 0 {
            return self.look(id);
        }
        let gone = self.destinations.remove(id);
        self.by_address.remove(&gone.address);
        self.due.retain(|due| *due != id);
    }

    /// Adds up what the queue pair has in flight now.
    pub(crate) fn account(&mut self, entry: &mut QpEntry) {
        let share = &mut entry.share;
        let Some(id) = share.destination else { return };
        let bytes = entry.qp.bytes_in_flight();
        if bytes == share.bytes {
            return;
        }
        let destination = &mut self.destinations[id];
        destination.bytes = destination.bytes - share.bytes + bytes;
        share.bytes = bytes;
        self.look(id);
    }

    /// How many bytes the queue pair may have in flight altogether. 0: others were there before it.
    pub(crate) fn allowance(&self, entry: &QpEntry) -> u64 {
        let Share { destination, bytes, called, .. } = entry.share;
        let Some(destination) = destination.and_then(|id| self.destinations.get(id)) else {
            return u64::MAX;
        };
        if called.is_none() && !destination.waiting.is_empty() {
            return 0;
        }
        self.limit.saturating_sub(destination.bytes - bytes)
    }

    /// The queue pair has had its turn, and sent so many packets. If it was `held` back from sending
    /// more, it waits from now on: behind all others, unless it was called in vain.
    pub(crate) fn pass(&mut self, entry: &mut QpEntry, sent: usize, held: bool) {
        self.account(entry);
        let share = &mut entry.share;
        let Some(id) = share.destination else { return };
        let destination = &mut self.destinations[id];
        let called = destination.passed(share);
        if held && !share.waiting {
            destination.queue(entry.init.qpn, share, called && sent == 0);
        }
        self.look(id);
    }

    /// Lets the queue pair send that has waited longest where there is room.
    pub(crate) fn call(&mut self, qps: &mut QpTable) -> Option<Qpn> {
        while let Some(id) = self.due.pop() {
            let destination = &mut self.destinations[id];
            destination.due = false;
            let room = destination.has_room(self.limit);
            let next = if room { destination.waiting.pop_front() } else { None };
            let next = next.map(|(_, qpn)| qpn);
            let called = next.and_then(|qpn| qps.get_mut(qpn));
            debug_assert!(next.is_none() || called.is_some(), "who leaves waits no more");
            if let Some(entry) = called {
                entry.share.waiting = false;
                entry.share.called = Some(entry.share.bytes);
                destination.called += 1;
                self.look(id);
                return next;
            }
        }
        None
    }

    /// Notes whether there is room, and somebody who waits for it.
    fn look(&mut self, id: usize) {
        let destination = &mut self.destinations[id];
        let due = destination.has_room(self.limit) && !destination.waiting.is_empty();
        if due && !destination.due {
            destination.due = true;
            self.due.push(id);
        }
    }
}
