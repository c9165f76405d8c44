//! What an end of an XRC connection has besides its initiator: a domain, and a target.

use uroce_device::Device;
use uroce_device::memory::PdId;
use uroce_device::transport::{CqId, SrqAttr, SrqId, XrcSrq, XrcdId};
use uroce_device::wire::Qpn;

/// A domain with the target that serves its shared receive queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct XrcPart {
    xrcd: XrcdId,
    pub(super) target: Qpn,
}

impl XrcPart {
    pub(super) fn new(device: &Device, pd: PdId, cq: CqId) -> XrcPart {
        let xrcd = device.xrc().open(pd, cq).expect("a domain");
        XrcPart { xrcd, target: device.xrc().create_target(xrcd).expect("a target") }
    }

    pub(super) fn create_srq(&self, device: &Device, pd: PdId, cq: CqId, attr: &SrqAttr) -> SrqId {
        let xrc = XrcSrq { xrcd: self.xrcd, cq };
        device.xrc().create_srq(pd, xrc, attr).expect("an SRQ")
    }

    /// Another target in place of this one.
    pub(super) fn renew_target(&mut self, device: &Device) {
        device.destroy_qp(self.target).expect("the target exists");
        self.target = device.xrc().create_target(self.xrcd).expect("a target");
    }

    /// Destroys the target.
    pub(super) fn destroy_target(&self, device: &Device) -> Result<(), String> {
        device.destroy_qp(self.target).map_err(|error| format!("a target: {error}"))
    }

    /// Closes the domain, whose shared receive queues are gone.
    pub(super) fn close(&self, device: &Device) -> Result<(), String> {
        device.xrc().close(self.xrcd).map_err(|error| format!("a domain: {error}"))
    }
}
