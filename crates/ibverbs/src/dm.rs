//! Device memory. A NIC has some on board; ours is a piece of the process's own.

use std::os::fd::IntoRawFd;
use std::ptr::null_mut;
use std::sync::Arc;

use libc::{c_int, c_uint, c_void};
use uroce_device::memory::{Access, Region};

use crate::abi::{ibv_alloc_dm_attr, ibv_context, ibv_dm, ibv_mr, ibv_pd};
use crate::arg::not_null;
use crate::context::ctx_of;
use crate::device_memory::Memory;
use crate::errno::{BUSY, Errno, INVALID, NOT_SUPPORTED};
use crate::mr::{self, Holds};
use crate::object::Object;
use crate::object_of;
use crate::pd::pd_of;
use crate::return_value::{number, pointer, status, value};

/// The strictest alignment, as a power of 2: a page.
const MAX_LOG_ALIGN: u32 = 12;

/// What we keep about a piece of device memory. Registrations of it hold the memory too, so that no
/// order of destruction leaves one without.
#[derive(Debug)]
pub(crate) struct Dm(Arc<Memory>);

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn memory_of<'a>(dm: *const ibv_dm) -> Result<&'a Arc<Memory>, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_dm, Dm>::live(dm) }.map(|dm| &dm.0)
}

/// The slot behind `ibv_alloc_dm`.
pub(crate) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    pointer(|| {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let attr = unsafe {
            ctx_of(context)?;
            &*not_null(attr)?
        };
        if attr.comp_mask != 0 || attr.log_align_req > MAX_LOG_ALIGN {
            return Err(NOT_SUPPORTED);
        }
        // Pages are aligned more strictly than a program may ask for.
        let memory = Memory::of_device(attr.length)?;
        Ok(object(context, memory))
    })
}

/// What the program gets for a piece of device memory.
fn object(context: *mut ibv_context, memory: Arc<Memory>) -> *mut ibv_dm {
    let handle = memory.handle();
    let c = ibv_dm { context, memcpy_to_dm, memcpy_from_dm, comp_mask: 0, handle };
    Object::create(c, Dm(memory))
}

/// ibv_import_dm(3): the memory with that handle.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_import_dm(
    context: *mut ibv_context,
    handle: u32,
) -> *mut ibv_dm {
    pointer(|| {
        object_of!(ctx_of(context))?;
        Ok(object(context, Memory::with_handle(handle).ok_or(Errno(libc::ENOENT))?))
    })
}

/// ibv_unimport_dm(3): the memory stays as long as the program that allocated it wants.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_unimport_dm(dm: *mut ibv_dm) {
    // SAFETY: the manual pages ask that it was imported, and is not used any more.
    value((), || unsafe {
        if memory_of(dm).is_ok() {
            Object::<ibv_dm, Dm>::destroy(dm);
        }
    });
}

/// ibv_dm_export_dmabuf_fd(3): a descriptor by which the memory can be mapped, and registered again. It is that of a file in
/// memory: nothing but a kernel can make a DMA-buf, and no hardware asks for it here.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int {
    number(|| Ok(object_of!(memory_of(dm))?.export()?.into_raw_fd()))
}

/// The slot behind `ibv_free_dm`.
pub(crate) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    status(|| {
        if Object::<ibv_dm, Dm>::is_inherited(dm) {
            return Ok(());
        }
        if Arc::strong_count(object_of!(memory_of(dm))?) > 1 {
            return Err(BUSY);
        }
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { Object::<ibv_dm, Dm>::destroy(dm) };
        Ok(())
    })
}

/// What the inline `ibv_memcpy_to_dm` calls.
unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    offset: u64,
    from: *const c_void,
    length: usize,
) -> c_int {
    status(|| {
        // SAFETY: the bytes are within the memory; peers write words of it, as they do on a NIC, without a
        // promise about the order.
        unsafe {
            let to = memory_of(dm)?.words_at(offset, length)?;
            libc::memcpy(to.cast(), not_null(from.cast_mut())?, length);
        }
        Ok(())
    })
}

/// What the inline `ibv_memcpy_from_dm` calls.
unsafe extern "C" fn memcpy_from_dm(
    to: *mut c_void,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
) -> c_int {
    status(|| {
        // SAFETY: as above.
        unsafe {
            let from = memory_of(dm)?.words_at(offset, length)?;
            libc::memcpy(not_null(to)?, from.cast(), length);
        }
        Ok(())
    })
}

/// The slot behind `ibv_reg_dm_mr`. Addresses in the region count from its start, which is all that a
/// program can know.
pub(crate) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    pointer(|| {
        let (owner, memory) = (object_of!(pd_of(pd))?, object_of!(memory_of(dm))?);
        let access = Access::from_bits_retain(access);
        if !access.contains(Access::ZERO_BASED) || access.contains(Access::ON_DEMAND) {
            return Err(INVALID);
        }
        let start = memory.at(offset, length)?;
        // SAFETY: the registration holds the memory, and is dropped after the region.
        let region = unsafe { Region::from_raw(start, length) };
        let made = owner.device().memory().reg_mr(owner.id, region, 0, access)?;
        let place = (null_mut(), length);
        // SAFETY: the arguments are those of a call from C.
        Ok(unsafe { mr::object(pd, owner, &made, place, Holds::memory(memory)) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract_tests::opened;
    use crate::device_memory::MAX_DM_SIZE;
    use crate::mr::ibv_dereg_mr;
    use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};

    #[test]
    fn what_is_copied_in_comes_out_and_nothing_beyond() {
        let context = opened(202);
        let mut attr = ibv_alloc_dm_attr { length: 16, log_align_req: 0, comp_mask: 0 };
        let (from, mut to) = (*b"12345678", [0u8; 8]);
        // SAFETY: as the manual pages want it.
        unsafe {
            let dm = alloc_dm(context, &raw mut attr);
            let copy_in = |offset, length| memcpy_to_dm(dm, offset, from.as_ptr().cast(), length);
            assert_eq!(copy_in(8, 8), 0);
            assert_eq!(memcpy_from_dm(to.as_mut_ptr().cast(), dm, 8, 8), 0);
            assert_eq!(to, from);
            for (offset, length) in [(9, 4), (8, 3), (12, 8), (16, 4), (u64::MAX - 3, 8)] {
                assert_eq!(copy_in(offset, length), libc::EINVAL);
            }
            assert_eq!(free_dm(dm), 0);
            (attr.length, attr.log_align_req) = (MAX_DM_SIZE, 12);
            let dm = alloc_dm(context, &raw mut attr);
            assert_eq!(memory_of(dm).map(|memory| memory.start().addr() % 4096), Ok(0));
            assert_eq!(free_dm(dm), 0);
            attr.length = MAX_DM_SIZE + 1;
            assert!(alloc_dm(context, &raw mut attr).is_null());
        }
    }

    #[test]
    fn registered_memory_is_not_freed() {
        let context = opened(203);
        let mut attr = ibv_alloc_dm_attr { length: 16, log_align_req: 0, comp_mask: 0 };
        let access = (Access::ZERO_BASED | Access::LOCAL_WRITE).bits();
        // SAFETY: as the manual pages want it.
        unsafe {
            let (pd, dm) = (ibv_alloc_pd(context), alloc_dm(context, &raw mut attr));
            assert!(reg_dm_mr(pd, dm, 4, 16, access).is_null(), "it ends at 16");
            assert!(reg_dm_mr(pd, dm, 0, 16, 1).is_null(), "only zero based");
            let mr = reg_dm_mr(pd, dm, 4, 12, access);
            assert_eq!(((*mr).addr, (*mr).length), (null_mut(), 12));
            assert_eq!(free_dm(dm), libc::EBUSY);
            assert_eq!((ibv_dereg_mr(mr), free_dm(dm), ibv_dealloc_pd(pd)), (0, 0, 0));
        }
    }
}
