//! Thread domains and parent domains: promises of a program about who uses its objects, and an offer
//! of memory for them. The device needs neither, but programs that use them find them.

use std::sync::Arc;

use libc::c_int;

use crate::abi::{
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
    IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT, ibv_context, ibv_parent_domain_init_attr, ibv_pd,
    ibv_td, ibv_td_init_attr,
};
use crate::arg::not_null;
use crate::context::ctx_of;
use crate::errno::{BUSY, Errno, INVALID, NOT_SUPPORTED};
use crate::object::Object;
use crate::open_device::OpenDevice;
use crate::pd::{Base, Pd, pd_of};
use crate::return_value::{pointer, status};
use crate::use_count::{Use, UseCount};
use crate::{input, object_of};

/// The last one allows memory that a hypervisor can read, where a NIC can read no other; the processor reads all of it.
const KNOWN_MASK: u32 = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
    | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
    | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;

/// What we keep about a thread domain.
#[derive(Debug, Default)]
pub(crate) struct Td {
    /// Parent domains with it.
    users: UseCount,
}

/// Our part of a thread domain; ENOENT if there is none at that address.
///
/// # Safety
/// The domain is not destroyed while the result is in use.
unsafe fn td_of<'a>(td: *const ibv_td) -> Result<&'a Td, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_td, Td>::live(td) }
}

/// The slot behind `ibv_alloc_td`.
pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    pointer(|| {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let mask = unsafe {
            ctx_of(context)?;
            (*not_null(attr)?).comp_mask
        };
        if mask != 0 {
            return Err(NOT_SUPPORTED);
        }
        Ok(Object::create(ibv_td { context }, Td::default()))
    })
}

/// The slot behind `ibv_dealloc_td`.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    status(|| {
        if Object::<ibv_td, Td>::is_inherited(td) {
            return Ok(());
        }
        let inner = object_of!(td_of(td))?;
        if inner.users.is_used() {
            return Err(BUSY);
        }
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { Object::<ibv_td, Td>::destroy(td) };
        Ok(())
    })
}

/// The slot behind `ibv_alloc_parent_domain`. What is made with a parent domain belongs to the domain
/// below it. Its allocators are never called: no object here has memory that a program could provide.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(|| {
        let (attr, ctx) = (input!(attr)?, object_of!(ctx_of(context))?);
        if attr.comp_mask & !KNOWN_MASK != 0 {
            return Err(NOT_SUPPORTED);
        }
        let below = object_of!(pd_of(attr.pd))?;
        if below.is_parent() || !Arc::ptr_eq(&below.ctx, ctx) {
            return Err(INVALID);
        }
        let td = if attr.td.is_null() { None } else { Some(object_of!(td_of(attr.td))?) };
        let base = Base { _pd: below.dependents.hold(), _td: td.map(|td| td.users.hold()) };
        let handle = below.id.place();
        Ok(Object::create(ibv_pd { context, handle }, Pd::above(below, base)))
    })
}

/// Keeps the domain of an extended completion queue, which must be a parent domain, of the queue's device.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn hold_parent(
    pd: *mut ibv_pd,
    open_device: &Arc<OpenDevice>,
) -> Result<Use, Errno> {
    let domain = object_of!(pd_of(pd))?;
    domain.open_device.check_same(open_device)?;
    domain.hold_parent().ok_or(INVALID)
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;
    use crate::abi::*;
    use crate::contract_tests::{opened, world};
    use crate::cq_create::{create_cq_ex, ibv_destroy_cq};
    use crate::mr::{ibv_dereg_mr, ibv_reg_mr, ibv_rereg_mr};
    use crate::mw::{alloc_mw, dealloc_mw};
    use crate::object::zeroed;
    use crate::open::ibv_close_device;
    use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};
    use crate::qp_create::{ibv_create_qp, ibv_destroy_qp};
    use crate::srq::{ibv_create_srq, ibv_destroy_srq};

    #[test]
    fn what_a_parent_domain_stands_on_stays() {
        let context = opened(201);
        // SAFETY: as the manual pages want it.
        unsafe {
            let mut nothing = ibv_td_init_attr { comp_mask: 0 };
            let pd = ibv_alloc_pd(context);
            let td = alloc_td(context, &raw mut nothing);
            assert!(!pd.is_null() && !td.is_null());
            let mut attr = ibv_parent_domain_init_attr {
                pd,
                td,
                comp_mask: 0,
                alloc: None,
                free: None,
                pd_context: null_mut(),
            };
            let parent = alloc_parent_domain(context, &raw mut attr);
            let device = Arc::clone(&pd_of(pd).expect("it is there").open_device);
            assert!(hold_parent(parent, &device).is_ok() && hold_parent(pd, &device).is_err());
            assert_eq!((ibv_dealloc_pd(pd), dealloc_td(td)), (libc::EBUSY, libc::EBUSY));
            attr.pd = parent;
            assert!(alloc_parent_domain(context, &raw mut attr).is_null(), "not on each other");
            assert_eq!(ibv_dealloc_pd(parent), 0);
            assert_eq!((ibv_dealloc_pd(pd), dealloc_td(td)), (0, 0));
        }
    }

    #[test]
    fn a_parent_domain_stays_as_long_as_what_was_made_with_it() {
        let world = world(207);
        // SAFETY: as the manual pages want it.
        unsafe {
            let mut attr: ibv_parent_domain_init_attr = zeroed();
            attr.pd = world.pd;
            let parent = alloc_parent_domain(world.context, &raw mut attr);
            let is_held = |made: bool| made && ibv_dealloc_pd(parent) == libc::EBUSY;
            let mut init: ibv_qp_init_attr = zeroed();
            (init.send_cq, init.recv_cq, init.qp_type) = (world.cq, world.cq, IBV_QPT_RC);
            let qp = ibv_create_qp(parent, &raw mut init);
            assert!(is_held(!qp.is_null()) && ibv_destroy_qp(qp) == 0);
            let mut init: ibv_srq_init_attr = zeroed();
            (init.attr.max_wr, init.attr.max_sge) = (1, 1);
            let srq = ibv_create_srq(parent, &raw mut init);
            assert!(is_held(!srq.is_null()) && ibv_destroy_srq(srq) == 0);
            let mw = alloc_mw(parent, IBV_MW_TYPE_1);
            assert!(is_held(!mw.is_null()) && dealloc_mw(mw) == 0);
            let mut init: ibv_cq_init_attr_ex = zeroed();
            (init.cqe, init.comp_mask) = (1, IBV_CQ_INIT_ATTR_MASK_PD);
            init.parent_domain = parent;
            let cq = create_cq_ex(world.context, &raw mut init);
            assert!(is_held(!cq.is_null()) && ibv_destroy_cq(cq.cast()) == 0);
            let bytes = world.buffer.as_ptr().cast_mut().cast();
            let mr = ibv_reg_mr(parent, bytes, 64, 0);
            assert!(is_held(!mr.is_null()));
            let moved = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, world.pd, null_mut(), 0, 0);
            assert_eq!((moved, ibv_dealloc_pd(parent), ibv_dereg_mr(mr)), (0, 0, 0));
        }
        world.end();
    }

    /// What no object here asks for its memory.
    unsafe extern "C" fn never_called() -> c_int {
        std::process::abort()
    }

    #[test]
    fn a_parent_domain_takes_the_flags_that_there_are_and_objects() {
        let world = world(204);
        let other = opened(205);
        // SAFETY: as the manual pages want it; what is wrong is found out.
        unsafe {
            let plain = ibv_parent_domain_init_attr {
                pd: world.pd,
                td: null_mut(),
                comp_mask: 0,
                alloc: Some(never_called),
                free: Some(never_called),
                pd_context: null_mut(),
            };
            let alloc = |mut attr: ibv_parent_domain_init_attr| {
                let made = alloc_parent_domain(world.context, &raw mut attr);
                if made.is_null() { Err(Errno::last()) } else { Ok(made) }
            };
            for comp_mask in [0, 1, 2, 4, 7] {
                let parent = alloc(ibv_parent_domain_init_attr { comp_mask, ..plain });
                let parent = parent.expect("a mask that there is");
                let bytes = world.buffer.as_ptr().cast_mut().cast();
                let mr = ibv_reg_mr(parent, bytes, 64, 0);
                assert_eq!(((*mr).pd, ibv_dealloc_pd(world.pd)), (parent, libc::EBUSY));
                assert_eq!(ibv_dealloc_pd(parent), libc::EBUSY);
                assert_eq!((ibv_dereg_mr(mr), ibv_dealloc_pd(parent)), (0, 0), "{comp_mask}");
            }
            let wrong = |pd, td: *mut ibv_td, comp_mask| {
                alloc(ibv_parent_domain_init_attr { pd, td, comp_mask, ..plain }).err()
            };
            for mask in [1 << 3, 1 << 31, u32::MAX] {
                assert_eq!(wrong(world.pd, null_mut(), mask), Some(NOT_SUPPORTED), "{mask:#x}");
            }
            let gone = Errno(libc::ENOENT);
            assert_eq!(wrong(null_mut(), null_mut(), 0), Some(INVALID));
            assert_eq!(wrong(world.cq.cast(), null_mut(), 0), Some(gone), "no domain");
            assert_eq!(wrong(world.pd, world.cq.cast(), 0), Some(gone), "no thread domain");
            let foreign = ibv_alloc_pd(other);
            assert_eq!(wrong(foreign, null_mut(), 0), Some(INVALID), "of another context");
            assert!(alloc_parent_domain(world.context, null_mut()).is_null());
            assert_eq!((ibv_dealloc_pd(foreign), ibv_close_device(other)), (0, 0));
        }
        world.end();
    }
}
