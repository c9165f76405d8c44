//! Queue pairs: create, modify, query, destroy, post.

use std::borrow::Borrow;
use std::net::IpAddr;

use uroce_memory::PdId;
use uroce_transport::{
    AddressVector, Context, CqId, Instant, PostError, QpAttr, QpAttrMask, QpCaps, QpInit, QpType,
    QueuePair, RecvWr, SendWr, SrqId, XrcdId,
};
use uroce_wire::{Mtu, Qpn};

use super::Device;
use super::completion::no_cq;
use super::shared_receive::no_srq;
use crate::engine::{Engine, Tables};
use crate::error::{CreateError, DestroyError, ModifyError, NoSuchObject};
use crate::event_channel::EventOwner;
use crate::limits::{DOORBELL_BATCH, DOORBELL_BATCH_OF_LISTS, DeviceLimits, LONG_POLL_PACKETS};

/// Attributes of a queue pair at creation (`ibv_qp_init_attr`); the device picks the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpRequest {
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: PdId,
    /// Where completions of sends go.
    pub send_cq: CqId,
    /// Where completions of receives go.
    pub recv_cq: CqId,
    /// Shared receive queue instead of an own one.
    pub srq: Option<SrqId>,
    /// Sizes.
    pub caps: QpCaps,
    /// Every send work request is signalled (`sq_sig_all`).
    pub signal_all: bool,
}

impl Device {
    /// `ibv_create_qp`. The new queue pair is in RESET and its number is unpredictable (A8). It is in the
    /// engine of its CQs.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_qp(&self, request: &QpRequest) -> Result<Qpn, CreateError> {
        let home = ("the send CQ", request.send_cq.0);
        self.check_together(("the receive CQ", request.recv_cq.0), home)?;
        if let Some(srq) = request.srq {
            self.check_together(("the SRQ", srq.0), home)?;
        }
        let limit = self.0.limits.max_qp;
        let _order = self.room_for_one("queue pairs", limit, |engine| engine.nic.qps.len())?;
        let mut engine = self.of_cq(request.send_cq).lock();
        check_caps(&request.caps, &engine.limits)?;
        check_parents(&engine.nic.tables, request)?;
        check_kind(&engine.nic.tables, request)?;
        engine.add_qp(request, None)
    }

    /// `ibv_modify_qp`: the fields of `attr` that `mask` names, all or none (R92).
    ///
    /// # Errors
    /// [`ModifyError`].
    pub fn modify_qp(&self, qpn: Qpn, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
        let mut engine = self.of_qp(qpn).lock();
        engine.send_delayed_acks();
        let attr = engine.check_attr(attr, mask)?;
        engine.modify_qp(qpn, &attr, mask)
    }

    /// `ibv_query_qp`: the attributes in force, and what the queue pair was created with.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn query_qp(&self, qpn: Qpn) -> Result<(QpAttr, QpInit), NoSuchObject> {
        let engine = self.of_qp(qpn).lock();
        let entry = engine.nic.qps.get(qpn).ok_or(no_qp(qpn))?;
        Ok((entry.qp.attr(), entry.init))
    }

    /// `ibv_destroy_qp`, in any state. When it returns, the queue pair raises no further
    /// completion or event and touches no memory (R93); it has left its multicast groups, and its
    /// number is not given out again for long. Completions raised before stay in their CQ.
    ///
    /// # Errors
    /// [`DestroyError::NoSuchObject`].
    pub fn destroy_qp(&self, qpn: Qpn) -> Result<(), DestroyError> {
        let shared = self.of_qp(qpn);
        let mut engine = shared.lock();
        engine.send_delayed_acks();
        engine.leave_all_groups(qpn);
        let nic = &mut engine.nic;
        let mut entry = nic.qps.remove(qpn).ok_or(no_qp(qpn))?;
        nic.in_flight.leave(&mut entry);
        entry.qp.release(&mut nic.tables.context());
        nic.tables.mem.unbind_windows_of(qpn.get());
        nic.tables.events.forget_qp(qpn);
        let released = nic.tables.mem.release_pd(entry.init.pd);
        debug_assert!(released.is_ok(), "the QP held its protection domain");
        let owner = EventOwner::Qp(qpn);
        shared.events.unowned.retain(|event| EventOwner::of(event) != Some(owner));
        shared.events.owners.remove(owner);
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
        let shared = self.of_qp(qpn);
        let mut engine = shared.lock();
        engine.assist_later();
        let now = engine.clock.now();
        let nic = &mut engine.nic;
        let entry = nic.qps.get_mut(qpn).ok_or((0, PostError::NoSuchQueue))?;
        let mut context = nic.tables.context();
        let busy = entry.qp.awaits_acknowledgement();
        let posted = post(&mut entry.qp, now, &mut context);
        let batch = if count > 1 { DOORBELL_BATCH_OF_LISTS } else { DOORBELL_BATCH };
        let answer = entry.ping_pong.handle_post(count);
        entry.coalesced = if busy && !answer { entry.coalesced + count } else { batch };
        let polls = shared.application_polls(now);
        let coalesce = entry.coalesced < batch && polls;
        engine.reschedule(qpn);
        if !coalesce && engine.send_ready(now) >= LONG_POLL_PACKETS && polls {
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
        let mut engine = self.of_qp(qpn).lock();
        let nic = &mut engine.nic;
        let entry = nic.qps.get_mut(qpn).ok_or((0, PostError::NoSuchQueue))?;
        let mut context = nic.tables.context();
        wrs.iter().enumerate().try_for_each(|(index, wr)| {
            entry.qp.post_recv(wr, &mut context).map_err(|error| (index, error))
        })
    }
}

impl Engine {
    /// Sends delayed ACKs: that of a message that the application has seen must not be lost with
    /// its queue pair, or the peer would repeat the message until it gives up.
    fn send_delayed_acks(&mut self) {
        let now = self.clock.now();
        self.send_ready(now);
    }

    pub(super) fn add_qp(
        &mut self,
        request: &QpRequest,
        xrcd: Option<XrcdId>,
    ) -> Result<Qpn, CreateError> {
        let limit = self.limits.max_qp;
        if self.nic.qps.len() >= limit {
            return Err(CreateError::LimitReached { what: "queue pairs", limit });
        }
        let qpn = self.nic.qps.allocate_qpn().ok_or(CreateError::NoQpn)?;
        let init = QpInit {
            qpn,
            qp_type: request.qp_type,
            pd: request.pd,
            send_cq: request.send_cq,
            recv_cq: request.recv_cq,
            srq: request.srq,
            xrcd,
            caps: request.caps,
            signal_all: request.signal_all,
            port_mtu: self.active_mtu,
        };
        let mut qp = QueuePair::new(&init)?;
        qp.set_tail_probes(true);
        qp.set_reorder_buffer(true);
        qp.set_selective_repeat(true);
        qp.set_source_port(self.datapath.source_port(qp.wanted_source_port()));
        self.nic.tables.mem.retain_pd(request.pd).map_err(|_| no_pd(request.pd))?;
        self.nic.qps.insert(qp, init);
        Ok(qpn)
    }

    pub(crate) fn modify_qp(
        &mut self,
        qpn: Qpn,
        attr: &QpAttr,
        mask: QpAttrMask,
    ) -> Result<(), ModifyError> {
        let now = self.clock.now();
        let nic = &mut self.nic;
        let entry = nic.qps.get_mut(qpn).ok_or(no_qp(qpn))?;
        entry.qp.modify(now, attr, mask, &mut nic.tables.context())?;
        if mask.contains(QpAttrMask::AV) {
            let wanted = entry.qp.wanted_source_port();
            entry.qp.set_source_port(self.datapath.source_port(wanted));
            nic.in_flight.join(entry);
        }
        self.reschedule(qpn);
        self.send_ready(now);
        Ok(())
    }

    /// Checks that need the device: link, addresses, device limits. Returns the attributes with the
    /// source address filled in.
    pub(crate) fn check_attr(
        &self,
        attr: &QpAttr,
        mask: QpAttrMask,
    ) -> Result<QpAttr, ModifyError> {
        let mut attr = *attr;
        if mask.contains(QpAttrMask::PATH_MTU) {
            check_mtu(attr.path_mtu, self.active_mtu)?;
        }
        if mask.contains(QpAttrMask::AV)
            && let Some(av) = &mut attr.av
        {
            check_path(av, self.nic.local.ip())?;
        }
        check_depth(&attr, mask, &self.limits)?;
        Ok(attr)
    }
}

fn check_mtu(asked: Mtu, active: Mtu) -> Result<(), ModifyError> {
    if asked.bytes() > active.bytes() {
        return Err(ModifyError::mtu(asked, active));
    }
    Ok(())
}

fn check_path(av: &mut AddressVector, local: IpAddr) -> Result<(), ModifyError> {
    if av.local.is_unspecified() {
        av.local = local;
    }
    if av.local != local {
        return Err(ModifyError::ForeignSource { asked: av.local, local });
    }
    if av.remote.is_ipv4() != local.is_ipv4() {
        return Err(ModifyError::OtherFamily { remote: av.remote, local });
    }
    Ok(())
}

fn check_depth(attr: &QpAttr, mask: QpAttrMask, limits: &DeviceLimits) -> Result<(), ModifyError> {
    let depths = [
        (QpAttrMask::MAX_QP_RD_ATOMIC, "max_rd_atomic", attr.max_rd_atomic),
        (QpAttrMask::MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr.max_dest_rd_atomic),
    ];
    let limit = limits.max_qp_rd_atom;
    for (bit, what, asked) in depths {
        if mask.contains(bit) && asked > limit {
            let (asked, limit) = (u32::from(asked), u32::from(limit));
            return Err(ModifyError::TooLarge { what, asked, limit });
        }
    }
    Ok(())
}

fn check_caps(caps: &QpCaps, limits: &DeviceLimits) -> Result<(), CreateError> {
    let sizes = [
        ("max_send_wr", caps.max_send_wr, limits.max_qp_wr),
        ("max_recv_wr", caps.max_recv_wr, limits.max_qp_wr),
        ("max_send_sge", caps.max_send_sge, limits.max_sge),
        ("max_recv_sge", caps.max_recv_sge, limits.max_sge),
        ("max_inline_data", caps.max_inline, limits.max_inline),
    ];
    for (what, asked, limit) in sizes {
        if asked > limit {
            return Err(CreateError::BadSize { what, asked, limit });
        }
    }
    Ok(())
}

fn check_parents(tables: &Tables, request: &QpRequest) -> Result<(), NoSuchObject> {
    for cq in [request.send_cq, request.recv_cq] {
        tables.cqs.get(cq).ok_or(no_cq(cq))?;
    }
    match request.srq {
        Some(srq) => tables.srqs.get(srq).map(|_| ()).ok_or(no_srq(srq)),
        None => Ok(()),
    }
}

/// XRC has objects of its own, which do not go with others.
fn check_kind(tables: &Tables, request: &QpRequest) -> Result<(), CreateError> {
    let srq = request.srq.and_then(|id| tables.srqs.get(id));
    let (takes_receives, is_xrc) = (srq.is_some(), srq.is_some_and(|srq| srq.xrc().is_some()));
    match request.qp_type {
        QpType::XrcTgt => Err(CreateError::Xrc(
            "an XRC_TGT queue pair belongs to an XRC domain, not to a protection domain",
        )),
        QpType::XrcIni if takes_receives => {
            Err(CreateError::Xrc("an XRC_INI queue pair receives nothing: give it no SRQ"))
        }
        _ if is_xrc => Err(CreateError::Xrc(
            "an XRC SRQ serves the XRC_TGT queue pairs of its domain: give this one a basic SRQ",
        )),
        _ => Ok(()),
    }
}

pub(super) fn no_qp(qpn: Qpn) -> NoSuchObject {
    NoSuchObject { what: "QP", id: u64::from(qpn.get()) }
}

pub(super) fn no_pd(pd: PdId) -> NoSuchObject {
    NoSuchObject { what: "PD", id: pd.get() }
}
