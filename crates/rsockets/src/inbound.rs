//! The receiving half of a stream: a ring that the peer writes to, half by half, and what it may still
//! send.

use std::collections::VecDeque;

use uroce_device::memory::Region;

use crate::protocol_error::ProtocolError;

/// What the peer is told about room for its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The number, modulo 65536, of the last message that it may send.
    pub credits: u16,
    /// Offset of the half of the ring that it may write to next; `None`: no half is free.
    pub half: Option<usize>,
}

/// The peer fills one half of the ring after the other, each from its start to its end, so what it writes
/// is one sequence of bytes.
#[derive(Debug)]
pub(crate) struct Inbound {
    ring: Region,
    /// Bytes of each message that are not read yet.
    messages: VecDeque<u32>,
    read_at: usize,
    /// Bytes that the peer may still write.
    allowed: usize,
    /// Bytes that were read, and that the peer was not given again.
    free: usize,
    /// The half that it is given next.
    next_half: usize,
    /// Messages that were read to their end.
    consumed: u16,
    /// How many that were when the peer was last told of it.
    told: u16,
    /// Most messages that may wait.
    limit: u16,
}

impl Inbound {
    /// The peer has been told of the first half and of `limit` messages.
    pub fn new(ring: Region, limit: u16) -> Inbound {
        let half = ring.len() / 2;
        Inbound {
            ring,
            messages: VecDeque::with_capacity(usize::from(limit)),
            read_at: 0,
            allowed: half,
            free: half,
            next_half: half,
            consumed: 0,
            told: 0,
            limit,
        }
    }

    /// The peer says that it has written `length` bytes.
    ///
    /// # Errors
    /// More than it was allowed to.
    pub fn arrived(&mut self, length: u32) -> Result<(), ProtocolError> {
        let left = self.allowed.checked_sub(length as usize).ok_or(ProtocolError)?;
        if self.messages.len() >= usize::from(self.limit) {
            return Err(ProtocolError);
        }
        self.allowed = left;
        self.messages.push_back(length);
        Ok(())
    }

    pub fn has_data(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Moves bytes to `out` and returns how many; with `peek` they stay.
    pub fn read(&mut self, out: &mut [u8], peek: bool) -> usize {
        let (mut done, mut at, mut finished) = (0, self.read_at, 0);
        for left in &mut self.messages {
            let count = (*left as usize).min(out.len() - done);
            at = copy_out(&self.ring, at, &mut out[done..done + count]);
            done += count;
            if !peek {
                *left -= count as u32;
            }
            if peek || *left == 0 {
                finished += 1;
            }
            if done == out.len() {
                break;
            }
        }
        if !peek {
            self.messages.drain(..finished);
            self.consumed = self.consumed.wrapping_add(finished as u16);
            self.free += done;
            self.read_at = at;
        }
        done
    }

    /// Whether it is worth a message to tell the peer of room.
    pub fn wants_grant(&self) -> bool {
        let untold = self.consumed.wrapping_sub(self.told);
        self.free >= self.ring.len() / 2 || untold >= (self.limit / 2).max(1)
    }

    /// What to tell the peer.
    pub fn grant(&mut self) -> Grant {
        let half = self.ring.len() / 2;
        self.told = self.consumed;
        let credits = self.consumed.wrapping_add(self.limit);
        if self.free < half {
            return Grant { credits, half: None };
        }
        let given = self.next_half;
        self.free -= half;
        self.allowed += half;
        self.next_half = half - given;
        Grant { credits, half: Some(given) }
    }
}

/// Copies from the ring, around its end; returns where the next byte is.
fn copy_out(ring: &Region, at: usize, out: &mut [u8]) -> usize {
    let (before, after) = out.split_at_mut(out.len().min(ring.len() - at));
    ring.read(at, before).expect("within the ring");
    ring.read(0, after).expect("no longer than the ring");
    (at + before.len() + after.len()) % ring.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbound(limit: u16) -> Inbound {
        let ring = Region::alloc(16).expect("16 bytes");
        for at in 0..16 {
            ring.fill(at, 1, at as u8).expect("inside");
        }
        Inbound::new(ring, limit)
    }

    #[test]
    fn bytes_are_read_in_order_and_around_the_end() {
        let mut inbound = inbound(8);
        assert_eq!(inbound.grant(), Grant { credits: 8, half: Some(8) });
        inbound.arrived(5).expect("allowed");
        inbound.arrived(9).expect("allowed");
        let mut out = [0; 6];
        assert_eq!((inbound.read(&mut out, true), out), (6, [0, 1, 2, 3, 4, 5]));
        assert_eq!((inbound.read(&mut out, false), out), (6, [0, 1, 2, 3, 4, 5]));
        assert_eq!((inbound.read(&mut out, false), out), (6, [6, 7, 8, 9, 10, 11]));
        assert!(inbound.wants_grant(), "8 bytes are free");
        assert_eq!(inbound.grant(), Grant { credits: 9, half: Some(0) });
        inbound.arrived(4).expect("2 left in the second half, 8 in the first");
        assert_eq!((inbound.read(&mut out, false), out), (6, [12, 13, 14, 15, 0, 1]));
        assert_eq!(inbound.read(&mut out, false), 0);
        assert_eq!(inbound.grant(), Grant { credits: 11, half: Some(8) });
        assert_eq!(inbound.grant(), Grant { credits: 11, half: None });
    }

    #[test]
    fn a_peer_that_sends_more_than_it_may_is_found_out() {
        assert_eq!(inbound(8).arrived(9), Err(ProtocolError), "only the first half is known to it");
        assert_eq!(inbound(8).arrived(u32::MAX), Err(ProtocolError));
        let mut inbound = inbound(2);
        inbound.arrived(1).expect("one");
        inbound.arrived(1).expect("two");
        assert_eq!(inbound.arrived(1), Err(ProtocolError), "there are two credits");
    }

    #[test]
    fn an_empty_message_is_read_and_counted() {
        let mut inbound = inbound(2);
        inbound.arrived(0).expect("allowed");
        assert_eq!(inbound.read(&mut [0; 4], false), 0);
        assert!(!inbound.has_data() && inbound.wants_grant());
    }
}
