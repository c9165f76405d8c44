//! Queue pairs set up with what the connection manager has settled.

use uroce_cm::Link;
use uroce_memory::Access;
use uroce_transport::{AddressVector, QpAttr, QpAttrMask, QpState, QpType};
use uroce_wire::{Mtu, Qpn, Slot};

use super::Engine;
use crate::engines::{CrossEngineOp, is_elsewhere};
use crate::error::ModifyError;

/// Pause that we ask of a peer when no receive is posted: 0.64 ms. rdma_cm's own default would
/// be 655 ms.
const MIN_RNR_TIMER: u8 = 12;

impl Engine {
    /// Moves a queue pair that is still in RESET to INIT, with the access rights that rdma_cm
    /// gives: WRITE, and READ, atomics and FLUSH if the queue pair responds to such requests.
    pub(crate) fn init_if_reset(&mut self, qpn: Qpn, serves: bool) -> Result<(), ModifyError> {
        if self.qp_state(qpn) != Some(QpState::Reset) {
            return Ok(());
        }
        let mut access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        if serves {
            access |= Access::REMOTE;
        }
        let attr = QpAttr { state: QpState::Init, access, ..QpAttr::default() };
        self.modify_qp(qpn, &attr, QpAttrMask::required(QpType::Rc, QpState::Reset, QpState::Init))
    }

    /// From INIT to RTS.
    pub(crate) fn set_up(&mut self, qpn: Qpn, link: &Link) -> Result<(), ModifyError> {
        let qp_type = self.nic.qps.get(qpn).map_or(QpType::Rc, |entry| entry.init.qp_type);
        let (attr, mask) = to_rtr(link, qp_type);
        let attr = self.check_attr(&attr, mask)?;
        self.modify_qp(qpn, &attr, mask)?;
        let (attr, mask) = to_rts(link, qp_type);
        let attr = self.check_attr(&attr, mask)?;
        self.modify_qp(qpn, &attr, mask)
    }

    /// The connection of a queue pair ended, or never came to be. A queue pair in RESET or INIT
    /// is left alone: it can be used for another call.
    pub(crate) fn end_link(&mut self, qpn: Qpn) {
        if is_elsewhere(self.nic.slot, Slot::of(qpn)) {
            return self.nic.cross_engine_ops.push(CrossEngineOp::EndLink { qpn, then: None });
        }
        if let Some(entry) = self.nic.qps.get_mut(qpn) {
            entry.awaits_comm_est = None;
        }
        let moved = self
            .qp_state(qpn)
            .is_some_and(|state| !matches!(state, QpState::Reset | QpState::Init | QpState::Err));
        if moved {
            let attr = QpAttr { state: QpState::Err, ..QpAttr::default() };
            let ended = self.modify_qp(qpn, &attr, QpAttrMask::STATE);
            debug_assert!(ended.is_ok(), "every state can go to ERR");
        }
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        self.nic.qps.get(qpn).map(|entry| entry.qp.state())
    }
}

fn to_rtr(link: &Link, qp_type: QpType) -> (QpAttr, QpAttrMask) {
    // The local address is filled in by the device.
    let unspecified = match link.remote {
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
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
