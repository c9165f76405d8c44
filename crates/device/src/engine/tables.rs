//! The tables that the transport works on, and what the device notes beside them.
//!
//! The numbers of CQs, SRQs and XRC domains name the engine that has them.

use std::collections::HashMap;

use slab::Slab;
use uroce_memory::{MemTable, PdId};
use uroce_transport::limits::MAX_SRQ;
use uroce_transport::{
    CompletionQueue, Context, Counters, CqId, CqTable, EventQueue, ReorderBuffers,
    SharedReceiveQueue, SrqAttr, SrqError, SrqId, SrqTable, Wc, XrcdId,
};

use super::qp_table::NumberHash;
use crate::comp_channel::{CompChannel, CqEvent};
use crate::error::{CreateError, NoSuchObject};
use crate::limits::DeviceLimits;

/// Bits of the number of a CQ, SRQ or XRC domain that tell those of one engine apart. The bits above are
/// the number of the engine.
const OBJECT_BITS: u32 = 24;

/// The number of the first CQ, SRQ or XRC domain of an engine.
fn first_object(engine: u8) -> u32 {
    u32::from(engine) << OBJECT_BITS
}

/// The engine that a CQ, SRQ or XRC domain with this number is in.
pub(crate) fn engine_of_object(id: u32) -> u8 {
    (id >> OBJECT_BITS) as u8
}

/// Completion channel and user data of a CQ.
#[derive(Debug)]
pub(crate) struct CqNote {
    pub(crate) channel: Option<CompChannel>,
    pub(crate) cookie: u64,
}

/// One field for each field of [`Context`].
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) mem: MemTable,
    pub(crate) cqs: CqTable,
    pub(crate) srqs: SrqTable,
    pub(crate) events: EventQueue,
    pub(crate) reorder_buffers: ReorderBuffers,
    pub(crate) counters: Counters,
    pub(crate) cq_notes: HashMap<CqId, CqNote, NumberHash>,
    pub(crate) srq_count: usize,
    xrcds: Slab<Xrcd>,
    /// The number of the first CQ, SRQ and XRC domain.
    first: u32,
}

/// An XRC domain.
#[derive(Debug)]
pub(crate) struct Xrcd {
    /// What its targets have in place of a protection domain and a CQ of their own: nothing is
    /// registered in the one, and nothing completes to the other.
    pub(crate) pd: PdId,
    pub(crate) cq: CqId,
}

impl Tables {
    /// The tables of the engine with this number.
    pub(super) fn new(mem: MemTable, engine: u8) -> Self {
        let first = first_object(engine);
        Tables {
            mem,
            cqs: CqTable::starting_at(first),
            srqs: SrqTable::starting_at(first),
            events: EventQueue::new(),
            reorder_buffers: ReorderBuffers::new(),
            counters: Counters::new(),
            cq_notes: HashMap::default(),
            srq_count: 0,
            xrcds: Slab::new(),
            first,
        }
    }

    /// How many XRC domains there are.
    pub(crate) fn xrcd_count(&self) -> usize {
        self.xrcds.len()
    }

    pub(crate) fn add_xrcd(&mut self, xrcd: Xrcd) -> XrcdId {
        XrcdId(self.first + self.xrcds.insert(xrcd) as u32)
    }

    pub(crate) fn xrcd(&self, id: XrcdId) -> Option<&Xrcd> {
        self.xrcds.get(self.xrcd_place(id))
    }

    pub(crate) fn remove_xrcd(&mut self, id: XrcdId) -> Option<Xrcd> {
        self.xrcds.try_remove(self.xrcd_place(id))
    }

    fn xrcd_place(&self, id: XrcdId) -> usize {
        id.0.wrapping_sub(self.first) as usize
    }

    /// The tables, borrowed by a queue pair for one call.
    pub(crate) fn context(&mut self) -> Context<'_> {
        Context {
            mem: &mut self.mem,
            cqs: &mut self.cqs,
            srqs: &mut self.srqs,
            events: &mut self.events,
            reorder_buffers: &mut self.reorder_buffers,
            counters: &mut self.counters,
        }
    }

    /// True if the next completion raises an event: a poll then is the last look before sleeping, not
    /// the start of polling.
    pub(crate) fn is_armed(&self, cq: CqId) -> bool {
        self.cqs.get(cq).is_some_and(CompletionQueue::is_armed)
            && self.cq_notes.get(&cq).is_some_and(|note| note.channel.is_some())
    }

    /// Shows up to `most` completions to `each`, and removes them.
    #[inline]
    pub(crate) fn take_completions(
        &mut self,
        cq: CqId,
        most: usize,
        each: impl FnMut(&Wc),
    ) -> Result<usize, NoSuchObject> {
        Ok(self.cqs.get_mut(cq).ok_or(NoSuchObject::cq(cq))?.poll_each(most, each))
    }

    /// Makes and adds a shared receive queue, if there may be one more.
    pub(crate) fn add_srq(
        &mut self,
        attr: &SrqAttr,
        limits: &DeviceLimits,
        make: impl FnOnce(&SrqAttr) -> Result<SharedReceiveQueue, SrqError>,
    ) -> Result<SrqId, CreateError> {
        check_sizes(attr, limits)?;
        let limit = limits.max_srq.min(MAX_SRQ as usize);
        if self.srq_count >= limit {
            return Err(CreateError::LimitReached { what: "shared receive queues", limit });
        }
        let srq = make(attr)?;
        let pd = srq.pd();
        self.mem.retain_pd(pd).map_err(|_| NoSuchObject::pd(pd))?;
        self.srq_count += 1;
        Ok(self.srqs.insert(srq))
    }

    /// True if an XRC SRQ completes to `cq`, or a domain has it for its own.
    pub(crate) fn xrc_uses_cq(&self, cq: CqId) -> bool {
        self.srqs.iter().filter_map(|(_, srq)| srq.xrc()).any(|xrc| xrc.cq == cq)
            || self.xrcds.iter().any(|(_, xrcd)| xrcd.cq == cq)
    }

    /// Wakes the channels of the CQs that fired.
    pub(crate) fn deliver_cq_events(&mut self) {
        while let Some(cq) = self.cqs.pop_event() {
            let Some(note) = self.cq_notes.get(&cq) else { continue };
            if let Some(channel) = &note.channel {
                channel.push(CqEvent { cq, cookie: note.cookie });
            }
        }
    }
}

fn check_sizes(attr: &SrqAttr, limits: &DeviceLimits) -> Result<(), CreateError> {
    let sizes =
        [("max_wr", attr.max_wr, limits.max_srq_wr), ("max_sge", attr.max_sge, limits.max_srq_sge)];
    for (what, asked, limit) in sizes {
        if asked == 0 || asked > limit {
            return Err(CreateError::BadSize { what, asked, limit });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_objects_name_their_engine() {
        for engine in [0, 1, 63] {
            let first = first_object(engine);
            assert_eq!(engine_of_object(first), engine);
            assert_eq!(engine_of_object(first + (1 << OBJECT_BITS) - 1), engine);
        }
    }
}
