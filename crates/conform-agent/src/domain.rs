//! Protection domains.

use std::rc::Rc;

use uroce_verbs_abi::ibv_pd;

use crate::device::Device;
use crate::outcome::{Tried, failed};

pub(crate) struct Domain {
    device: Rc<Device>,
    pub(crate) pd: *mut ibv_pd,
}

impl Domain {
    pub(crate) fn new(device: &Rc<Device>) -> Tried<Rc<Domain>> {
        // SAFETY: an open device.
        let pd = unsafe { (device.library.ibv_alloc_pd)(device.context) };
        if pd.is_null() {
            return failed("ibv_alloc_pd");
        }
        Ok(Rc::new(Domain { device: device.clone(), pd }))
    }

    pub(crate) fn device(&self) -> &Rc<Device> {
        &self.device
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: once; what is in the domain holds it, and is gone.
        unsafe { (self.device.library.ibv_dealloc_pd)(self.pd) };
    }
}
