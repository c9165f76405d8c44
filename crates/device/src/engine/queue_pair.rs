//! Queue pairs of an engine: made, modified and destroyed.

use std::net::IpAddr;

use uroce_datapath::Datapath;
use uroce_memory::PdId;
use uroce_memory::mutation::mutated;
use uroce_transport::{
    AddressVector, CqId, Instant, QpAttr, QpAttrMask, QpCaps, QpInit, QpState, QpType, QueuePair,
    SrqId, XrcdId,
};
use uroce_wire::{Mtu, Qpn};

use super::{Nic, Tables};
use crate::error::{CreateError, ModifyError, NoSuchObject};
use crate::limits::DeviceLimits;

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

impl Nic {
    /// A new queue pair in RESET, if it may be made.
    pub(crate) fn create_qp(
        &mut self,
        request: &QpRequest,
        datapath: &mut dyn Datapath,
    ) -> Result<Qpn, CreateError> {
        check_caps(&request.caps, &self.limits)?;
        check_parents(&self.tables, request)?;
        check_kind(&self.tables, request)?;
        self.add_qp(request, None, datapath)
    }

    /// A new target of an XRC domain, in RESET.
    pub(crate) fn create_xrc_target(
        &mut self,
        xrcd: XrcdId,
        datapath: &mut dyn Datapath,
    ) -> Result<Qpn, CreateError> {
        let domain = self.tables.xrcd(xrcd).ok_or(NoSuchObject::xrcd(xrcd))?;
        let request = QpRequest {
            qp_type: QpType::XrcTgt,
            pd: domain.pd,
            send_cq: domain.cq,
            recv_cq: domain.cq,
            srq: None,
            caps: QpCaps::default(),
            signal_all: false,
        };
        self.add_qp(&request, Some(xrcd), datapath)
    }

    fn add_qp(
        &mut self,
        request: &QpRequest,
        xrcd: Option<XrcdId>,
        datapath: &mut dyn Datapath,
    ) -> Result<Qpn, CreateError> {
        let limit = self.limits.max_qp;
        if self.qps.len() >= limit {
            return Err(CreateError::LimitReached { what: "queue pairs", limit });
        }
        let qpn = self.qps.allocate_qpn().ok_or(CreateError::NoQpn)?;
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
        qp.set_features(self.features);
        qp.set_source_port(datapath.source_port(qp.wanted_source_port()));
        let pd = request.pd;
        self.tables.mem.retain_pd(pd).map_err(|_| NoSuchObject::pd(pd))?;
        self.qps.insert(qp, init);
        Ok(qpn)
    }

    /// Changes the fields of `attr` that `mask` names, all or none (R92). What the queue pair has to
    /// send afterwards is not sent here.
    pub(crate) fn modify_qp(
        &mut self,
        now: Instant,
        qpn: Qpn,
        attr: &QpAttr,
        mask: QpAttrMask,
        datapath: &mut dyn Datapath,
    ) -> Result<(), ModifyError> {
        let entry = self.qps.get_mut(qpn).ok_or(NoSuchObject::qp(qpn))?;
        if mask.contains(QpAttrMask::STATE) && matches!(attr.state, QpState::Reset | QpState::Err) {
            self.last_answers.take_from(&mut entry.qp, now, &mut self.tables.context());
        }
        entry.qp.modify(now, attr, mask, &mut self.tables.context())?;
        if mask.contains(QpAttrMask::AV) {
            let wanted = entry.qp.wanted_source_port();
            entry.qp.set_source_port(datapath.source_port(wanted));
            self.schedule.join(entry);
        }
        self.schedule.update(entry);
        Ok(())
    }

    /// What all queue pairs would answer leaves before all else: the process ends.
    pub(super) fn take_last_answers(&mut self, now: Instant) {
        for entry in self.qps.iter_mut() {
            self.last_answers.take_from(&mut entry.qp, now, &mut self.tables.context());
            self.schedule.update(entry);
        }
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
            check_path(av, self.local.ip())?;
        }
        check_depth(&attr, mask, &self.limits)?;
        Ok(attr)
    }

    /// Destroys a queue pair in any state: it leaves its multicast groups, raises no further
    /// completion or event, and touches no memory (R93).
    pub(crate) fn destroy_qp(
        &mut self,
        now: Instant,
        qpn: Qpn,
        datapath: &mut dyn Datapath,
    ) -> Result<(), NoSuchObject> {
        self.leave_all_groups(qpn, datapath);
        let mut entry = self.qps.remove(qpn).ok_or(NoSuchObject::qp(qpn))?;
        self.last_answers.take_from(&mut entry.qp, now, &mut self.tables.context());
        self.schedule.leave(&mut entry);
        entry.qp.release(&mut self.tables.context());
        self.tables.mem.unbind_windows_of(qpn.get());
        self.tables.events.forget_qp(qpn);
        if mutated("domain-kept") {
            return Ok(());
        }
        let released = self.tables.mem.release_pd(entry.init.pd);
        debug_assert!(released.is_ok(), "the QP held its protection domain");
        Ok(())
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
        tables.cqs.get(cq).ok_or(NoSuchObject::cq(cq))?;
    }
    match request.srq {
        Some(srq) => tables.srqs.get(srq).map(|_| ()).ok_or(NoSuchObject::srq(srq)),
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
