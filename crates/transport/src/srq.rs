//! Shared receive queues.

use slab::Slab;
use thiserror::Error;
use uroce_memory::PdId;

use crate::event::{AsyncEvent, EventQueue};
use crate::id::{CqId, SrqId, XrcdId};
use crate::limits;
use crate::recv_queue::{RecvQueue, RecvWqe};
use crate::wr::{PostError, RecvWr};

/// What an XRC shared receive queue has beyond a basic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct XrcSrq {
    /// The domain whose targets may be asked for this queue (X3).
    pub xrcd: XrcdId,
    /// Where its receives complete (X5).
    pub cq: CqId,
}

/// Attributes of a shared receive queue (`ibv_srq_attr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SrqAttr {
    /// Work requests that may wait.
    pub max_wr: u32,
    /// Entries of one work request.
    pub max_sge: u32,
    /// Raise SRQ_LIMIT_REACHED once when fewer than this many wait; 0: never.
    pub limit: u32,
}

/// Why a shared receive queue cannot be made or changed. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SrqError {
    /// A size exceeds the device's limit, or is zero.
    #[error("{what} = {value} is not between 1 and {max}")]
    BadSize {
        /// The attribute.
        what: &'static str,
        /// What was asked for.
        value: u32,
        /// The limit.
        max: u32,
    },
    /// More work requests wait than would fit (B41).
    #[error("{waiting} work requests wait, more than the new size of {max_wr}")]
    TooSmall {
        /// Work requests that wait.
        waiting: usize,
        /// The size asked for.
        max_wr: u32,
    },
    /// The limit cannot be reached.
    #[error("a limit of {limit} is above the size of the queue ({max_wr})")]
    BadLimit {
        /// The limit asked for.
        limit: u32,
        /// Size of the queue.
        max_wr: u32,
    },
    /// No such SRQ.
    #[error("no such SRQ: it was destroyed")]
    NoSuchSrq,
}

/// A shared receive queue.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    pd: PdId,
    xrc: Option<XrcSrq>,
    /// What the XRCETH of a peer says; the table gives it.
    number: u32,
    queue: RecvQueue,
    limit: u32,
}

impl SharedReceiveQueue {
    /// A queue whose buffers belong to protection domain `pd`.
    pub fn new(pd: PdId, attr: &SrqAttr) -> Result<Self, SrqError> {
        Self::build(pd, None, attr)
    }

    /// A queue for XRC; what a peer names through it belongs to protection domain `pd` as well.
    pub fn new_xrc(pd: PdId, xrc: XrcSrq, attr: &SrqAttr) -> Result<Self, SrqError> {
        Self::build(pd, Some(xrc), attr)
    }

    fn build(pd: PdId, xrc: Option<XrcSrq>, attr: &SrqAttr) -> Result<Self, SrqError> {
        check_size("max_wr", attr.max_wr, limits::MAX_SRQ_WR)?;
        check_size("max_sge", attr.max_sge, limits::MAX_SGE)?;
        let queue = RecvQueue::new(attr.max_wr, attr.max_sge);
        let mut srq = SharedReceiveQueue { pd, xrc, number: 0, queue, limit: 0 };
        srq.modify(None, Some(attr.limit))?;
        Ok(srq)
    }

    /// Its XRC domain and CQ; `None` for a basic queue.
    pub fn xrc(&self) -> Option<XrcSrq> {
        self.xrc
    }

    /// The number by which peers name it, 24 bits (`ibv_get_srq_num`).
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Protection domain of the buffers.
    pub fn pd(&self) -> PdId {
        self.pd
    }

    /// Current attributes; the limit is 0 once its event was raised.
    pub fn attr(&self) -> SrqAttr {
        SrqAttr { max_wr: self.queue.capacity(), max_sge: self.queue.max_sge(), limit: self.limit }
    }

    /// Work requests that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// True if no work request waits.
    pub fn is_empty(&self) -> bool {
        self.queue.len() == 0
    }

    /// Changes the size, and arms the limit event (R90; 0 disarms it): both or none of them (B41). What is
    /// `None` stays as it is.
    pub fn modify(&mut self, max_wr: Option<u32>, limit: Option<u32>) -> Result<(), SrqError> {
        let (size, limit) = (max_wr.unwrap_or(self.queue.capacity()), limit.unwrap_or(self.limit));
        check_size("max_wr", size, limits::MAX_SRQ_WR)?;
        if limit > size {
            return Err(SrqError::BadLimit { limit, max_wr: size });
        }
        let waiting = self.queue.len();
        if max_wr.is_some_and(|max_wr| !self.queue.resize(max_wr)) {
            return Err(SrqError::TooSmall { waiting, max_wr: size });
        }
        self.limit = limit;
        Ok(())
    }

    /// Adds a receive work request.
    pub fn post(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.queue.push(wr)
    }

    /// Bytes of the oldest work request.
    pub(crate) fn front_length(&self) -> Option<u64> {
        self.queue.front_length()
    }

    /// Takes the oldest work request, and raises the limit event when due (R90).
    pub(crate) fn take(&mut self, id: SrqId, wqe: &mut RecvWqe, events: &mut EventQueue) -> bool {
        if !self.queue.pop(wqe) {
            return false;
        }
        if self.limit > 0 && self.queue.len() < self.limit as usize {
            self.limit = 0;
            events.push(AsyncEvent::SrqLimitReached(id));
        }
        true
    }

    /// Puts a work request that was taken, and served no message, in front again. Others may have been
    /// posted since, so that there may be one more than fit for each queue pair.
    pub(crate) fn put_back(&mut self, wqe: &RecvWqe) {
        self.queue.put_back(wqe);
    }
}

fn check_size(what: &'static str, value: u32, max: u32) -> Result<(), SrqError> {
    if value == 0 || value > max {
        return Err(SrqError::BadSize { what, value, max });
    }
    Ok(())
}

/// The shared receive queues of a device.
#[derive(Debug, Default)]
pub struct SrqTable {
    queues: Slab<SharedReceiveQueue>,
    /// The number of the first place.
    first: u32,
    /// Upper 8 bits of the next number, so that a place is not named as it was before for long.
    stamp: u8,
}

/// Bits of a number that say the place in the table.
const PLACE_BITS: u32 = 16;

impl SrqTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty table whose numbers begin at `first`, so that several tables of one device name each queue
    /// differently.
    pub fn starting_at(first: u32) -> Self {
        SrqTable { first, ..Self::default() }
    }

    /// Where the queue with this number is, if it is one of this table.
    fn place(&self, id: SrqId) -> usize {
        id.0.wrapping_sub(self.first) as usize
    }

    /// Adds a queue.
    ///
    /// Of at most [`limits::MAX_SRQ`] queues each has a number of its own.
    pub fn insert(&mut self, mut srq: SharedReceiveQueue) -> SrqId {
        let entry = self.queues.vacant_entry();
        let place = entry.key() as u32;
        self.stamp = self.stamp.wrapping_add(1);
        srq.number = u32::from(self.stamp) << PLACE_BITS | place & (limits::MAX_SRQ - 1);
        entry.insert(srq);
        SrqId(self.first + place)
    }

    /// The XRC queue that an XRCETH names (X3).
    pub(crate) fn xrc_named(&self, number: u32) -> Option<(SrqId, PdId, XrcSrq)> {
        let id = SrqId(self.first + (number & (limits::MAX_SRQ - 1)));
        let srq = self.get(id).filter(|srq| srq.number == number)?;
        Some((id, srq.pd, srq.xrc?))
    }

    /// The queue with this number.
    pub fn get(&self, id: SrqId) -> Option<&SharedReceiveQueue> {
        self.queues.get(self.place(id))
    }

    /// The queue with this number.
    pub fn get_mut(&mut self, id: SrqId) -> Option<&mut SharedReceiveQueue> {
        let place = self.place(id);
        self.queues.get_mut(place)
    }

    /// Takes a queue out.
    pub fn remove(&mut self, id: SrqId) -> Option<SharedReceiveQueue> {
        self.queues.try_remove(self.place(id))
    }

    /// All queues with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (SrqId, &SharedReceiveQueue)> {
        self.queues.iter().map(|(place, srq)| (SrqId(self.first + place as u32), srq))
    }
}

#[cfg(test)]
mod tests {
    use uroce_memory::{MemLimits, MemTable};

    use super::*;

    fn srq(max_wr: u32, limit: u32) -> SharedReceiveQueue {
        let mut mem = MemTable::new([1; 32], MemLimits::default());
        let pd = mem.alloc_pd().unwrap();
        SharedReceiveQueue::new(pd, &SrqAttr { max_wr, max_sge: 1, limit }).unwrap()
    }

    #[test]
    fn r90_limit_event_once_per_arming() {
        let mut srq = srq(4, 2);
        let mut events = EventQueue::new();
        let mut wqe = RecvWqe::default();
        for wr_id in 0..3 {
            srq.post(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        let id = SrqId(9);
        srq.take(id, &mut wqe, &mut events);
        assert!(events.is_empty());
        srq.take(id, &mut wqe, &mut events);
        assert_eq!(events.pop(), Some(AsyncEvent::SrqLimitReached(id)));
        srq.take(id, &mut wqe, &mut events);
        assert!(events.is_empty());
        assert_eq!(srq.attr().limit, 0);
    }

    #[test]
    fn b41_resize_reports_the_new_size_or_leaves_the_old() {
        let mut srq = srq(4, 0);
        for wr_id in 0..3 {
            srq.post(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        assert_eq!(srq.modify(Some(2), None), Err(SrqError::TooSmall { waiting: 3, max_wr: 2 }));
        assert_eq!(srq.attr().max_wr, 4);
        srq.modify(Some(64), None).unwrap();
        assert_eq!(srq.attr().max_wr, 64);
        let too_high = Err(SrqError::BadLimit { limit: 65, max_wr: 64 });
        assert_eq!(srq.modify(None, Some(65)), too_high);
    }

    #[test]
    fn v33_size_and_limit_change_both_or_not_at_all() {
        let mut srq = srq(64, 32);
        let before = srq.attr();
        let refused = Err(SrqError::BadLimit { limit: 100, max_wr: 16 });
        assert_eq!(srq.modify(Some(16), Some(100)), refused);
        assert_eq!(srq.modify(Some(16), None), Err(SrqError::BadLimit { limit: 32, max_wr: 16 }));
        for wr_id in 0..9 {
            srq.post(&RecvWr { wr_id, sges: &[] }).unwrap();
        }
        let refused = Err(SrqError::TooSmall { waiting: 9, max_wr: 8 });
        assert_eq!(srq.modify(Some(8), Some(1)), refused);
        assert_eq!(srq.attr(), before, "nothing was changed");
        srq.modify(Some(16), Some(8)).unwrap();
        assert_eq!(
            (srq.attr().max_wr, srq.attr().limit),
            (16, 8),
            "the new limit fits the new size"
        );
    }

    #[test]
    fn numbers_that_peers_name_do_not_depend_on_where_a_table_starts() {
        let mut table = SrqTable::starting_at(3 << 24);
        let id = table.insert(srq(4, 0));
        assert_eq!(id, SrqId(3 << 24));
        let number = table.get(id).map(SharedReceiveQueue::number).unwrap();
        assert!(number < 1 << 24);
        assert!(table.get(SrqId(0)).is_none() && table.remove(SrqId(0)).is_none());
        assert_eq!(table.xrc_named(number).map(|(named, ..)| named), None, "a basic one");
        assert!(table.remove(id).is_some());
    }
}
