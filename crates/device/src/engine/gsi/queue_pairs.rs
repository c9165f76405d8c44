//! Queue pairs set up with what the connection manager has settled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use uroce_cm::message::TransportService;
use uroce_cm::{CommId, Link};
use uroce_datapath::Datapath;
use uroce_memory::Access;
use uroce_transport::{AddressVector, Instant, ModifyQpError, QpAttr, QpAttrMask, QpState, QpType};
use uroce_wire::{Mtu, Qpn, Slot};

use crate::engine::Nic;
use crate::engine::cross_engine::{CrossEngineOp, is_elsewhere};
use crate::error::{ConnectionError, ModifyError, NoSuchObject};

/// Pause that we ask of a peer when no receive is posted: 0.64 ms. rdma_cm's own default would
/// be 655 ms.
const MIN_RNR_TIMER: u8 = 12;

/// What QP 1 borrows of its engine for one call: the queue pairs, which connections move.
pub(crate) struct GsiContext<'a> {
    pub(in crate::engine) now: Instant,
    pub(in crate::engine) nic: &'a mut Nic,
    pub(in crate::engine) datapath: &'a mut dyn Datapath,
}

impl GsiContext<'_> {
    /// Moves a queue pair that is still in RESET to INIT, with the access rights that rdma_cm
    /// gives: WRITE, and READ, atomics and FLUSH if the queue pair responds to such requests.
    pub(crate) fn init_if_reset(&mut self, qpn: Qpn, serves: bool) -> Result<(), ModifyError> {
        if self.state(qpn) != Some(QpState::Reset) {
            return Ok(());
        }
        let mut access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        if serves {
            access |= Access::REMOTE;
        }
        let attr = QpAttr { state: QpState::Init, access, ..QpAttr::default() };
        self.modify(qpn, &attr, QpAttrMask::required(QpType::Rc, QpState::Reset, QpState::Init))
    }

    /// A queue pair that is past INIT has a peer, or had one.
    pub(crate) fn must_be_init(&self, qpn: Qpn) -> Result<(), ModifyError> {
        match self.state(qpn) {
            Some(from) if from != QpState::Init => {
                Err(ModifyQpError::NoTransition { from, to: QpState::Rtr }.into())
            }
            _ => Ok(()),
        }
    }

    /// From INIT to RTS.
    pub(crate) fn set_up(&mut self, qpn: Qpn, link: &Link) -> Result<(), ModifyError> {
        let qp_type = self.nic.qps.get(qpn).map_or(QpType::Rc, |entry| entry.init.qp_type);
        for (attr, mask) in [to_rtr(link, qp_type), to_rts(link, qp_type)] {
            let attr = self.nic.check_attr(&attr, mask)?;
            self.modify(qpn, &attr, mask)?;
        }
        Ok(())
    }

    /// The connection of a queue pair ended, or never came to be. A queue pair in RESET or INIT
    /// is left alone: it can be used for another call.
    pub(crate) fn end_link(&mut self, qpn: Qpn, id: CommId) {
        if is_elsewhere(self.nic.slot, Slot::of(qpn)) {
            return self.nic.cross_engine_ops.push(CrossEngineOp::EndLink { qpn, id, then: None });
        }
        if self.nic.qps.get(qpn).is_none_or(|entry| entry.connection != Some(id)) {
            return;
        }
        self.await_comm_est(qpn, None);
        let moved = self
            .state(qpn)
            .is_some_and(|state| !matches!(state, QpState::Reset | QpState::Init | QpState::Err));
        if moved {
            let attr = QpAttr { state: QpState::Err, ..QpAttr::default() };
            let ended = self.modify(qpn, &attr, QpAttrMask::STATE);
            debug_assert!(ended.is_ok(), "every state can go to ERR");
        }
    }

    /// The connection that the queue pair was last used for.
    pub(crate) fn connection_of(&self, qpn: Qpn) -> Option<CommId> {
        self.nic.qps.get(qpn).and_then(|entry| entry.connection)
    }

    /// The queue pair is used for a connection from now on.
    pub(crate) fn use_for(&mut self, qpn: Qpn, id: CommId) {
        debug_assert!(!is_elsewhere(self.nic.slot, Slot::of(qpn)), "a queue pair of this engine");
        if let Some(entry) = self.nic.qps.get_mut(qpn) {
            entry.connection = Some(id);
        }
    }

    /// The connection that the next packet of the queue pair confirms.
    pub(crate) fn await_comm_est(&mut self, qpn: Qpn, id: Option<CommId>) {
        if let Some(entry) = self.nic.qps.get_mut(qpn) {
            (entry.awaits_comm_est, entry.is_probed) = (id, false);
        }
    }

    /// The same, of a queue pair whose peer is asked for a packet.
    pub(crate) fn await_sign_of_life(&mut self, qpn: Qpn, id: CommId) {
        if let Some(entry) = self.nic.qps.get_mut(qpn) {
            (entry.awaits_comm_est, entry.is_probed) = (Some(id), true);
        }
    }

    /// Whether a packet to the peer of the queue pair can make it show that it is alive. `None`: it
    /// cannot; `Some(false)`: it need not, since the queue pair is not connected, or was destroyed. One that the device does
    /// not move for the connection need not be here.
    pub(super) fn can_probe(&self, qpn: Qpn, moved: bool) -> Option<bool> {
        let Some(entry) = self.nic.qps.get(qpn) else { return moved.then_some(false) };
        match entry.qp.state() {
            QpState::Reset | QpState::Init | QpState::Err => Some(false),
            QpState::Rts if entry.init.qp_type == QpType::Rc => Some(true),
            _ => None,
        }
    }

    /// Transport of a queue pair, and whether it has an SRQ. `other` is the end of XRC that cannot do
    /// what is asked for.
    pub(crate) fn service_of(
        &self,
        qpn: Qpn,
        other: QpType,
    ) -> Result<(TransportService, bool), ConnectionError> {
        let no_qp = || ConnectionError::Qp(ModifyError::from(NoSuchObject::qp(qpn)));
        let init = self.nic.qps.get(qpn).ok_or_else(no_qp)?.init;
        match init.qp_type {
            QpType::Rc => Ok((TransportService::RC, init.srq.is_some())),
            QpType::Uc => Ok((TransportService::UC, init.srq.is_some())),
            end if end == other => Err(ConnectionError::WrongEnd),
            QpType::XrcIni => Ok((TransportService::EXTENDED, false)),
            QpType::XrcTgt => Ok((TransportService::EXTENDED, true)),
            QpType::Ud => Err(ConnectionError::Datagram),
        }
    }

    fn state(&self, qpn: Qpn) -> Option<QpState> {
        self.nic.qps.get(qpn).map(|entry| entry.qp.state())
    }

    fn modify(&mut self, qpn: Qpn, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
        self.nic.modify_qp(self.now, qpn, attr, mask, self.datapath)
    }
}

fn to_rtr(link: &Link, qp_type: QpType) -> (QpAttr, QpAttrMask) {
    // The local address is filled in by the device.
    let unspecified = match link.remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let av = AddressVector {
        hop_limit: link.hop_limit,
        traffic_class: link.traffic_class,
        flow_label: link.flow_label,
        ..AddressVector::new(unspecified, link.remote)
    };
    let attr = QpAttr {
        state: QpState::Rtr,
        av: Some(av),
        path_mtu: Mtu::from_code(link.path_mtu).unwrap_or(Mtu::M256),
        dest_qpn: link.remote_qpn.get(),
        rq_psn: link.rq_psn.get(),
        max_dest_rd_atomic: link.max_dest_rd_atomic,
        min_rnr_timer: MIN_RNR_TIMER,
        ..QpAttr::default()
    };
    (attr, QpAttrMask::required(qp_type, QpState::Init, QpState::Rtr))
}

fn to_rts(link: &Link, qp_type: QpType) -> (QpAttr, QpAttrMask) {
    let attr = QpAttr {
        state: QpState::Rts,
        sq_psn: link.sq_psn.get(),
        timeout: link.ack_timeout,
        retry_cnt: link.retry_count,
        rnr_retry: link.rnr_retry_count,
        max_rd_atomic: link.max_rd_atomic,
        ..QpAttr::default()
    };
    (attr, QpAttrMask::required(qp_type, QpState::Rtr, QpState::Rts))
}
