//! Memory of a stream that is registered with its device.

use std::sync::Arc;

use uroce_device::memory::{Access, Mr, PdId, Region, Sge};
use uroce_ibverbs::errno::Errno;
use uroce_ibverbs::open_device::OpenDevice;

use crate::protocol::Remote;

/// Memory that is registered as long as this lives.
#[derive(Debug)]
pub(crate) struct Registered {
    open_device: Arc<OpenDevice>,
    mr: Mr,
    pub region: Region,
}

impl Registered {
    pub fn new(
        open_device: &Arc<OpenDevice>,
        pd: PdId,
        len: usize,
        access: Access,
    ) -> Result<Self, Errno> {
        let region = Region::alloc(len).map_err(|_| Errno(libc::ENOMEM))?;
        let mr = open_device.device.memory().reg_mr(pd, region.clone(), region.addr(), access)?;
        Ok(Registered { open_device: Arc::clone(open_device), mr, region })
    }

    /// What a peer needs to write `length` (bytes, or entries) from `offset` on.
    pub fn remote(&self, offset: usize, length: u32) -> Remote {
        Remote { addr: self.region.addr() + offset as u64, rkey: self.mr.rkey.0, length }
    }

    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        let addr = self.region.addr() + offset as u64;
        Sge { addr, length: u32::try_from(length).unwrap_or(u32::MAX), lkey: self.mr.lkey }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // The queue pair is gone, so it is not used; a device that is closing has forgotten it.
        let _ = self.open_device.device.memory().dereg_mr(self.mr.id);
    }
}
