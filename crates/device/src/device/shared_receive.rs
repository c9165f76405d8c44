//! Shared receive queues.

use std::sync::MutexGuard;

use uroce_memory::PdId;
use uroce_transport::{PostError, RecvWr, SharedReceiveQueue, SrqAttr, SrqId};

use super::Device;
use crate::engines::Engines;
use crate::error::{CreateError, DestroyError, ModifyError, NoSuchObject};
use crate::event_channel::EventOwner;

impl Device {
    /// `ibv_create_srq`, for queue pairs whose CQs are for completion vector 0.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_srq(&self, pd: PdId, attr: &SrqAttr) -> Result<SrqId, CreateError> {
        self.create_srq_on(0, pd, attr)
    }

    /// `ibv_create_srq`, for queue pairs whose CQs are for this completion vector.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_srq_on(
        &self,
        vector: u32,
        pd: PdId,
        attr: &SrqAttr,
    ) -> Result<SrqId, CreateError> {
        let engines = &self.0.engines;
        let shared = engines.of_vector(vector)?;
        let _order = room_for_srq(engines, self.0.limits.max_srq)?;
        let nic = &mut shared.lock().nic;
        nic.tables.add_srq(attr, &nic.limits, |attr| SharedReceiveQueue::new(pd, attr))
    }

    /// `ibv_modify_srq`: a new size, or a new limit that arms SRQ_LIMIT_REACHED once (R90), or both.
    ///
    /// # Errors
    /// [`ModifyError`]; the queue is as it was then (B41).
    pub fn modify_srq(
        &self,
        srq: SrqId,
        max_wr: Option<u32>,
        limit: Option<u32>,
    ) -> Result<SrqAttr, ModifyError> {
        let mut engine = self.0.engines.of_object(srq.0).lock();
        let largest = engine.nic.limits.max_srq_wr;
        if let Some(asked) = max_wr.filter(|&asked| asked > largest) {
            return Err(ModifyError::TooLarge { what: "max_wr", asked, limit: largest });
        }
        let queue = engine.nic.tables.srqs.get_mut(srq).ok_or(NoSuchObject::srq(srq))?;
        queue.modify(max_wr, limit)?;
        Ok(queue.attr())
    }

    /// `ibv_query_srq`.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn query_srq(&self, srq: SrqId) -> Result<SrqAttr, NoSuchObject> {
        let engine = self.0.engines.of_object(srq.0).lock();
        engine.nic.tables.srqs.get(srq).map(SharedReceiveQueue::attr).ok_or(NoSuchObject::srq(srq))
    }

    /// `ibv_destroy_srq`.
    ///
    /// # Errors
    /// [`DestroyError::Busy`] while a QP takes its receives from it.
    pub fn destroy_srq(&self, srq: SrqId) -> Result<(), DestroyError> {
        let shared = self.0.engines.of_object(srq.0);
        let nic = &mut shared.lock().nic;
        if nic.qps.uses_srq(srq) {
            return Err(DestroyError::Busy { what: "SRQ", users: "queue pairs" });
        }
        let queue = nic.tables.srqs.remove(srq).ok_or(NoSuchObject::srq(srq))?;
        debug_assert!(nic.tables.srq_count > 0, "a queue that was not counted");
        nic.tables.srq_count -= 1;
        if queue.xrc().is_some() {
            nic.qps.iter_mut().for_each(|entry| entry.qp.forget_srq(srq));
        }
        shared.events.forget(EventOwner::Srq(srq));
        let released = nic.tables.mem.release_pd(queue.pd());
        debug_assert!(released.is_ok(), "the SRQ held its protection domain");
        Ok(())
    }

    /// `ibv_get_srq_num`: what an XRC peer calls it, 24 bits.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn srq_number(&self, srq: SrqId) -> Result<u32, NoSuchObject> {
        let engine = self.0.engines.of_object(srq.0).lock();
        let queue = engine.nic.tables.srqs.get(srq).ok_or(NoSuchObject::srq(srq))?;
        Ok(queue.number())
    }

    /// `ibv_post_srq_recv`. On failure the number of the request that was refused comes with the
    /// reason; those before it are posted (B36).
    ///
    /// # Errors
    /// [`PostError`].
    pub fn post_srq_recv(&self, srq: SrqId, wrs: &[RecvWr<'_>]) -> Result<(), (usize, PostError)> {
        let mut engine = self.0.engines.of_object(srq.0).lock();
        let queue = engine.nic.tables.srqs.get_mut(srq).ok_or((0, PostError::NoSuchQueue))?;
        for (index, wr) in wrs.iter().enumerate() {
            queue.post(wr).map_err(|error| (index, error))?;
        }
        Ok(())
    }
}

/// Refuses one more shared receive queue where the device has as many as it may.
pub(super) fn room_for_srq(
    engines: &Engines,
    limit: usize,
) -> Result<Option<MutexGuard<'_, ()>>, CreateError> {
    engines.room_for_one("shared receive queues", limit, |engine| engine.nic.tables.srq_count)
}
