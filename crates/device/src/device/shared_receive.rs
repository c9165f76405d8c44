//! Shared receive queues.

use std::sync::MutexGuard;

use uroce_memory::PdId;
use uroce_transport::limits::MAX_SRQ;
use uroce_transport::{PostError, RecvWr, SharedReceiveQueue, SrqAttr, SrqError, SrqId};

use super::Device;
use crate::engine::Engine;
use crate::error::{CreateError, DestroyError, ModifyError, NoSuchObject};
use crate::event_channel::EventOwner;
use crate::limits::DeviceLimits;

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
        let shared = self.of_vector(vector)?;
        let _order = self.room_for_srq()?;
        shared.lock().add_srq(attr, |attr| SharedReceiveQueue::new(pd, attr))
    }

    pub(super) fn room_for_srq(&self) -> Result<Option<MutexGuard<'_, ()>>, CreateError> {
        let limit = self.0.limits.max_srq;
        self.room_for_one("shared receive queues", limit, |engine| engine.nic.tables.srq_count)
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
        let mut engine = self.of_srq(srq).lock();
        let largest = engine.limits.max_srq_wr;
        if let Some(asked) = max_wr.filter(|&asked| asked > largest) {
            return Err(ModifyError::TooLarge { what: "max_wr", asked, limit: largest });
        }
        let queue = engine.nic.tables.srqs.get_mut(srq).ok_or(no_srq(srq))?;
        queue.modify(max_wr, limit)?;
        Ok(queue.attr())
    }

    /// `ibv_query_srq`.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn query_srq(&self, srq: SrqId) -> Result<SrqAttr, NoSuchObject> {
        let engine = self.of_srq(srq).lock();
        engine.nic.tables.srqs.get(srq).map(SharedReceiveQueue::attr).ok_or(no_srq(srq))
    }

    /// `ibv_destroy_srq`.
    ///
    /// # Errors
    /// [`DestroyError::Busy`] while a QP takes its receives from it.
    pub fn destroy_srq(&self, srq: SrqId) -> Result<(), DestroyError> {
        let mut engine = self.of_srq(srq).lock();
        if engine.nic.qps.uses_srq(srq) {
            return Err(DestroyError::Busy { what: "SRQ", users: "queue pairs" });
        }
        let tables = &mut engine.nic.tables;
        let queue = tables.srqs.remove(srq).ok_or(no_srq(srq))?;
        tables.srq_count -= 1;
        if queue.xrc().is_some() {
            engine.nic.qps.iter_mut().for_each(|entry| entry.qp.forget_srq(srq));
        }
        let tables = &mut engine.nic.tables;
        self.0.shared.events.owners.remove(EventOwner::Srq(srq));
        let released = tables.mem.release_pd(queue.pd());
        debug_assert!(released.is_ok(), "the SRQ held its protection domain");
        Ok(())
    }

    /// `ibv_post_srq_recv`. On failure the number of the request that was refused comes with the
    /// reason; those before it are posted (B36).
    ///
    /// # Errors
    /// [`PostError`].
    pub fn post_srq_recv(&self, srq: SrqId, wrs: &[RecvWr<'_>]) -> Result<(), (usize, PostError)> {
        let mut engine = self.of_srq(srq).lock();
        let queue = engine.nic.tables.srqs.get_mut(srq).ok_or((0, PostError::NoSuchQueue))?;
        for (index, wr) in wrs.iter().enumerate() {
            queue.post(wr).map_err(|error| (index, error))?;
        }
        Ok(())
    }
}

impl Engine {
    /// Makes and adds a shared receive queue, if there may be one more.
    pub(super) fn add_srq(
        &mut self,
        attr: &SrqAttr,
        make: impl FnOnce(&SrqAttr) -> Result<SharedReceiveQueue, SrqError>,
    ) -> Result<SrqId, CreateError> {
        check_sizes(attr, &self.limits)?;
        let limit = self.limits.max_srq.min(MAX_SRQ as usize);
        let tables = &mut self.nic.tables;
        if tables.srq_count >= limit {
            return Err(CreateError::LimitReached { what: "shared receive queues", limit });
        }
        let srq = make(attr)?;
        let pd = srq.pd();
        tables.mem.retain_pd(pd).map_err(|_| super::queue_pair::no_pd(pd))?;
        tables.srq_count += 1;
        Ok(tables.srqs.insert(srq))
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

pub(super) fn no_srq(srq: SrqId) -> NoSuchObject {
    NoSuchObject { what: "SRQ", id: u64::from(srq.0) }
}
