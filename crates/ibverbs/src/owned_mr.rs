//! Memory regions that Rust code owns.

use libc::{c_int, c_void};

use crate::abi::{ibv_mr, ibv_pd};
use crate::errno::{Errno, made};
use crate::mr::{ibv_dereg_mr, ibv_reg_mr};

/// Memory of the program that is registered as long as this lives.
#[derive(Debug)]
pub struct OwnedMr(*mut ibv_mr);

// SAFETY: a registration may be used by any thread, and this one has no other owner.
unsafe impl Send for OwnedMr {}

impl OwnedMr {
    /// `ibv_reg_mr`.
    ///
    /// # Safety
    /// `pd` is a protection domain, and the memory stays mapped until the result is dropped.
    ///
    /// # Errors
    /// Those of ibv_reg_mr(3).
    pub unsafe fn register(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        access: c_int,
    ) -> Result<OwnedMr, Errno> {
        // SAFETY: the caller's promise is that of ibv_reg_mr(3).
        made(unsafe { ibv_reg_mr(pd, addr, length, access) }).map(OwnedMr)
    }

    /// The key for peers.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the registration lives as long as this.
        unsafe { (*self.0).rkey }
    }
}

impl Drop for OwnedMr {
    fn drop(&mut self) {
        // SAFETY: it came from `ibv_reg_mr`, and goes once.
        unsafe { ibv_dereg_mr(self.0) };
    }
}
