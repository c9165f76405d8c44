//! Receive work requests that wait for messages.

use std::collections::VecDeque;

use uroce_memory::Sge;

use crate::limits;
use crate::wr::{PostError, RecvWr};

/// A receive work request that a message is being written to.
#[derive(Debug, Default)]
pub(crate) struct RecvWqe {
    pub(crate) wr_id: u64,
    pub(crate) sges: Vec<Sge>,
    /// Sum of the entries in bytes.
    pub(crate) length: u64,
}

#[derive(Debug, Clone, Copy)]
struct WqeSlot {
    wr_id: u64,
    length: u64,
    sges: u32,
    /// Its entry if it has one; that needs no ring.
    only: Sge,
}

/// A FIFO of receive work requests. The entries of all of them lie in one ring, so that posting
/// allocates nothing once the rings have grown to their working size.
#[derive(Debug, Default)]
pub(crate) struct RecvQueue {
    slots: VecDeque<WqeSlot>,
    sges: VecDeque<Sge>,
    capacity: u32,
    max_sge: u32,
}

impl RecvQueue {
    pub(crate) fn new(capacity: u32, max_sge: u32) -> Self {
        RecvQueue { slots: VecDeque::new(), sges: VecDeque::new(), capacity, max_sge }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Changes the capacity; false, changing nothing, if more requests wait than would fit.
    pub(crate) fn resize(&mut self, capacity: u32) -> bool {
        let fits = capacity > 0 && self.slots.len() <= capacity as usize;
        if fits {
            self.capacity = capacity;
        }
        fits
    }

    pub(crate) fn push(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if self.slots.len() >= self.capacity as usize {
            return Err(PostError::QueueFull { capacity: self.capacity });
        }
        if let &[only] = wr.sges
            && self.max_sge > 0
            && u64::from(only.length) <= limits::MAX_MESSAGE
        {
            let Sge { length, .. } = only;
            self.slots.push_back(WqeSlot { wr_id: wr.wr_id, length: length.into(), sges: 1, only });
            return Ok(());
        }
        self.push_list(wr)
    }

    #[inline(never)]
    fn push_list(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if wr.sges.len() > self.max_sge as usize {
            return Err(PostError::TooManySges { count: wr.sges.len(), max: self.max_sge });
        }
        let length = wr.sges.iter().map(|sge| u64::from(sge.length)).sum();
        if length > limits::MAX_MESSAGE {
            return Err(PostError::MessageTooLong { length });
        }
        debug_assert!(!self.slots.is_empty() || self.sges.is_empty(), "entries of no request");
        self.sges.extend(wr.sges);
        let (wr_id, sges) = (wr.wr_id, wr.sges.len() as u32);
        self.slots.push_back(WqeSlot { wr_id, length, sges, only: Sge::default() });
        Ok(())
    }

    /// Bytes of the oldest work request.
    pub(crate) fn front_length(&self) -> Option<u64> {
        self.slots.front().map(|slot| slot.length)
    }

    /// The oldest work request if it has one entry: its cookie and that entry.
    #[inline]
    pub(crate) fn front_of_one(&self) -> Option<(u64, &Sge)> {
        let slot = self.slots.front().filter(|slot| slot.sges == 1)?;
        Some((slot.wr_id, &slot.only))
    }

    /// Takes away what [`front_of_one`](Self::front_of_one) has shown.
    #[inline]
    pub(crate) fn drop_front_of_one(&mut self) {
        debug_assert!(self.front_of_one().is_some(), "it was shown");
        self.slots.pop_front();
    }

    /// Moves the oldest request into `wqe`; false if none waits.
    pub(crate) fn pop(&mut self, wqe: &mut RecvWqe) -> bool {
        let Some(slot) = self.slots.pop_front() else {
            return false;
        };
        wqe.wr_id = slot.wr_id;
        wqe.length = slot.length;
        wqe.sges.clear();
        debug_assert!(
            slot.sges == 1 || slot.sges as usize <= self.sges.len(),
            "entries that have gone"
        );
        if slot.sges == 1 {
            wqe.sges.push(slot.only);
        } else {
            wqe.sges.extend(self.sges.drain(..slot.sges as usize));
        }
        true
    }

    /// Puts a request that was popped in front again.
    pub(crate) fn put_back(&mut self, wqe: &RecvWqe) {
        let only = if let &[only] = wqe.sges.as_slice() { only } else { Sge::default() };
        if wqe.sges.len() != 1 {
            wqe.sges.iter().rev().for_each(|sge| self.sges.push_front(*sge));
        }
        let (wr_id, length, sges) = (wqe.wr_id, wqe.length, wqe.sges.len() as u32);
        self.slots.push_front(WqeSlot { wr_id, length, sges, only });
    }
}

#[cfg(test)]
mod tests {
    use uroce_memory::Lkey;

    use super::*;

    fn sge(length: u32) -> Sge {
        Sge { addr: 0x1000, length, lkey: Lkey(7) }
    }

    #[test]
    fn requests_leave_in_order_with_their_own_entries() {
        let mut queue = RecvQueue::new(2, 3);
        queue.push(&RecvWr { wr_id: 1, sges: &[sge(10), sge(20)] }).unwrap();
        queue.push(&RecvWr { wr_id: 2, sges: &[] }).unwrap();
        let full = queue.push(&RecvWr { wr_id: 3, sges: &[] });
        assert_eq!(full, Err(PostError::QueueFull { capacity: 2 }));
        let mut wqe = RecvWqe::default();
        assert!(queue.pop(&mut wqe));
        assert_eq!((wqe.wr_id, wqe.length, wqe.sges.len()), (1, 30, 2));
        assert!(queue.pop(&mut wqe));
        assert_eq!((wqe.wr_id, wqe.length, wqe.sges.len()), (2, 0, 0));
        assert!(!queue.pop(&mut wqe));
    }

    #[test]
    fn what_is_put_back_leaves_first_again() {
        let mut queue = RecvQueue::new(2, 3);
        let lists = [vec![sge(10), sge(20)], vec![sge(5)]];
        for (wr_id, sges) in (0..).zip(&lists) {
            queue.push(&RecvWr { wr_id, sges }).unwrap();
        }
        let mut wqe = RecvWqe::default();
        for (wr_id, sges) in (0..).zip(&lists) {
            assert!(queue.pop(&mut wqe));
            queue.put_back(&wqe);
            assert!(queue.pop(&mut wqe));
            assert_eq!((wqe.wr_id, &wqe.sges), (wr_id, sges));
        }
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn b31_too_many_entries_and_too_long_messages_are_refused() {
        let mut queue = RecvQueue::new(2, 1);
        let many = queue.push(&RecvWr { wr_id: 1, sges: &[sge(1), sge(1)] });
        assert_eq!(many, Err(PostError::TooManySges { count: 2, max: 1 }));
        let long = queue.push(&RecvWr { wr_id: 1, sges: &[sge(u32::MAX)] });
        assert_eq!(long, Err(PostError::MessageTooLong { length: u64::from(u32::MAX) }));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn b41_a_failed_resize_leaves_the_queue_as_it_was() {
        let mut queue = RecvQueue::new(2, 1);
        queue.push(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
        queue.push(&RecvWr { wr_id: 2, sges: &[] }).unwrap();
        assert!(!queue.resize(1));
        assert_eq!((queue.capacity(), queue.len()), (2, 2));
        assert!(queue.resize(8));
        assert_eq!(queue.capacity(), 8);
    }
}
