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
use uroce_transport::QueuePair;
use uroce_wire::Qpn;

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
        debug_assert!(
            !credit.waiting && credit.granted.is_none(),
            "it waits or was granted already"
        );
        credit.waiting = true;
        if !unused {
            credit.position = self.positions;
            self.positions += 1;
        }
        let place = self.waiting.partition_point(|(position, _)| *position < credit.position);
        self.waiting.insert(place, (credit.position, qpn));
        debug_assert!(self.waiting.len() <= self.users, "{} of {}", self.waiting.len(), self.users);
    }

    /// Ends the grant of the owner of `credit`, which has been served or is gone. True if there was
    /// one.
    fn end_grant(&mut self, credit: &mut QpCredit) -> bool {
        let Some(before) = credit.granted.take() else { return false };
        debug_assert!(self.granted > 0, "a grant ends that was not given");
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
    /// Destinations with room, and with queue pairs that wait, in the order in which they are called.
    due: VecDeque<usize>,
}

impl InFlight {
    /// Up to `limit` bytes for each destination.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, destinations: Slab::new(), by_address: HashMap::new(), due: VecDeque::new() }
    }

    /// True if a waiting queue pair can be granted the right to send.
    pub(crate) fn has_grants(&self) -> bool {
        !self.due.is_empty()
    }

    /// Adds the queue pair to the account of its destination, which may have changed.
    pub(crate) fn join(&mut self, qp: &QueuePair, credit: &mut QpCredit) {
        let address = qp.acknowledging_peer();
        let known = credit.destination.and_then(|id| self.destinations.get(id));
        if known.map(|destination| destination.address) == address {
            return;
        }
        self.leave(qp.qpn(), credit);
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
        *credit = QpCredit { destination: Some(id), ..QpCredit::default() };
        self.account(qp, credit);
    }

    /// Removes the queue pair, which is destroyed or gets another destination, from the account of
    /// its destination.
    pub(crate) fn leave(&mut self, qpn: Qpn, credit: &mut QpCredit) {
        let mut credit = std::mem::take(credit);
        let Some(id) = credit.destination else { return };
        let destination = &mut self.destinations[id];
        debug_assert!(
            destination.bytes >= credit.bytes,
            "more bytes in flight than at their destination"
        );
        debug_assert_eq!(
            destination.waiting.iter().any(|(_, waiting)| *waiting == qpn),
            credit.waiting,
            "who waits is in the list, and nobody else"
        );
        destination.bytes -= credit.bytes;
        destination.users -= 1;
        destination.end_grant(&mut credit);
        if credit.waiting {
            destination.waiting.retain(|(_, waiting)| *waiting != qpn);
        }
        if destination.users > 0 {
            return self.update_due(id);
        }
        debug_assert!(
            destination.bytes == 0 && destination.granted == 0,
            "bytes or grants of nobody"
        );
        debug_assert!(
            destination.waiting.is_empty(),
            "nobody waits at a destination without users"
        );
        let gone = self.destinations.remove(id);
        self.by_address.remove(&gone.address);
        self.due.retain(|due| *due != id);
    }

    /// Updates the sum of the destination by the bytes that the queue pair has in flight now.
    #[inline]
    pub(crate) fn account(&mut self, qp: &QueuePair, credit: &mut QpCredit) {
        let Some(id) = credit.destination else { return };
        let bytes = qp.bytes_in_flight();
        if bytes == credit.bytes {
            return;
        }
        let destination = &mut self.destinations[id];
        debug_assert!(destination.bytes >= credit.bytes, "bytes in flight add up");
        destination.bytes = destination.bytes - credit.bytes + bytes;
        credit.bytes = bytes;
        self.update_due(id);
    }

    /// Bytes that the queue pair may have in flight altogether. 0: others wait before it.
    #[inline]
    pub(crate) fn allowance(&self, credit: &QpCredit) -> u64 {
        let QpCredit { destination, bytes, granted, .. } = *credit;
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
    pub(crate) fn finish_turn(
        &mut self,
        qp: &QueuePair,
        credit: &mut QpCredit,
        sent: usize,
        held: bool,
    ) {
        self.account(qp, credit);
        let queues = held && !credit.waiting;
        if credit.granted.is_none() && !queues {
            // An ACK, or a packet within the limit: nothing that others wait for has changed.
            return;
        }
        let Some(id) = credit.destination else { return };
        let destination = &mut self.destinations[id];
        let granted = destination.end_grant(credit);
        if queues {
            destination.queue(qp.qpn(), credit, granted && sent == 0);
        }
        self.update_due(id);
    }

    /// Takes the queue pair that has waited longest at a destination with room out of its FIFO.
    /// [`grant`](Self::grant) is due for it.
    pub(crate) fn pop_waiting(&mut self) -> Option<Qpn> {
        while let Some(id) = self.due.pop_front() {
            let destination = &mut self.destinations[id];
            debug_assert!(destination.due, "a destination is in the list if it says so");
            destination.due = false;
            if destination.has_room(self.limit)
                && let Some((_, qpn)) = destination.waiting.pop_front()
            {
                return Some(qpn);
            }
        }
        None
    }

    /// Grants the right to send ahead of those that wait.
    pub(crate) fn grant(&mut self, credit: &mut QpCredit) {
        let Some(id) = credit.destination else { return };
        debug_assert!(
            credit.waiting && credit.granted.is_none(),
            "granted once, after it has waited"
        );
        credit.waiting = false;
        credit.granted = Some(credit.bytes);
        self.destinations[id].granted += 1;
        self.update_due(id);
    }

    /// Lists the destination if it has both room and a waiting queue pair.
    fn update_due(&mut self, id: usize) {
        let destination = &mut self.destinations[id];
        let due = destination.has_room(self.limit) && !destination.waiting.is_empty();
        if due && !destination.due {
            destination.due = true;
            self.due.push_back(id);
        }
        debug_assert!(self.due.len() <= self.destinations.len(), "each destination is listed once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_with_room_are_called_in_turn() {
        const GRANT: u64 = 1024;
        let mut all = InFlight::new(1 << 20);
        let ids = [1, 2].map(|number| {
            let waiting = (0..3).map(|at| (at, Qpn::new(10 * number + at as u32))).collect();
            let address = IpAddr::from([10, 0, 0, number as u8]);
            all.destinations.insert(Destination {
                address,
                users: 3,
                bytes: 0,
                granted: 0,
                grant: GRANT,
                waiting,
                positions: 3,
                due: false,
                full: false,
            })
        });
        ids.iter().for_each(|id| all.update_due(*id));
        let mut called = Vec::new();
        while let Some(qpn) = all.pop_waiting() {
            let destination = Some(ids[qpn.get() as usize / 10 - 1]);
            let mut credit = QpCredit { destination, waiting: true, ..QpCredit::default() };
            all.grant(&mut credit);
            called.push(qpn.get());
        }
        assert_eq!(called, [10, 20, 11, 21, 12, 22]);
    }
}
