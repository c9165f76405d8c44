//! Queue pairs: create, modify, query, destroy, post.

use std::borrow::Borrow;
use std::sync::Arc;

use uroce_transport::{
    CompletionCounter, Context, CountedOps, Instant, PostError, QpAttr, QpAttrMask, QpInit,
    QueuePair, RecvWr, SendWr,
};
use uroce_wire::Qpn;

use super::Device;
use crate::engine::{Engine, QpRequest};
use crate::error::{CounterError, CreateError, DestroyError, ModifyError, NoSuchObject};
use crate::event_channel::EventOwner;
use crate::limits::LONG_POLL_PACKETS;

impl Device {
    /// `ibv_create_qp`. The new queue pair is in RESET and its number is unpredictable (A8). It is in the
    /// engine of its CQs.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_qp(&self, request: &QpRequest) -> Result<Qpn, CreateError> {
        let engines = &self.0.engines;
        let home = ("the send CQ", request.send_cq.0);
        engines.check_together(("the receive CQ", request.recv_cq.0), home)?;
        if let Some(srq) = request.srq {
            engines.check_together(("the SRQ", srq.0), home)?;
        }
        let limit = self.0.limits.max_qp;
        let _order = engines.room_for_one("queue pairs", limit, |engine| engine.nic.qps.len())?;
        let mut engine = engines.of_object(request.send_cq.0).lock();
        let Engine { nic, datapath, .. } = &mut *engine;
        nic.create_qp(request, &mut **datapath)
    }

    /// `ibv_modify_qp`: the fields of `attr` that `mask` names, all or none (R92).
    ///
    /// # Errors
    /// [`ModifyError`].
    pub fn modify_qp(&self, qpn: Qpn, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
        let mut engine = self.0.engines.of_qp(qpn).lock();
        let now = engine.clock.now();
        let Engine { nic, datapath, .. } = &mut *engine;
        let attr = nic.check_attr(attr, mask)?;
        nic.modify_qp(now, qpn, &attr, mask, &mut **datapath)?;
        engine.send_ready(now);
        Ok(())
    }

    /// `ibv_qp_attach_comp_cntr`: the counter counts completions of these operations until the queue pair is destroyed.
    ///
    /// # Errors
    /// [`CounterError`].
    pub fn attach_counter(
        &self,
        qpn: Qpn,
        ops: CountedOps,
        counter: &Arc<CompletionCounter>,
    ) -> Result<(), CounterError> {
        let mut engine = self.0.engines.of_qp(qpn).lock();
        let entry = engine.nic.qps.get_mut(qpn).ok_or(NoSuchObject::qp(qpn))?;
        Ok(entry.qp.attach_counter(ops, counter)?)
    }

    /// `ibv_query_qp`: the attributes in force, and what the queue pair was created with.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn query_qp(&self, qpn: Qpn) -> Result<(QpAttr, QpInit), NoSuchObject> {
        let engine = self.0.engines.of_qp(qpn).lock();
        let entry = engine.nic.qps.get(qpn).ok_or(NoSuchObject::qp(qpn))?;
        Ok((entry.qp.attr(), entry.init))
    }

    /// `ibv_destroy_qp`, in any state. When it returns, the queue pair raises no further
    /// completion or event and touches no memory (R93); it has left its multicast groups, and its
    /// number is not given out again for long. Completions raised before stay in their CQ.
    ///
    /// # Errors
    /// [`DestroyError::NoSuchObject`].
    pub fn destroy_qp(&self, qpn: Qpn) -> Result<(), DestroyError> {
        let shared = self.0.engines.of_qp(qpn);
        let mut engine = shared.lock();
        let now = engine.clock.now();
        let Engine { nic, datapath, .. } = &mut *engine;
        nic.destroy_qp(now, qpn, &mut **datapath)?;
        engine.send_ready(now);
        shared.events.forget(EventOwner::Qp(qpn));
        Ok(())
    }

    /// `ibv_post_send`: queues the requests in order and sends what can be sent at once. While
    /// the application polls and earlier requests are on their way, up to
    /// 32 requests, or 64 in lists, are kept together and leave with the next poll. On failure the
    /// number of the request that was refused comes with the reason; those before it are posted (B36).
    ///
    /// # Errors
    /// [`PostError`].
    pub fn post_send(&self, qpn: Qpn, wrs: &[SendWr<'_>]) -> Result<(), (usize, PostError)> {
        self.post_send_each(qpn, wrs.iter())
    }

    /// [`post_send`](Self::post_send) of requests that are made one by one, while they are queued: a
    /// request is large. The iterator must not call the device, whose lock is held.
    ///
    /// # Errors
    /// [`PostError`].
    pub fn post_send_each<'a>(
        &self,
        qpn: Qpn,
        wrs: impl ExactSizeIterator<Item: Borrow<SendWr<'a>>>,
    ) -> Result<(), (usize, PostError)> {
        self.post_locked(qpn, wrs.len(), |qp, now, context| {
            wrs.enumerate().try_for_each(|(index, wr)| {
                qp.post_send(now, wr.borrow(), context).map_err(|error| (index, error))
            })
        })
    }

    /// Posts `count` requests, or none of them (`ibv_wr_complete`): all are checked before the first is
    /// queued, under one lock. `request` hands request number `i` over; it is asked for each twice, and must
    /// not call the device.
    ///
    /// # Errors
    /// The number of the request that was refused, with the reason. Nothing is posted then.
    pub fn post_send_all(
        &self,
        qpn: Qpn,
        count: usize,
        request: impl Fn(
            usize,
            &mut dyn FnMut(&SendWr<'_>) -> Result<(), PostError>,
        ) -> Result<(), PostError>,
    ) -> Result<(), (usize, PostError)> {
        let each = |take: &mut dyn FnMut(usize, &SendWr<'_>) -> Result<(), PostError>| {
            (0..count).try_for_each(|index| {
                request(index, &mut |wr| take(index, wr)).map_err(|error| (index, error))
            })
        };
        self.post_locked(qpn, count, |qp, now, context| {
            each(&mut |ahead, wr| qp.check_send(wr, ahead))?;
            each(&mut |_, wr| qp.post_send(now, wr, context))
        })
    }

    /// Lets `post` queue `count` requests, and sends what can be sent.
    #[inline]
    fn post_locked(
        &self,
        qpn: Qpn,
        count: usize,
        post: impl FnOnce(&mut QueuePair, Instant, &mut Context<'_>) -> Result<(), (usize, PostError)>,
    ) -> Result<(), (usize, PostError)> {
        let shared = self.0.engines.of_qp(qpn);
        let mut engine = shared.lock();
        engine.assist_later();
        let now = engine.clock.now();
        let nic = &mut engine.nic;
        let entry = nic.qps.get_mut(qpn).ok_or((0, PostError::NoSuchQueue))?;
        let busy = entry.qp.awaits_acknowledgement();
        let posted = post(&mut entry.qp, now, &mut nic.tables.context());
        let polls = shared.application_polls(now);
        let coalesces = entry.coalesces(count, busy) && polls;
        nic.schedule.update(entry);
        if !coalesces && engine.send_ready(now) >= LONG_POLL_PACKETS && polls {
            // A post that sends many packets takes so long that it counts as a poll.
            engine.polled_at = engine.clock.now();
            shared.application_polled(engine.polled_at);
        }
        posted
    }

    /// `ibv_post_recv`. Failures as in [`post_send`](Self::post_send).
    ///
    /// # Errors
    /// [`PostError`].
    pub fn post_recv(&self, qpn: Qpn, wrs: &[RecvWr<'_>]) -> Result<(), (usize, PostError)> {
        let mut engine = self.0.engines.of_qp(qpn).lock();
        let nic = &mut engine.nic;
        let entry = nic.qps.get_mut(qpn).ok_or((0, PostError::NoSuchQueue))?;
        let mut context = nic.tables.context();
        wrs.iter().enumerate().try_for_each(|(index, wr)| {
            entry.qp.post_recv(wr, &mut context).map_err(|error| (index, error))
        })
    }
}
