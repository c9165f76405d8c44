//! How two queue pairs are connected.

use uroce_device::transport::{AddressVector, QpAttr, QpAttrMask, QpState, QpType};
use uroce_device::wire::{Mtu, Psn};
use uroce_memory::Access;

use crate::endpoint::Endpoint;

/// How [`QueuePair::connect`](crate::QueuePair::connect) sets a queue pair up. The defaults suit a
/// local network.
///
/// ```
/// use uroce_verbs::{Access, ConnectOptions};
/// let read_only = ConnectOptions { access: Access::REMOTE_READ, ..ConnectOptions::default() };
/// assert_eq!(read_only.retry_cnt, 7);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Path MTU, the same on both sides. Default: the smaller of the active MTUs of the two ports, as far as the
    /// [`Endpoint`] of the peer tells its own.
    pub mtu: Option<Mtu>,
    /// ACK timeout code n, 0 to 31: a request that is not acknowledged is repeated after 4.096 us * 2^n; 0 waits for
    /// ever (R75). Default: 14, 67 ms.
    pub timeout: u8,
    /// Retries after a timeout or a sequence NAK, 0 to 7. Default: 7.
    pub retry_cnt: u8,
    /// Retries after "receiver not ready", 0 to 6; 7 for ever (R76). Default: 7.
    pub rnr_retry: u8,
    /// RNR timer code, 0 to 31: the pause that a peer is asked to make when no receive is posted here; docs/wire.md has
    /// the table. Default: 12, 0.64 ms.
    pub min_rnr_timer: u8,
    /// READ and atomic requests of this side that may be in flight, at most the peer's
    /// `max_dest_rd_atomic`. Default: 16.
    pub max_rd_atomic: u8,
    /// READ and atomic requests of the peer that this side serves at a time. Default: 16.
    pub max_dest_rd_atomic: u8,
    /// What the peer's requests may do here, if the memory allows it too. Default: everything.
    pub access: Access,
    /// ToS or traffic class: DSCP in the upper 6 bits. Default: 0.
    pub traffic_class: u8,
    /// TTL or hop limit. Default: 64.
    pub hop_limit: u8,
    /// 20 bits; selects the UDP source port. 0 lets it follow from the queue pair numbers. Default: 0.
    pub flow_label: u32,
    /// Index of this device's GID, 0 or 1; both are its address. Default: 0.
    pub gid_index: u8,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            mtu: None,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            access: Access::LOCAL_WRITE | Access::REMOTE,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            gid_index: 0,
        }
    }
}

impl ConnectOptions {
    /// INIT to RTR towards `peer` over `path`.
    pub(crate) fn to_rtr(
        self,
        qp_type: QpType,
        peer: &Endpoint,
        path: AddressVector,
        mtu: Mtu,
    ) -> (QpAttr, QpAttrMask) {
        let attr = QpAttr {
            state: QpState::Rtr,
            access: self.access,
            av: Some(path),
            path_mtu: mtu,
            dest_qpn: peer.qpn.get(),
            rq_psn: peer.psn.get(),
            max_dest_rd_atomic: self.max_dest_rd_atomic,
            min_rnr_timer: self.min_rnr_timer,
            ..QpAttr::default()
        };
        (
            attr,
            QpAttrMask::ACCESS_FLAGS | QpAttrMask::required(qp_type, QpState::Init, QpState::Rtr),
        )
    }

    /// RTR to RTS, sending from `psn`.
    pub(crate) fn to_rts(self, qp_type: QpType, psn: Psn) -> (QpAttr, QpAttrMask) {
        let attr = QpAttr {
            state: QpState::Rts,
            sq_psn: psn.get(),
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
            max_rd_atomic: self.max_rd_atomic,
            ..QpAttr::default()
        };
        (attr, QpAttrMask::required(qp_type, QpState::Rtr, QpState::Rts))
    }
}

/// RESET to INIT.
pub(crate) fn to_init(qp_type: QpType) -> (QpAttr, QpAttrMask) {
    let access = ConnectOptions::default().access;
    let attr = QpAttr { state: QpState::Init, access, ..QpAttr::default() };
    (attr, QpAttrMask::required(qp_type, QpState::Reset, QpState::Init))
}
