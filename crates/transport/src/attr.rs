//! Attributes and types of queue pairs.

use std::net::IpAddr;

use bitflags::bitflags;
use thiserror::Error;
use uroce_memory::{Access, PdId};
use uroce_wire::{Mtu, Qpn, Service};

use crate::id::{CqId, SrqId, XrcdId};
use crate::limits;
use crate::qp_state::QpState;

/// Transport service of a queue pair, with the values of `ibv_qp_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QpType {
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagram.
    Ud = 4,
    /// Extended reliable connection, the end that requests (`IBV_QPT_XRC_SEND`).
    XrcIni = 9,
    /// Extended reliable connection, the end that responds (`IBV_QPT_XRC_RECV`).
    XrcTgt = 10,
}

impl QpType {
    /// The name that users know: `RC`, `UC`, `UD`, `XRC_INI`, `XRC_TGT`.
    pub fn name(self) -> &'static str {
        match self {
            QpType::Rc => "RC",
            QpType::Uc => "UC",
            QpType::Ud => "UD",
            QpType::XrcIni => "XRC_INI",
            QpType::XrcTgt => "XRC_TGT",
        }
    }

    /// The service whose opcodes it sends and takes.
    #[inline]
    pub fn service(self) -> Service {
        match self {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcIni | QpType::XrcTgt => Service::Xrc,
        }
    }

    /// True if requests are acknowledged and repeated: RC and XRC.
    #[inline]
    pub fn is_reliable(self) -> bool {
        matches!(self, QpType::Rc | QpType::XrcIni | QpType::XrcTgt)
    }

    /// True for both ends of an extended reliable connection.
    #[inline]
    pub fn is_xrc(self) -> bool {
        matches!(self, QpType::XrcIni | QpType::XrcTgt)
    }
}

/// Sizes of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QpCaps {
    /// Send work requests that may wait.
    pub max_send_wr: u32,
    /// Receive work requests that may wait.
    pub max_recv_wr: u32,
    /// Entries of one send work request.
    pub max_send_sge: u32,
    /// Entries of one receive work request.
    pub max_recv_sge: u32,
    /// Inline bytes of one send work request.
    pub max_inline: u32,
}

/// The objects, number and sizes that a queue pair is made with, as the transport takes them. Programs use the
/// builder of `uroce-verbs` instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpInit {
    /// Its number.
    pub qpn: Qpn,
    /// Its transport service.
    pub qp_type: QpType,
    /// Its protection domain. One of `XRC_TGT` uses that of the shared receive queue which the
    /// request in hand names, and this one for nothing.
    pub pd: PdId,
    /// Where completions of sends go.
    pub send_cq: CqId,
    /// Where completions of receives go; those of `XRC_TGT` go to the CQ of the shared receive queue.
    pub recv_cq: CqId,
    /// Shared receive queue, if it has no receive queue of its own.
    pub srq: Option<SrqId>,
    /// XRC domain of an `XRC_TGT` queue pair: which shared receive queues its peer may name.
    pub xrcd: Option<XrcdId>,
    /// Sizes.
    pub caps: QpCaps,
    /// Every send work request is signalled.
    pub signal_all: bool,
    /// MTU of the port: the largest UD message.
    pub port_mtu: Mtu,
}

/// Why a queue pair cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CreateQpError {
    /// A size exceeds the device's limit.
    #[error("{what} = {value}, but the device allows at most {max}")]
    TooLarge {
        /// The attribute.
        what: &'static str,
        /// What was asked for.
        value: u32,
        /// The limit.
        max: u32,
    },
}

impl QpCaps {
    /// Checks the sizes against the limits of the transport.
    pub fn check(&self) -> Result<(), CreateQpError> {
        let sizes = [
            ("max_send_wr", self.max_send_wr, limits::MAX_QP_WR),
            ("max_recv_wr", self.max_recv_wr, limits::MAX_QP_WR),
            ("max_send_sge", self.max_send_sge, limits::MAX_SGE),
            ("max_recv_sge", self.max_recv_sge, limits::MAX_SGE),
            ("max_inline_data", self.max_inline, limits::MAX_INLINE),
        ];
        for (what, value, max) in sizes {
            if value > max {
                return Err(CreateQpError::TooLarge { what, value, max });
            }
        }
        Ok(())
    }
}

/// The path to a peer (`ibv_ah_attr`), with GIDs already turned into addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressVector {
    /// Our address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// TTL or hop limit; 0 stands for 64.
    pub hop_limit: u8,
    /// ToS or traffic class.
    pub traffic_class: u8,
    /// Flow label; it selects the UDP source port (docs/wire.md).
    pub flow_label: u32,
    /// Service level; kept for queries, RoCE has no use for it.
    pub service_level: u8,
    /// Index of our GID.
    pub sgid_index: u8,
}

impl AddressVector {
    /// A path from `local` to `remote` with default header fields.
    pub fn new(local: IpAddr, remote: IpAddr) -> Self {
        AddressVector {
            local,
            remote,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            service_level: 0,
            sgid_index: 0,
        }
    }
}

/// Attributes of a queue pair (`ibv_qp_attr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpAttr {
    /// State to enter, or the current one in a query.
    pub state: QpState,
    /// The state the caller believes the QP is in.
    pub cur_state: QpState,
    /// Raise SQ_DRAINED when the send queue has drained.
    pub en_sqd_async_notify: bool,
    /// What remote requests may do.
    pub access: Access,
    /// P_Key table index; only 0 exists.
    pub pkey_index: u16,
    /// Port number; only 1 exists.
    pub port: u8,
    /// Q_Key, for UD.
    pub qkey: u32,
    /// Path to the peer, for RC and UC.
    pub av: Option<AddressVector>,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Local ACK timeout code: 4.096 us * 2^n, 0 never (R75).
    pub timeout: u8,
    /// Retries after timeouts and sequence NAKs, 0..=7; 7 is 7 (R75).
    pub retry_cnt: u8,
    /// Retries after RNR NAKs, 0..=6; 7 is for ever (R76).
    pub rnr_retry: u8,
    /// First PSN expected from the peer.
    pub rq_psn: u32,
    /// First PSN sent to the peer.
    pub sq_psn: u32,
    /// In SQD, requests that were begun before are not finished yet. Of a query; a modify ignores it.
    pub sq_draining: bool,
    /// READ and atomic requests in flight as requester.
    pub max_rd_atomic: u8,
    /// READ and atomic requests that the responder remembers.
    pub max_dest_rd_atomic: u8,
    /// RNR timer code that the responder sends (docs/wire.md).
    pub min_rnr_timer: u8,
    /// The peer's queue pair.
    pub dest_qpn: u32,
    /// Path migration state; kept for queries.
    pub path_mig_state: u8,
}

impl Default for QpAttr {
    fn default() -> Self {
        QpAttr {
            state: QpState::Reset,
            cur_state: QpState::Reset,
            en_sqd_async_notify: false,
            access: Access::empty(),
            pkey_index: 0,
            port: 1,
            qkey: 0,
            av: None,
            path_mtu: Mtu::M1024,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            rq_psn: 0,
            sq_psn: 0,
            sq_draining: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            dest_qpn: 0,
            path_mig_state: 0,
        }
    }
}

bitflags! {
    /// Which fields of [`QpAttr`] a modify names, with the values of `ibv_qp_attr_mask`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct QpAttrMask: u32 {
        /// `state`
        const STATE = 1;
        /// `cur_state`
        const CUR_STATE = 1 << 1;
        /// `en_sqd_async_notify`
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// `access`
        const ACCESS_FLAGS = 1 << 3;
        /// `pkey_index`
        const PKEY_INDEX = 1 << 4;
        /// `port`
        const PORT = 1 << 5;
        /// `qkey`
        const QKEY = 1 << 6;
        /// `av`
        const AV = 1 << 7;
        /// `path_mtu`
        const PATH_MTU = 1 << 8;
        /// `timeout`
        const TIMEOUT = 1 << 9;
        /// `retry_cnt`
        const RETRY_CNT = 1 << 10;
        /// `rnr_retry`
        const RNR_RETRY = 1 << 11;
        /// `rq_psn`
        const RQ_PSN = 1 << 12;
        /// `max_rd_atomic`
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// Alternate path; there is none on RoCE.
        const ALT_PATH = 1 << 14;
        /// `min_rnr_timer`
        const MIN_RNR_TIMER = 1 << 15;
        /// `sq_psn`
        const SQ_PSN = 1 << 16;
        /// `max_dest_rd_atomic`
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// `path_mig_state`
        const PATH_MIG_STATE = 1 << 18;
        /// Queue sizes; they cannot be changed.
        const CAP = 1 << 19;
        /// `dest_qpn`
        const DEST_QPN = 1 << 20;
    }
}
