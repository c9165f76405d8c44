//! Memory windows of type 2.

use std::ptr::null_mut;
use std::rc::Rc;

use uroce_conform::Access;
use uroce_verbs_abi::{
    bind_mw_wr, ibv_mw, ibv_mw_bind_info, ibv_qp, ibv_send_wr, rdma_wr, wr_union,
};

use crate::access_flags::access_flags;
use crate::domain::Domain;
use crate::outcome::{Tried, done, failed};
use crate::region::Region;

/// `IBV_MW_TYPE_2`.
const TYPE_2: i32 = 2;
/// `IBV_WR_BIND_MW`.
const BIND: i32 = 8;
/// `IBV_ACCESS_LOCAL_WRITE`.
const LOCAL_WRITE: i32 = 1;
/// `IBV_SEND_SIGNALED`.
const SIGNALED: u32 = 1 << 1;
/// What changes of a key when its window is bound.
const LOW_BYTE: u32 = 0xff;

/// A memory window. It is deallocated before the region that it is bound to is deregistered.
pub(crate) struct Window {
    domain: Rc<Domain>,
    mw: *mut ibv_mw,
    /// Its key, as it was bound last.
    pub(crate) rkey: u32,
}

/// A part of a region, and what may be done through it.
pub(crate) struct Part {
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) access: Access,
}

impl Window {
    pub(crate) fn new(domain: &Rc<Domain>) -> Tried<Window> {
        // SAFETY: a domain that lives. The slot is filled: libibverbs has a function there that fails where a driver
        // has no windows.
        let mw = unsafe { ((*domain.device().context).ops.alloc_mw)(domain.pd, TYPE_2) };
        if mw.is_null() {
            return failed("ibv_alloc_mw");
        }
        // SAFETY: it was just made.
        let rkey = unsafe { (*mw).rkey };
        Ok(Window { domain: domain.clone(), mw, rkey })
    }

    /// Posts its binding to a part of a region, with a new low byte of its key.
    pub(crate) fn bind(
        &mut self,
        qp: *mut ibv_qp,
        (wr_id, key): (u64, u8),
        region: &Region,
        part: &Part,
    ) -> Tried<()> {
        let rkey = self.rkey & !LOW_BYTE | u32::from(key);
        let info = ibv_mw_bind_info {
            mr: region.mr()?,
            addr: (region.memory.start().addr() as u64).wrapping_add(part.offset.into()),
            length: part.length.into(),
            // A window has no local side.
            mw_access_flags: (access_flags(part.access) & !LOCAL_WRITE) as u32,
        };
        // SAFETY: integers and null pointers.
        let mut wr: ibv_send_wr = unsafe { std::mem::zeroed() };
        (wr.wr_id, wr.opcode, wr.send_flags) = (wr_id, BIND, SIGNALED);
        wr.wr = wr_union { rdma: rdma_wr { remote_addr: 0, rkey: 0 } };
        wr.bind_mw = bind_mw_wr { mw: self.mw, rkey, bind_info: info };
        let mut bad = null_mut();
        // SAFETY: a queue pair, a window and a region that live, and a chain of one.
        let status = unsafe {
            ((*self.domain.device().context).ops.post_send)(qp, &raw mut wr, &raw mut bad)
        };
        done("posting the binding of a window", status)?;
        self.rkey = rkey;
        // The poster of a binding keeps the key of the window; the next one begins from there in providers that look.
        // SAFETY: a window that lives, and which no other thread knows.
        unsafe { (*self.mw).rkey = rkey };
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: once.
        unsafe { ((*self.domain.device().context).ops.dealloc_mw)(self.mw) };
    }
}
