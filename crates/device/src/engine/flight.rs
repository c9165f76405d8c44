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

/// What one queue pair has to do with it.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Its destination, once it has one.
    destination: Option<usize>,
    /// What is added up of it.
    bytes: u64,
    /// It stands in the destination's list.
    waiting: bool,
    /// It has waited, and may now send although others wait.
    called: bool,
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
    /// Those that wait for room, in order.
    waiting: VecDeque<Qpn>,
    /// It stands in the list of those with room and somebody to call.
    due: bool,
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
        let destinations = &mut self.destinations;
        let id = *self.by_address.entry(address).or_insert_with(|| {
            destinations.insert(Destination {
                address,
                users: 0,
                bytes: 0,
                waiting: VecDeque::new(),
                due: false,
            })
        });
        self.destinations[id].users += 1;
        entry.share = Share { destination: Some(id), ..Share::default() };
        self.account(entry);
    }

    /// The queue pair is gone, or goes elsewhere: what it had in flight is for others.
    pub(crate) fn leave(&mut self, entry: &mut QpEntry) {
        let share = std::mem::take(&mut entry.share);
        let Some(id) = share.destination else { return };
        let destination = &mut self.destinations[id];
        destination.bytes -= share.bytes;
        destination.users -= 1;
        if share.waiting {
            destination.waiting.retain(|qpn| *qpn != entry.init.qpn);
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
        if !called && !destination.waiting.is_empty() {
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
        let called = std::mem::take(&mut share.called);
        let waiting = &mut self.destinations[id].waiting;
        if held && !share.waiting {
            share.waiting = true;
            match called && sent == 0 {
                true => waiting.push_front(entry.init.qpn),
                false => waiting.push_back(entry.init.qpn),
            }
        }
        self.look(id);
    }

    /// Lets the queue pair send that has waited longest where there is room. The next one of the
    /// same destination is called when this one has had its turn.
    pub(crate) fn call(&mut self, qps: &mut QpTable) -> Option<Qpn> {
        while let Some(id) = self.due.pop() {
            let destination = &mut self.destinations[id];
            destination.due = false;
            let room = destination.bytes < self.limit;
            let next = if room { destination.waiting.pop_front() } else { None };
            let called = next.and_then(|qpn| qps.get_mut(qpn));
            debug_assert!(next.is_none() || called.is_some(), "who leaves waits no more");
            if let Some(entry) = called {
                entry.share.waiting = false;
                entry.share.called = true;
                return next;
            }
        }
        None
    }

    /// Notes whether there is room, and somebody who waits for it.
    fn look(&mut self, id: usize) {
        let destination = &mut self.destinations[id];
        let due = destination.bytes < self.limit && !destination.waiting.is_empty();
        if due && !destination.due {
            destination.due = true;
            self.due.push(id);
        }
    }
}
