//! Completion channels and completion queues.

use uroce_transport::{CompletionQueue, CqId, Moderation, Notify, Wc, into_slots};

use super::Device;
use crate::comp_channel::CompChannel;
use crate::engine::{CqNote, Engine};
use crate::error::{CreateError, DestroyError, NoSuchObject};
use crate::event_channel::EventOwner;
use crate::limits::{DeviceLimits, MAX_OBJECTS_IN_ENGINE};

/// A completion queue as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CqAttr {
    /// How many completions fit.
    pub cqe: usize,
    /// How many wait.
    pub waiting: usize,
}

impl Device {
    /// `ibv_create_comp_channel`. It lives as long as a clone of it, or a CQ that uses it.
    ///
    /// # Errors
    /// [`CreateError::Descriptor`].
    pub fn create_channel(&self) -> Result<CompChannel, CreateError> {
        Ok(CompChannel::new()?)
    }

    /// `ibv_create_cq` for completion vector 0, with room for `cqe` completions. `cookie` comes back in each
    /// event.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_cq(
        &self,
        cqe: u32,
        channel: Option<&CompChannel>,
        cookie: u64,
    ) -> Result<CqId, CreateError> {
        self.create_cq_on(0, cqe, channel, cookie)
    }

    /// `ibv_create_cq` for a completion vector, which is the number of an engine. The queue pairs of the CQ
    /// will be in that engine.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_cq_on(
        &self,
        vector: u32,
        cqe: u32,
        channel: Option<&CompChannel>,
        cookie: u64,
    ) -> Result<CqId, CreateError> {
        let shared = self.0.engines.of_vector(vector)?;
        let limit = self.0.limits.max_cq;
        let made = |engine: &Engine| engine.nic.tables.cq_notes.len();
        let _order = self.0.engines.room_for_one("completion queues", limit, made)?;
        let mut engine = shared.lock();
        let size = check_cqe(cqe, &engine.nic.limits)?;
        let limit = limit.min(MAX_OBJECTS_IN_ENGINE);
        let tables = &mut engine.nic.tables;
        if tables.cq_notes.len() >= limit {
            return Err(CreateError::LimitReached { what: "completion queues", limit });
        }
        let cq = tables.cqs.insert(CompletionQueue::new(size));
        tables.cq_notes.insert(cq, CqNote { channel: channel.cloned(), cookie });
        Ok(cq)
    }

    /// `ibv_resize_cq`. On failure the CQ is as it was (B42).
    ///
    /// # Errors
    /// [`CreateError::StillFull`] if more completions wait than would fit.
    pub fn resize_cq(&self, cq: CqId, cqe: u32) -> Result<(), CreateError> {
        let mut engine = self.0.engines.of_object(cq.0).lock();
        let size = check_cqe(cqe, &engine.nic.limits)?;
        let queue = engine.nic.tables.cqs.get_mut(cq).ok_or(NoSuchObject::cq(cq))?;
        let waiting = queue.len();
        queue.resize(size).map_err(|_| CreateError::StillFull { waiting, asked: cqe })
    }

    /// `ibv_modify_cq`: one event for several completions.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn moderate_cq(&self, cq: CqId, moderation: Moderation) -> Result<(), NoSuchObject> {
        let mut engine = self.0.engines.of_object(cq.0).lock();
        engine.nic.tables.cqs.get_mut(cq).ok_or(NoSuchObject::cq(cq))?.moderate(moderation);
        Ok(())
    }

    /// What `cq` holds, and what fits. Unlike [`poll_cq`](Self::poll_cq) it polls no engine.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn query_cq(&self, cq: CqId) -> Result<CqAttr, NoSuchObject> {
        let attr = |queue: &CompletionQueue| CqAttr { cqe: queue.capacity(), waiting: queue.len() };
        let look = |engine: &Engine| engine.nic.tables.cqs.get(cq).map(attr);
        self.0.engines.of_object(cq.0).look(look).ok_or(NoSuchObject::cq(cq))
    }

    /// `ibv_destroy_cq`. No event of it is left in its channel.
    ///
    /// # Errors
    /// [`DestroyError::Busy`] while a QP or an XRC SRQ completes to it (R93).
    pub fn destroy_cq(&self, cq: CqId) -> Result<(), DestroyError> {
        let shared = self.0.engines.of_object(cq.0);
        let mut engine = shared.lock();
        if engine.nic.qps.uses_cq(cq) {
            return Err(DestroyError::Busy { what: "CQ", users: "queue pairs" });
        }
        if engine.nic.tables.xrc_uses_cq(cq) {
            return Err(DestroyError::Busy { what: "CQ", users: "XRC objects" });
        }
        engine.nic.tables.cqs.remove(cq).ok_or(NoSuchObject::cq(cq))?;
        shared.events.forget(EventOwner::Cq(cq));
        if let Some(CqNote { channel: Some(channel), .. }) = engine.nic.tables.cq_notes.remove(&cq)
        {
            channel.forget(cq);
        }
        Ok(())
    }

    /// `ibv_poll_cq`: moves up to `out.len()` completions into `out`. When none is queued, the call
    /// polls the engine of the CQ once and tries again. Never sleeps, but with one processor only,
    /// empty polls yield to other threads now and then.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn poll_cq(&self, cq: CqId, out: &mut [Wc]) -> Result<usize, NoSuchObject> {
        self.poll_cq_each(cq, out.len(), into_slots(out))
    }

    /// [`poll_cq`](Self::poll_cq) that shows up to `most` completions to `each` instead of copying them.
    /// `each` must not call the device: it holds the device's lock.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn poll_cq_each(
        &self,
        cq: CqId,
        most: usize,
        mut each: impl FnMut(&Wc),
    ) -> Result<usize, NoSuchObject> {
        let shared = self.0.engines.of_object(cq.0);
        let mut engine = shared.lock();
        engine.assist_later();
        let count = engine.nic.tables.take_completions(cq, most, &mut each)?;
        if count > 0 || most == 0 {
            engine.note_poll(cq);
            return Ok(count);
        }
        engine.poll_once();
        engine.assist_now();
        engine.note_poll(cq);
        let count = engine.nic.tables.take_completions(cq, most, &mut each)?;
        drop(engine);
        if count == 0 {
            shared.handle_empty_poll();
        }
        Ok(count)
    }

    /// `ibv_req_notify_cq`: one event in the CQ's channel at the next (solicited) completion.
    ///
    /// Completions that were there before raise no event: poll once more after this call.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn req_notify(&self, cq: CqId, notify: Notify) -> Result<(), NoSuchObject> {
        let shared = self.0.engines.of_object(cq.0);
        let mut engine = shared.lock();
        engine.nic.tables.cqs.get_mut(cq).ok_or(NoSuchObject::cq(cq))?.arm(notify);
        engine.local.allow_assist_before_sleep();
        shared.application_sleeps();
        Ok(())
    }
}

fn check_cqe(cqe: u32, limits: &DeviceLimits) -> Result<usize, CreateError> {
    let limit = limits.max_cqe;
    if cqe == 0 || cqe > limit {
        return Err(CreateError::BadSize { what: "cqe", asked: cqe, limit });
    }
    Ok(cqe as usize)
}
