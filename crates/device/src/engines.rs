//! The engines of a device that has several (docs/adr/016-engines.md).
//!
//! Each has a lock, a socket, a slot and a thread of its own, and they share nothing on the data
//! path. Operations on another engine, needed when connections are made and end, are
//! [`CrossEngineOp`]s.

pub(crate) mod shared;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shared::{EngineGuard, Shared};
use uroce_cm::CommId;
use uroce_wire::{Qpn, Slot};

use crate::cm_channel::CmEventKind;
use crate::engine::Engine;

/// Bits of the number of a CQ, SRQ or XRC domain that tell those of one engine apart. The bits above are
/// the number of the engine.
const OBJECT_BITS: u32 = 24;

/// The number of the first CQ, SRQ or XRC domain of an engine.
pub(crate) fn first_object(engine: u8) -> u32 {
    u32::from(engine) << OBJECT_BITS
}

/// The engine that a CQ, SRQ or XRC domain with this number is in.
pub(crate) fn engine_of_object(id: u32) -> u8 {
    (id >> OBJECT_BITS) as u8
}

/// An operation on another engine, carried out by the thread that requested it after it has
/// released its own engine.
#[derive(Debug)]
pub(crate) enum CrossEngineOp {
    /// A queue pair has got the packet that this connection waits for.
    FirstPacket(CommId),
    /// The peer of this queue pair seems to have forgotten this connection.
    ProbePeer { id: CommId, qpn: Qpn },
    /// The connection of this queue pair stands: its first packet confirms nothing any more.
    StopWaiting(Qpn),
    /// The connection of this queue pair has ended. Afterwards its owner hears of it.
    EndLink { qpn: Qpn, then: Option<(CommId, CmEventKind)> },
}

/// Two or more engines.
#[derive(Debug)]
pub(crate) struct Engines {
    all: Box<[Arc<Shared>]>,
    /// The engine that has each slot; 0 for the slots of other processes, too.
    by_slot: Box<[u8]>,
    /// Held while something is changed that all engines have a copy of, or counted over all
    /// engines. Taken before the lock of any engine.
    order: Mutex<()>,
}

impl Engines {
    pub(crate) fn new(all: Vec<Arc<Shared>>) -> Arc<Engines> {
        let mut by_slot = vec![0; usize::from(u8::MAX) + 1].into_boxed_slice();
        for (number, shared) in (0..).zip(&all) {
            if let Some(slot) = shared.lock().nic.slot {
                by_slot[usize::from(slot.get())] = number;
            }
        }
        let engines =
            Arc::new(Engines { all: all.into_boxed_slice(), by_slot, order: Mutex::new(()) });
        engines.all.iter().for_each(|shared| shared.join(&engines));
        engines
    }

    pub(crate) fn all(&self) -> &[Arc<Shared>] {
        &self.all
    }

    /// The engine of a queue pair; for an unknown number the first engine.
    #[inline]
    pub(crate) fn of_qp(&self, qpn: Qpn) -> &Shared {
        self.of_slot(Slot::of(qpn))
    }

    /// The engine of a connection.
    pub(crate) fn of_connection(&self, id: CommId) -> &Shared {
        self.of_slot(id.slot())
    }

    /// The engine of a CQ, SRQ or XRC domain; for an unknown number the first engine.
    #[inline]
    pub(crate) fn of_object(&self, id: u32) -> &Shared {
        self.all.get(usize::from(engine_of_object(id))).unwrap_or(&self.all[0])
    }

    #[inline]
    fn of_slot(&self, slot: Option<Slot>) -> &Shared {
        let slot = slot.map_or(0, Slot::get);
        &self.all[usize::from(self.by_slot[usize::from(slot)])]
    }

    /// One change of what all engines have a copy of at a time.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All engines at once, in their order.
    pub(crate) fn lock_all(&self) -> Vec<EngineGuard<'_>> {
        self.all.iter().map(|shared| shared.lock()).collect()
    }

    /// Called without a lock.
    pub(crate) fn run(&self, op: CrossEngineOp) {
        match op {
            CrossEngineOp::FirstPacket(id) => self.of_connection(id).lock().confirm(id),
            CrossEngineOp::ProbePeer { id, qpn } => {
                if !self.of_qp(qpn).lock().ask_peer(id, qpn) {
                    self.of_connection(id).lock().confirm(id);
                }
            }
            CrossEngineOp::StopWaiting(qpn) => {
                if let Some(entry) = self.of_qp(qpn).lock().nic.qps.get_mut(qpn) {
                    entry.awaits_comm_est = None;
                }
            }
            CrossEngineOp::EndLink { qpn, then } => {
                self.of_qp(qpn).lock().end_link(qpn);
                if let Some((id, kind)) = then {
                    self.of_connection(id).lock().tell(id, kind);
                }
            }
        }
    }
}

impl Engine {
    /// The packet that a connection waits for has come to its queue pair in another engine.
    pub(crate) fn confirm(&mut self, id: CommId) {
        let now = self.clock.now();
        self.nic.gsi.handle_comm_est(id);
        self.serve_cm(now);
        self.send_ready(now);
    }
}

/// True if a number is of another slot than ours, where numbers have slots.
pub(crate) fn is_elsewhere(own: Option<Slot>, theirs: Option<Slot>) -> bool {
    own.is_some() && own != theirs
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

    #[test]
    fn without_slots_nothing_is_elsewhere() {
        let (one, two) = (Slot::new(1), Slot::new(2));
        assert!(is_elsewhere(one, two) && is_elsewhere(one, None));
        assert!(!is_elsewhere(one, one) && !is_elsewhere(None, two));
    }
}
