//! Extended reliable connections: domains, their shared receive queues and their targets.

use uroce_memory::PdId;
use uroce_transport::{CqId, SharedReceiveQueue, SrqAttr, SrqId, XrcSrq, XrcdId};
use uroce_wire::Qpn;

use super::shared_receive::room_for_srq;
use crate::engine::{Engine, Xrcd};
use crate::engines::Engines;
use crate::error::{CreateError, DestroyError, NoSuchObject};
use crate::limits::DeviceLimits;

/// The XRC domains of a device, and what belongs to them ([`Device::xrc`](crate::Device::xrc)).
#[derive(Debug, Clone, Copy)]
pub struct XrcDomains<'a> {
    engines: &'a Engines,
    limits: &'a DeviceLimits,
}

impl<'a> XrcDomains<'a> {
    pub(super) fn new(engines: &'a Engines, limits: &'a DeviceLimits) -> Self {
        XrcDomains { engines, limits }
    }

    /// `ibv_open_xrcd`: a domain that shared receive queues and targets belong to. All of them are in the
    /// engine of `cq`.
    ///
    /// Targets have no protection domain and no CQ; where the device wants some all the same, they get
    /// `pd` and `cq`. Nothing should be registered in the one: a peer could not reach it anyway (X3).
    ///
    /// # Errors
    /// [`CreateError`]: no such protection domain or CQ, or as many domains as protection domains.
    pub fn open(&self, pd: PdId, cq: CqId) -> Result<XrcdId, CreateError> {
        let nic = &mut self.engines.of_object(cq.0).lock().nic;
        let (limit, tables) = (nic.limits.max_pd, &mut nic.tables);
        if tables.xrcd_count() >= limit {
            return Err(CreateError::LimitReached { what: "XRC domains", limit });
        }
        tables.cqs.get(cq).ok_or(NoSuchObject::cq(cq))?;
        tables.mem.retain_pd(pd).map_err(|_| NoSuchObject::pd(pd))?;
        Ok(tables.add_xrcd(Xrcd { pd, cq }))
    }

    /// `ibv_close_xrcd`.
    ///
    /// # Errors
    /// [`DestroyError::Busy`] while a shared receive queue or a target belongs to it.
    pub fn close(&self, xrcd: XrcdId) -> Result<(), DestroyError> {
        let nic = &mut self.engines.of_object(xrcd.0).lock().nic;
        let tables = &mut nic.tables;
        tables.xrcd(xrcd).ok_or(NoSuchObject::xrcd(xrcd))?;
        if tables.srqs.iter().filter_map(|(_, srq)| srq.xrc()).any(|xrc| xrc.xrcd == xrcd) {
            return Err(DestroyError::Busy { what: "XRC domain", users: "shared receive queues" });
        }
        if nic.qps.uses_xrcd(xrcd) {
            return Err(DestroyError::Busy { what: "XRC domain", users: "queue pairs" });
        }
        let Xrcd { pd, .. } = tables.remove_xrcd(xrcd).ok_or(NoSuchObject::xrcd(xrcd))?;
        let released = tables.mem.release_pd(pd);
        debug_assert!(released.is_ok(), "the domain held its protection domain");
        Ok(())
    }

    /// `ibv_create_srq_ex` of an XRC SRQ. What peers name through it, buffers and remote keys, is looked
    /// up in `pd` (X3).
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_srq(&self, pd: PdId, xrc: XrcSrq, attr: &SrqAttr) -> Result<SrqId, CreateError> {
        let xrcd = xrc.xrcd;
        self.engines.check_together(("the CQ", xrc.cq.0), ("the XRC domain", xrcd.0))?;
        let _order = room_for_srq(self.engines, self.limits.max_srq)?;
        let nic = &mut self.engines.of_object(xrcd.0).lock().nic;
        nic.tables.xrcd(xrcd).ok_or(NoSuchObject::xrcd(xrcd))?;
        nic.tables.cqs.get(xrc.cq).ok_or(NoSuchObject::cq(xrc.cq))?;
        nic.tables.add_srq(attr, &nic.limits, |attr| SharedReceiveQueue::new_xrc(pd, xrc, attr))
    }

    /// `ibv_create_qp_ex` of an XRC target: a queue pair that serves all shared receive queues of the
    /// domain and has no queues of its own.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_target(&self, xrcd: XrcdId) -> Result<Qpn, CreateError> {
        let limit = self.limits.max_qp;
        let made = |engine: &Engine| engine.nic.qps.len();
        let _order = self.engines.room_for_one("queue pairs", limit, made)?;
        let mut engine = self.engines.of_object(xrcd.0).lock();
        let Engine { nic, datapath, .. } = &mut *engine;
        nic.create_xrc_target(xrcd, &mut **datapath)
    }
}
