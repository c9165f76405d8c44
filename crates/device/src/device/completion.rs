//! Completion channels and completion queues.

use uroce_transport::{CompletionQueue, CqId, Moderation, Notify, Wc, into_slots};

use super::Device;
use crate::comp_channel::CompChannel;
use crate::engine::{CqNote, Engine};
use crate::engines::shared::Shared;
use crate::error::{CreateError, DestroyError, NoSuchObject};
use crate::event_channel::EventOwner;
use crate::limits::MAX_OBJECTS_IN_ENGINE;

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
        let shared = self.of_vector(vector)?;
        let limit = self.0.limits.max_cq;
        let _order = self
            .room_for_one("completion queues", limit, |engine| engine.nic.tables.cq_notes.len())?;
        let mut engine = shared.lock();
        let size = engine.check_cqe(cqe)?;
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
        let mut engine = self.of_cq(cq).lock();
        let size = engine.check_cqe(cqe)?;
        let queue = engine.nic.tables.cqs.get_mut(cq).ok_or(no_cq(cq))?;
        let waiting = queue.len();
        queue.resize(size).map_err(|_| CreateError::StillFull { waiting, asked: cqe })
    }

    /// `ibv_modify_cq`: one event for several completions.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn moderate_cq(&self, cq: CqId, moderation: Moderation) -> Result<(), NoSuchObject> {
        let mut engine = self.of_cq(cq).lock();
        engine.nic.tables.cqs.get_mut(cq).ok_or(no_cq(cq))?.moderate(moderation);
        Ok(())
    }

    /// How many completions fit into `cq`.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn cq_capacity(&self, cq: CqId) -> Result<usize, NoSuchObject> {
        let engine = self.of_cq(cq).lock();
        engine.nic.tables.cqs.get(cq).map(CompletionQueue::capacity).ok_or(no_cq(cq))
    }

    /// `ibv_destroy_cq`. No event of it is left in its channel.
    ///
    /// # Errors
    /// [`DestroyError::Busy`] while a QP or an XRC SRQ completes to it (R93).
    pub fn destroy_cq(&self, cq: CqId) -> Result<(), DestroyError> {
        let mut engine = self.of_cq(cq).lock();
        if engine.nic.qps.uses_cq(cq) {
            return Err(DestroyError::Busy { what: "CQ", users: "queue pairs" });
        }
        if engine.nic.tables.xrc_uses_cq(cq) {
            return Err(DestroyError::Busy { what: "CQ", users: "XRC objects" });
        }
        engine.nic.tables.cqs.remove(cq).ok_or(no_cq(cq))?;
        self.0.shared.events.owners.remove(EventOwner::Cq(cq));
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
        let shared = self.of_cq(cq);
        let mut engine = shared.lock();
        engine.assist_later();
        let count = engine.take_completions(cq, most, &mut each)?;
        if count > 0 || most == 0 {
            shared.note_poll(&mut engine, cq);
            return Ok(count);
        }
        engine.poll_once();
        engine.assist_now();
        shared.note_poll(&mut engine, cq);
        let count = engine.take_completions(cq, most, &mut each)?;
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
        let shared = self.of_cq(cq);
        let mut engine = shared.lock();
        engine.nic.tables.cqs.get_mut(cq).ok_or(no_cq(cq))?.arm(notify);
        engine.allow_assist_before_sleep();
        shared.application_sleeps();
        Ok(())
    }
}

impl Shared {
    /// The application polls this CQ, unless that is its last look before it sleeps.
    #[inline]
    fn note_poll(&self, engine: &mut Engine, cq: CqId) {
        if !engine.is_armed(cq) {
            self.application_polled(engine.polled_at);
            engine.refuse_assist();
        }
    }
}

impl Engine {
    fn check_cqe(&self, cqe: u32) -> Result<usize, CreateError> {
        let limit = self.limits.max_cqe;
        if cqe == 0 || cqe > limit {
            return Err(CreateError::BadSize { what: "cqe", asked: cqe, limit });
        }
        Ok(cqe as usize)
    }

    /// A poll of an armed CQ is the last look before sleeping, not the start of polling.
    fn is_armed(&self, cq: CqId) -> bool {
        let tables = &self.nic.tables;
        tables.cqs.get(cq).is_some_and(CompletionQueue::is_armed)
            && tables.cq_notes.get(&cq).is_some_and(|note| note.channel.is_some())
    }

    fn take_completions(
        &mut self,
        cq: CqId,
        most: usize,
        each: impl FnMut(&Wc),
    ) -> Result<usize, NoSuchObject> {
        Ok(self.nic.tables.cqs.get_mut(cq).ok_or(no_cq(cq))?.poll_each(most, each))
    }
}

pub(super) fn no_cq(cq: CqId) -> NoSuchObject {
    NoSuchObject { what: "CQ", id: u64::from(cq.0) }
}
