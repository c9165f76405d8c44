//! The engines of a device (docs/adr/016-engines.md).
//!
//! Each has a lock, a socket, a slot and a thread of its own, and they share nothing on the data
//! path. Operations on another engine, needed when connections are made and end, are
//! [`CrossEngineOp`]s.

mod shared;

use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use shared::{EngineGuard, Shared};
use uroce_cm::CommId;
use uroce_memory::mutation::mutated;
use uroce_wire::{Qpn, Slot};

use crate::engine::{CrossEngineOp, Engine, engine_of_object};
use crate::error::CreateError;

/// One engine or several.
#[derive(Debug)]
pub(crate) struct Engines {
    /// The first engine, and in most devices the only one.
    first: Arc<Shared>,
    several: Option<Arc<Several>>,
}

/// Two or more engines.
#[derive(Debug)]
struct Several {
    all: Box<[Arc<Shared>]>,
    /// The engine that has each slot; 0 for the slots of other processes, too.
    by_slot: Box<[u8]>,
    /// Held while something is changed that all engines have a copy of, or counted over all
    /// engines. Taken before the lock of any engine.
    order: Mutex<()>,
}

impl Engines {
    /// There is at least one.
    pub(crate) fn new(all: Vec<Arc<Shared>>) -> Engines {
        let first = Arc::clone(&all[0]);
        Engines { first, several: (all.len() > 1).then(|| Several::new(all)) }
    }

    pub(crate) fn all(&self) -> &[Arc<Shared>] {
        match &self.several {
            None => slice::from_ref(&self.first),
            Some(several) => &several.all,
        }
    }

    pub(crate) fn first(&self) -> &Shared {
        &self.first
    }

    /// True if there is more than one.
    pub(crate) fn are_several(&self) -> bool {
        self.several.is_some()
    }

    /// The engine of a queue pair; for an unknown number the first engine.
    #[inline]
    pub(crate) fn of_qp(&self, qpn: Qpn) -> &Shared {
        self.several.as_ref().map_or(&self.first, |several| several.of_qp(qpn))
    }

    /// The engine that gave out the id: that of the queue pair which called, and the first one for
    /// calls that came.
    pub(crate) fn of_connection(&self, id: CommId) -> &Shared {
        self.several.as_ref().map_or(&self.first, |several| several.of_connection(id))
    }

    /// The engine of the CQ, SRQ or XRC domain with this number; for an unknown one the first engine.
    #[inline]
    pub(crate) fn of_object(&self, id: u32) -> &Shared {
        let Some(several) = &self.several else { return &self.first };
        several.all.get(usize::from(engine_of_object(id))).unwrap_or(&self.first)
    }

    /// The engine of a completion vector.
    pub(crate) fn of_vector(&self, vector: u32) -> Result<&Shared, CreateError> {
        let engines = self.all();
        let found = usize::try_from(vector).ok().and_then(|vector| engines.get(vector));
        let none = CreateError::CompVector { asked: vector, engines: engines.len() };
        found.map(Arc::as_ref).ok_or(none)
    }

    /// Objects with these numbers can work together.
    pub(crate) fn check_together(
        &self,
        (what, one): (&'static str, u32),
        (with, other): (&'static str, u32),
    ) -> Result<(), CreateError> {
        let (engine, home) = (engine_of_object(one), engine_of_object(other));
        if self.several.is_none() || engine == home {
            return Ok(());
        }
        Err(CreateError::OtherEngine { what, engine, with, home })
    }

    /// Refuses one more of `what` when all engines together have `limit` of them. Hold the guard until it is
    /// made. One engine counts for itself.
    pub(crate) fn room_for_one(
        &self,
        what: &'static str,
        limit: usize,
        count: impl Fn(&Engine) -> usize,
    ) -> Result<Option<MutexGuard<'_, ()>>, CreateError> {
        let order = self.order();
        let made = || self.all().iter().map(|shared| count(&shared.lock())).sum::<usize>();
        if order.is_some() && made() >= limit {
            return Err(CreateError::LimitReached { what, limit });
        }
        Ok(order)
    }

    /// One change of what all engines have a copy of at a time. One engine alone needs no order.
    pub(crate) fn order(&self) -> Option<MutexGuard<'_, ()>> {
        let several = self.several.as_ref()?;
        Some(several.order.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All engines at once, in their order.
    pub(crate) fn lock_all(&self) -> Vec<EngineGuard<'_>> {
        self.all().iter().map(|shared| shared.lock()).collect()
    }
}

impl Several {
    fn new(all: Vec<Arc<Shared>>) -> Arc<Several> {
        let mut by_slot = vec![0; usize::from(u8::MAX) + 1].into_boxed_slice();
        for (number, shared) in (0..).zip(&all) {
            if let Some(slot) = shared.lock().nic.slot {
                by_slot[usize::from(slot.get())] = number;
            }
        }
        let several =
            Arc::new(Several { all: all.into_boxed_slice(), by_slot, order: Mutex::new(()) });
        several.all.iter().for_each(|shared| shared.join(&several));
        several
    }

    #[inline]
    fn of_qp(&self, qpn: Qpn) -> &Arc<Shared> {
        self.of_slot(Slot::of(qpn))
    }

    fn of_connection(&self, id: CommId) -> &Arc<Shared> {
        self.of_slot(id.slot())
    }

    #[inline]
    fn of_slot(&self, slot: Option<Slot>) -> &Arc<Shared> {
        let slot = slot.map_or(0, Slot::get);
        &self.all[usize::from(self.by_slot[usize::from(slot)])]
    }

    /// Called without a lock.
    fn run(&self, op: CrossEngineOp) {
        match op {
            CrossEngineOp::FirstPacket(id) => self.of_connection(id).lock().confirm(id),
            CrossEngineOp::ProbePeer { id, qpn, moved } => {
                let asked =
                    self.of_qp(qpn).lock().with_gsi(|gsi, cx| gsi.ask_peer(id, qpn, moved, cx));
                if !asked {
                    self.of_connection(id).lock().confirm(id);
                }
            }
            CrossEngineOp::StopWaiting(qpn) => {
                self.of_qp(qpn).lock().with_gsi(|_, cx| cx.await_comm_est(qpn, None));
            }
            CrossEngineOp::EndLink { qpn, id, then } => {
                if !mutated("link-elsewhere-stays") {
                    self.of_qp(qpn).lock().with_gsi(|_, cx| cx.end_link(qpn, id));
                }
                if let Some(kind) = then {
                    self.of_connection(id).lock().gsi.tell(id, kind);
                }
            }
        }
    }
}
