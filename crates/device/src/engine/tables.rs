//! The tables that the transport works on, and what the device notes beside them.

use std::collections::HashMap;

use slab::Slab;
use uroce_memory::{MemTable, PdId};
use uroce_transport::{
    Context, Counters, CqId, CqTable, EventQueue, ReorderBuffers, SrqTable, XrcdId,
};

use crate::comp_channel::{CompChannel, CqEvent};
use crate::engine::qp_table::NumberHash;

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
    /// The numbers of CQs, SRQs and XRC domains begin at `first`.
    pub(crate) fn new(mem: MemTable, first: u32) -> Self {
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
