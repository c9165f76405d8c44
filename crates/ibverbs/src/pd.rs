//! Protection domains.

use std::sync::Arc;

use libc::c_int;
use uroce_device::Device;
use uroce_device::memory::PdId;

use crate::abi::{ibv_context, ibv_pd};
use crate::context::{Ctx, ctx_of};
use crate::errno::{BUSY, Errno};
use crate::object::Object;
use crate::object_of;
use crate::open_device::OpenDevice;
use crate::return_value::{pointer, status, value};
use crate::use_count::{Use, UseCount};

/// What we keep about a protection domain.
#[derive(Debug)]
pub struct Pd {
    pub(crate) ctx: Arc<Ctx>,
    pub(crate) open_device: Arc<OpenDevice>,
    /// What the device calls it.
    pub id: PdId,
    /// Address handles and parent domains, and of a parent domain whatever is made with it; the device does not know them.
    pub(crate) dependents: UseCount,
    /// Of a parent domain: the domains that it is made of.
    base: Option<Base>,
}

/// The domains that a parent domain is made of. They cannot be freed before it.
#[derive(Debug)]
pub struct Base {
    pub(crate) _pd: Use,
    pub(crate) _td: Option<Use>,
}

impl Pd {
    pub(crate) fn device(&self) -> &Device {
        &self.open_device.device
    }

    /// True if it is a domain of this device.
    pub fn is_on(&self, open_device: &Arc<OpenDevice>) -> bool {
        Arc::ptr_eq(&self.open_device, open_device)
    }

    /// A parent domain above a domain.
    pub(crate) fn above(below: &Pd, base: Base) -> Pd {
        let (ctx, open_device) = (Arc::clone(&below.ctx), Arc::clone(&below.open_device));
        Pd { ctx, open_device, id: below.id, dependents: UseCount::default(), base: Some(base) }
    }

    pub(crate) fn is_parent(&self) -> bool {
        self.base.is_some()
    }

    /// Of a parent domain: it cannot be freed as long as the result lives. The device does not know it, and keeps the
    /// domain below it.
    pub(crate) fn hold_parent(&self) -> Option<Use> {
        self.is_parent().then(|| self.dependents.hold())
    }
}

/// Our part of a protection domain; ENOENT if there is none at that address.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn pd_of<'a>(pd: *const ibv_pd) -> Result<&'a Pd, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_pd, Pd>::live(pd) }
}

/// ibv_alloc_pd(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        let ctx = Arc::clone(object_of!(ctx_of(context))?);
        let open_device = ctx.open_device()?;
        let id = open_device.device.memory().alloc_pd()?;
        let pd = Pd { ctx, open_device, id, dependents: UseCount::default(), base: None };
        Ok(Object::create(ibv_pd { context, handle: id.place() }, pd))
    })
}

/// ibv_import_pd(3): the domain with that handle, made with another context of the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    pointer(|| {
        let ctx = Arc::clone(object_of!(ctx_of(context))?);
        let open_device = ctx.open_device()?;
        let id = open_device.device.memory().pd_at(handle).ok_or(Errno(libc::ENOENT))?;
        let pd = Pd { ctx, open_device, id, dependents: UseCount::default(), base: None };
        Ok(Object::create(ibv_pd { context, handle }, pd))
    })
}

/// ibv_unimport_pd(3): the domain itself stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_pd(pd: *mut ibv_pd) {
    // SAFETY: the manual pages ask that it was imported, and is not used any more.
    value((), || unsafe {
        if pd_of(pd).is_ok() {
            Object::<ibv_pd, Pd>::destroy(pd);
        }
    });
}

/// ibv_dealloc_pd(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    status(|| {
        if Object::<ibv_pd, Pd>::is_inherited(pd) {
            return Ok(());
        }
        let inner = object_of!(pd_of(pd))?;
        if inner.dependents.is_used() {
            return Err(BUSY);
        }
        if !inner.is_parent() {
            inner.device().memory().dealloc_pd(inner.id)?;
        }
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { Object::<ibv_pd, Pd>::destroy(pd) };
        Ok(())
    })
}
