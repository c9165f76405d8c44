//! DMA handles: hints for the way between a NIC and a processor. Here both are the same, so that a hint is checked and kept,
//! and changes nothing.

use libc::c_int;

use crate::abi::{
    IBV_DMAH_INIT_ATTR_MASK_CPU_ID, IBV_DMAH_INIT_ATTR_MASK_PH,
    IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE, IBV_TPH_MEM_TYPE_PM, ibv_context, ibv_dmah,
    ibv_dmah_init_attr,
};
use crate::context::ctx_of;
use crate::errno::{BUSY, Errno, INVALID, NOT_SUPPORTED};
use crate::object::Object;
use crate::return_value::{pointer, status};
use crate::use_count::UseCount;
use crate::{input, object_of};

const KNOWN_MASK: u32 = IBV_DMAH_INIT_ATTR_MASK_CPU_ID
    | IBV_DMAH_INIT_ATTR_MASK_PH
    | IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE;
/// A hint has two bits on PCIe.
const MAX_HINT: u8 = 3;

/// What we keep about a DMA handle.
#[derive(Debug, Default)]
pub(crate) struct Dmah {
    /// Registrations with it.
    pub(crate) users: UseCount,
}

/// Our part of a DMA handle; ENOENT if there is none at that address.
///
/// # Safety
/// The handle is not freed while the result is in use.
pub(crate) unsafe fn dmah_of<'a>(dmah: *const ibv_dmah) -> Result<&'a Dmah, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_dmah, Dmah>::live(dmah) }
}

/// ibv_alloc_dmah(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_alloc_dmah(
    context: *mut ibv_context,
    attr: *mut ibv_dmah_init_attr,
) -> *mut ibv_dmah {
    pointer(|| {
        object_of!(ctx_of(context))?;
        let attr = input!(attr)?;
        let has = |bit: u32| attr.comp_mask & bit != 0;
        if attr.comp_mask & !KNOWN_MASK != 0 {
            return Err(NOT_SUPPORTED);
        }
        if has(IBV_DMAH_INIT_ATTR_MASK_PH) && attr.ph > MAX_HINT
            || has(IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE) && attr.tph_mem_type > IBV_TPH_MEM_TYPE_PM
            || has(IBV_DMAH_INIT_ATTR_MASK_CPU_ID) && i64::from(attr.cpu_id) >= processors()
        {
            return Err(INVALID);
        }
        Ok(Object::create(ibv_dmah { context }, Dmah::default()))
    })
}

/// Processors that this machine may have.
fn processors() -> i64 {
    // SAFETY: a number in, a number out.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1)
}

/// ibv_dealloc_dmah(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dealloc_dmah(dmah: *mut ibv_dmah) -> c_int {
    status(|| {
        if Object::<ibv_dmah, Dmah>::is_inherited(dmah) {
            return Ok(());
        }
        if object_of!(dmah_of(dmah))?.users.is_used() {
            return Err(BUSY);
        }
        // SAFETY: the manual page asks that it is not used any more.
        unsafe { Object::<ibv_dmah, Dmah>::destroy(dmah) };
        Ok(())
    })
}
