//! The sending half of a stream: bytes wait in a ring until the device has sent them, and go where the
//! peer says that it has room.

use uroce_device::memory::Region;

use crate::credit_table::CreditTable;
use crate::protocol::Remote;
use crate::protocol_error::ProtocolError;

/// Most bytes of one message.
const MAX_TRANSFER: usize = 65_536;
/// A program is told that it may send when this many bytes can go, or as many as the ring has.
const LOW_WATER: usize = 2_048;

/// One message: where its bytes are in the ring, in up to two pieces, and where they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Offset and length.
    pub parts: [(usize, usize); 2],
    pub to: Remote,
}

/// What waits to be sent, and what may be.
#[derive(Debug)]
pub(crate) struct Outbound {
    ring: Region,
    write_at: usize,
    /// Bytes of the ring that nothing waits in.
    free: usize,
    /// Places in the send queue.
    slots: u32,
    /// Messages that were sent, and how far that may go, modulo 65536.
    sent: u16,
    limit: u16,
    /// The most messages that the peer said may be on their way.
    most: u16,
    /// Where the next bytes go.
    target: Remote,
    /// The entry of the table that is due when the target is full.
    next: usize,
}

impl Outbound {
    pub fn new(ring: Region, slots: u32) -> Outbound {
        let (free, target) = (ring.len(), Remote::default());
        Outbound { ring, write_at: 0, free, slots, sent: 0, limit: 0, most: 0, target, next: 1 }
    }

    /// The peer's first receive buffer, and how many messages it takes.
    pub fn begin(&mut self, target: Remote, credits: u16) {
        (self.target, self.limit, self.most) = (target, credits, credits);
    }

    /// The peer allows messages up to this number.
    ///
    /// # Errors
    /// More than it has receives.
    pub fn credits(&mut self, limit: u16) -> Result<(), ProtocolError> {
        if limit.wrapping_sub(self.sent) > self.most {
            return Err(ProtocolError);
        }
        self.limit = limit;
        Ok(())
    }

    /// How many bytes the next message may have; 0: nothing can be sent now.
    ///
    /// # Errors
    /// The peer wrote something into our table that cannot be.
    pub fn room(&mut self, tables: &CreditTable) -> Result<usize, ProtocolError> {
        if self.slots == 0 || self.sent == self.limit {
            return Ok(0);
        }
        if self.target.length == 0 {
            self.target = tables.take(self.next)?;
            if self.target.length > 0 {
                self.next += 1;
            }
        }
        let room = self.free.min(self.target.length as usize).min(MAX_TRANSFER);
        let enough = self.free >= LOW_WATER.min(self.ring.len());
        Ok(if enough { room } else { 0 })
    }

    /// Whether a message that needs no room at the peer can go.
    pub fn has_slot(&self) -> bool {
        self.slots > 0
    }

    /// Bytes that can wait in the ring.
    pub fn free(&self) -> usize {
        if self.slots == 0 { 0 } else { self.free.min(MAX_TRANSFER) }
    }

    /// Takes as many bytes as [`room`](Self::room) said at most.
    pub fn push(&mut self, data: &[u8]) -> Piece {
        let to = self.target;
        self.target.addr += data.len() as u64;
        self.target.length -= data.len() as u32;
        self.sent = self.sent.wrapping_add(1);
        Piece { parts: self.keep(data), to }
    }

    /// Takes as many bytes as [`free`](Self::free) said at most, for a place that the caller knows.
    pub fn keep(&mut self, data: &[u8]) -> [(usize, usize); 2] {
        let at = self.write_at;
        let (before, after) = data.split_at(data.len().min(self.ring.len() - at));
        self.ring.write(at, before).expect("within the ring");
        self.ring.write(0, after).expect("no longer than the ring");
        self.write_at = (at + data.len()) % self.ring.len();
        self.free -= data.len();
        self.slots -= 1;
        [(at, before.len()), (0, after.len())]
    }

    /// The device has sent a message of so many bytes.
    pub fn done(&mut self, bytes: usize) {
        self.free = (self.free + bytes).min(self.ring.len());
        self.slots += 1;
    }

    /// A message without bytes takes a place in the send queue.
    pub fn take_slot(&mut self) {
        self.slots -= 1;
    }

    /// Everything was sent, and the peer has it.
    pub fn is_idle(&self, slots: u32) -> bool {
        self.slots == slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (Outbound, CreditTable) {
        let ring = Region::alloc(16).expect("memory");
        let tables = CreditTable::new(Region::alloc(CreditTable::size(0)).expect("memory"), 0);
        (Outbound::new(ring, 4), tables)
    }

    #[test]
    fn bytes_go_where_the_peer_has_room_and_around_the_end_of_the_ring() {
        let (mut outbound, tables) = world();
        assert_eq!(outbound.room(&tables), Ok(0), "no credits yet");
        outbound.begin(Remote { addr: 1000, rkey: 1, length: 12 }, 3);
        assert_eq!(outbound.room(&tables), Ok(12));
        let first = outbound.push(&[1; 10]);
        assert_eq!((first.parts[0], first.to.addr), ((0, 10), 1000));
        assert_eq!(outbound.room(&tables), Ok(0), "the ring is not free enough");
        outbound.done(10);
        assert_eq!(outbound.room(&tables), Ok(2));
        outbound.push(&[2; 2]);
        outbound.done(2);
        assert_eq!(outbound.room(&tables), Ok(0), "the peer's buffer is full");
        let next = Remote { addr: 2000, rkey: 2, length: 100 };
        outbound.target = next;
        let last = outbound.push(&[3; 8]);
        assert_eq!((last.parts, last.to), ([(12, 4), (0, 4)], next));
        assert_eq!(outbound.room(&tables), Ok(0), "three messages were sent");
        assert!(!outbound.is_idle(4));
        outbound.done(8);
        assert!(outbound.is_idle(4));
    }

    #[test]
    fn credits_that_were_never_offered_are_refused() {
        let (mut outbound, _) = world();
        outbound.begin(Remote { addr: 1000, rkey: 1, length: 12 }, 3);
        assert_eq!(outbound.credits(4), Err(ProtocolError));
        assert_eq!(outbound.credits(u16::MAX), Err(ProtocolError), "backwards");
        outbound.push(&[1]);
        assert_eq!(outbound.credits(4), Ok(()));
    }
}
