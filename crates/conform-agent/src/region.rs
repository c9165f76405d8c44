//! Memory regions.

use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;

use uroce_conform::Access;
use uroce_verbs_abi::ibv_mr;

use crate::access_flags::access_flags;
use crate::domain::Domain;
use crate::memory::Memory;
use crate::outcome::{Tried, done, failed};

pub(crate) struct Region {
    domain: Rc<Domain>,
    mr: *mut ibv_mr,
    pub(crate) memory: Arc<Memory>,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

impl Region {
    pub(crate) fn new(domain: &Rc<Domain>, length: u32, access: Access) -> Tried<Region> {
        let memory = Arc::new(Memory::new(length).ok_or("no memory")?);
        memory.write(0, &uroce_conform::pattern(0, length as usize));
        let (start, flags) = (memory.start().cast(), access_flags(access));
        let register = domain.device().library.ibv_reg_mr;
        // SAFETY: memory of our own that lives longer than the registration.
        let mr = unsafe { register(domain.pd, start, length as usize, flags) };
        if mr.is_null() {
            return failed("ibv_reg_mr");
        }
        // SAFETY: it was just made.
        let (lkey, rkey) = unsafe { ((*mr).lkey, (*mr).rkey) };
        Ok(Region { domain: domain.clone(), mr, memory, lkey, rkey })
    }

    /// The registration, which has not ended.
    pub(crate) fn mr(&self) -> Tried<*mut ibv_mr> {
        if self.mr.is_null() { Err("the region was deregistered".to_owned()) } else { Ok(self.mr) }
    }

    /// Ends the registration; the memory and the keys' numbers stay.
    pub(crate) fn deregister(&mut self) -> Tried<()> {
        if self.mr.is_null() {
            return Ok(());
        }
        // SAFETY: a registration that has not ended.
        done("ibv_dereg_mr", unsafe { (self.domain.device().library.ibv_dereg_mr)(self.mr) })?;
        self.mr = null_mut();
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.deregister().is_err() {
            // The NIC may still write there.
            std::mem::forget(self.memory.clone());
        }
    }
}
