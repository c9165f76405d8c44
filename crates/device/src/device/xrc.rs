//! Extended reliable connections: domains, their shared receive queues and their targets.

use uroce_memory::PdId;
use uroce_transport::{CqId, QpCaps, QpType, SharedReceiveQueue, SrqAttr, SrqId, XrcSrq, XrcdId};
use uroce_wire::Qpn;

use super::Device;
use super::completion::no_cq;
use super::queue_pair::no_pd;
use super::shared_receive::no_srq;
use crate::device::QpRequest;
use crate::engine::{Tables, Xrcd};
use crate::error::{CreateError, DestroyError, NoSuchObject};

impl Device {
    /// `ibv_open_xrcd`: a domain that shared receive queues and targets belong to. All of them are in the
    /// engine of `cq`.
    ///
    /// Targets have no protection domain and no CQ; where the device wants some all the same, they get
    /// `pd` and `cq`. Nothing should be registered in the one: a peer could not reach it anyway (X3).
    ///
    /// # Errors
    /// [`CreateError`]: no such protection domain or CQ, or as many domains as protection domains.
    pub fn open_xrcd(&self, pd: PdId, cq: CqId) -> Result<XrcdId, CreateError> {
        let mut engine = self.of_cq(cq).lock();
        let limit = engine.limits.max_pd;
        let tables = &mut engine.nic.tables;
        if tables.xrcd_count() >= limit {
            return Err(CreateError::LimitReached { what: "XRC domains", limit });
        }
        tables.cqs.get(cq).ok_or(no_cq(cq))?;
        tables.mem.retain_pd(pd).map_err(|_| no_pd(pd))?;
        Ok(tables.add_xrcd(Xrcd { pd, cq }))
    }

    /// `ibv_close_xrcd`.
    ///
    /// # Errors
    /// [`DestroyError::Busy`] while a shared receive queue or a target belongs to it.
    pub fn close_xrcd(&self, xrcd: XrcdId) -> Result<(), DestroyError> {
        let mut engine = self.of_xrcd(xrcd).lock();
        domain(&engine.nic.tables, xrcd)?;
        let tables = &mut engine.nic.tables;
        if tables.srqs.iter().filter_map(|(_, srq)| srq.xrc()).any(|xrc| xrc.xrcd == xrcd) {
            return Err(DestroyError::Busy { what: "XRC domain", users: "shared receive queues" });
        }
        if engine.nic.qps.uses_xrcd(xrcd) {
            return Err(DestroyError::Busy { what: "XRC domain", users: "queue pairs" });
        }
        let tables = &mut engine.nic.tables;
        let Xrcd { pd, .. } = tables.remove_xrcd(xrcd).ok_or(no_domain(xrcd))?;
        let released = tables.mem.release_pd(pd);
        debug_assert!(released.is_ok(), "the domain held its protection domain");
        Ok(())
    }

    /// `ibv_create_srq_ex` of an XRC SRQ. What peers name through it, buffers and remote keys, is looked
    /// up in `pd` (X3).
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_xrc_srq(
        &self,
        pd: PdId,
        xrc: XrcSrq,
        attr: &SrqAttr,
    ) -> Result<SrqId, CreateError> {
        self.check_together(("the CQ", xrc.cq.0), ("the XRC domain", xrc.xrcd.0))?;
        let _order = self.room_for_srq()?;
        let mut engine = self.of_xrcd(xrc.xrcd).lock();
        domain(&engine.nic.tables, xrc.xrcd)?;
        engine.nic.tables.cqs.get(xrc.cq).ok_or(no_cq(xrc.cq))?;
        engine.add_srq(attr, |attr| SharedReceiveQueue::new_xrc(pd, xrc, attr))
    }

    /// `ibv_get_srq_num`: what an XRC peer calls it, 24 bits.
    ///
    /// # Errors
    /// [`NoSuchObject`].
    pub fn srq_number(&self, srq: SrqId) -> Result<u32, NoSuchObject> {
        let engine = self.of_srq(srq).lock();
        engine.nic.tables.srqs.get(srq).map(SharedReceiveQueue::number).ok_or(no_srq(srq))
    }

    /// `ibv_create_qp_ex` of an XRC target: a queue pair that serves all shared receive queues of the
    /// domain and has no queues of its own.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_xrc_target(&self, xrcd: XrcdId) -> Result<Qpn, CreateError> {
        let limit = self.0.limits.max_qp;
        let _order = self.room_for_one("queue pairs", limit, |engine| engine.nic.qps.len())?;
        let mut engine = self.of_xrcd(xrcd).lock();
        let &Xrcd { pd, cq } = domain(&engine.nic.tables, xrcd)?;
        let request = QpRequest {
            qp_type: QpType::XrcTgt,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            caps: QpCaps::default(),
            signal_all: false,
        };
        engine.add_qp(&request, Some(xrcd))
    }
}

fn domain(tables: &Tables, xrcd: XrcdId) -> Result<&Xrcd, NoSuchObject> {
    tables.xrcd(xrcd).ok_or(no_domain(xrcd))
}

fn no_domain(xrcd: XrcdId) -> NoSuchObject {
    NoSuchObject { what: "XRC domain", id: u64::from(xrcd.0) }
}
