//! Events of connections.

use uroce_device::CmEventKind;

use super::CmId;

/// An event of a [`CmId`] (`rdma_cm_event`).
#[derive(Debug, Clone)]
pub struct CmEvent {
    /// What it is about. For a request it is a new id: accept or reject it; to drop it is to reject.
    pub id: CmId,
    /// For a request: the id that listens.
    pub listener: Option<CmId>,
    /// What happened.
    pub kind: CmEventKind,
}
