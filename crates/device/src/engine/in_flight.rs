//! The limit on unacknowledged bytes to one destination, over all queue pairs
//! (docs/adr/013-in-flight.md).
//!
//! Each queue pair has a window of its own, but ten thousand windows overrun any receiver.
//! Unacknowledged bytes are therefore summed for each destination. At the limit, queue pairs with
//! requests to send wait in FIFO order and are granted the right to send one after the other when
//! there is room again. Responses are never held back.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use slab::Slab;
use uroce_wire::Qpn;

use crate::engine::qp_table::{QpEntry, QpTable};

/// GSO batches that fit into the limit.
const BATCHES: u64 = 16;

/// The account of one queue pair at its destination.
#[derive(Debug, Default)]
pub(crate) struct QpCredit {
    /// Index of the destination; `None` before the queue pair has one.
    destination: Option<usize>,
    /// Bytes of the queue pair that are included in the sum of the destination.
    bytes: u64,
    /// The queue pair waits in the FIFO of the destination.
    waiting: bool,
    /// Position in the FIFO of the destination: the number of queue pairs that were queued earlier.
    position: u64,
    /// Bytes in flight when the queue pair was granted the right to send ahead of those that wait;
    /// `None` without a grant.
    granted: Option<u64>,
}

impl QpCredit {
    /// True while the queue pair waits for a grant.
    pub(crate) fn waits(&self) -> bool {
        self.waiting
    }
}

#[derive(Debug)]
struct Destination {
    address: IpAddr,
    /// Queue pairs with this destination.
    users: usize,
    /// Unacknowledged bytes of all its queue pairs.
    bytes: u64,
    /// Grants given and not yet used.
    granted: u64,
    /// Expected size of one grant in bytes: what the last granted queue pair sent.
    grant: u64,
    /// FIFO of the waiting queue pairs with their positions.
    waiting: VecDeque<(u64, Qpn)>,
    /// Positions given out so far.
    positions: u64,
    /// The destination is in the list of those with room and a waiting queue pair.
    due: bool,
    /// The limit was reached, and there is not yet room for a whole GSO batch.
    full: bool,
}

impl Destination {
    /// Whether there is room. Once the limit was reached, room has to suffice for a GSO batch: one
    /// packet for each acknowledged one would cost as much as a batch each.
    fn has_room(&mut self, limit: u64) -> bool {
        let enough = if self.full { limit - limit / BATCHES } else { limit - 1 };
        self.full = self.bytes > enough;
        !self.full && self.bytes + self.granted * self.grant < limit
    }

    /// Queues the owner of `credit`: at the end, or at its old position if its grant was `unused`.
    fn queue(&mut self, qpn: Qpn, credit: &mut QpCredit, unused: bool) {
        credit.waiting = true;
        if !unused {
            credit.position = self.positions;
            self.positions += 1;
        }
        let place = self.waiting.partition_point(|(position, _)| *position < credit.position);
        self.waiting.insert(place, (credit.position, qpn));
    }

    /// Ends the grant of the owner of `credit`, which has been served or is gone. True if there was
    /// one.
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

    /// True if a waiting queue pair can be granted the right to send.
    pub(crate) fn has_grants(&self) -> bool {
        !self.due.is_empty()
    }

    /// Adds the queue pair to the account of its destination, which may have changed.
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

    /// Removes the queue pair, which is destroyed or gets another destination, from the account of
    /// its destination.
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

    /// Updates the sum of the destination by the bytes that the queue pair has in flight now.
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

    /// Bytes that the queue pair may have in flight altogether. 0: others wait before it.
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

    /// Ends the service of a queue pair that has sent `sent` packets. If the limit `held` it back,
    /// it is queued: behind all others, or at its old position if it had a grant and sent nothing.
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

    /// Grants the right to send to the queue pair that has waited longest at a destination with
    /// room.
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

    /// Lists the destination if it has both room and a waiting queue pair.
    fn update_due(&mut self, id: usize) {
        let destination = &mut self.destinations[id];
        let due = destination.has_room(self.limit) && !destination.waiting.is_empty();
        if due && !destination.due {
            destination.due = true;
            self.due.push(id);
        }
    }
}
