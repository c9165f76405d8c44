//! Memory regions of more kinds: of a DMA-buf, of a buffer of the device, with a DMA handle.

use std::ptr::null_mut;

use libc::{c_int, c_uint, c_void};
use uroce_device::memory::{Access, Region};

use crate::abi::{
    IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ZERO_BASED, IBV_REG_MR_MASK_ADDR, IBV_REG_MR_MASK_BUF,
    IBV_REG_MR_MASK_DMAH, IBV_REG_MR_MASK_FD, IBV_REG_MR_MASK_FD_OFFSET, IBV_REG_MR_MASK_IOVA,
    ibv_mr, ibv_mr_init_attr, ibv_pd,
};
use crate::buf::buf_of;
use crate::device_memory::Memory;
use crate::dmah::dmah_of;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::mr::{Holds, object, register};
use crate::pd::pd_of;
use crate::return_value::pointer;
use crate::{input, object_of};

const KNOWN_MASK: u64 = IBV_REG_MR_MASK_IOVA
    | IBV_REG_MR_MASK_ADDR
    | IBV_REG_MR_MASK_FD
    | IBV_REG_MR_MASK_FD_OFFSET
    | IBV_REG_MR_MASK_DMAH
    | IBV_REG_MR_MASK_BUF;

/// ibv_reg_mr_ex(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut ibv_pd,
    attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    pointer(|| {
        let attr = input!(attr)?;
        let has = |bit: u64| attr.comp_mask & bit != 0;
        if attr.comp_mask & !KNOWN_MASK != 0 {
            return Err(NOT_SUPPORTED);
        }
        if has(IBV_REG_MR_MASK_ADDR) == has(IBV_REG_MR_MASK_FD)
            || has(IBV_REG_MR_MASK_FD_OFFSET) && !has(IBV_REG_MR_MASK_FD)
            || has(IBV_REG_MR_MASK_BUF) && has(IBV_REG_MR_MASK_FD)
        {
            return Err(INVALID);
        }
        let dmah = match has(IBV_REG_MR_MASK_DMAH) {
            // The handle says how pages are reached that are there; those that come on demand are not known.
            true if attr.access & IBV_ACCESS_ON_DEMAND != 0 => return Err(INVALID),
            true => Some(object_of!(dmah_of(attr.dmah))?.users.hold()),
            false => None,
        };
        let iova = has(IBV_REG_MR_MASK_IOVA).then_some(attr.iova);
        if has(IBV_REG_MR_MASK_FD) {
            let offset = if has(IBV_REG_MR_MASK_FD_OFFSET) { attr.fd_offset } else { 0 };
            let (iova, place) = (iova.unwrap_or(offset), (offset, attr.length));
            // SAFETY: the arguments are those of a call from C.
            return unsafe {
                of_file(pd, place, iova, attr.fd, attr.access, |holds| holds.and_dmah(dmah))
            };
        }
        let mut holds = Holds::default();
        if has(IBV_REG_MR_MASK_BUF) {
            let buf = object_of!(buf_of(attr.buf))?;
            holds = Holds::memory(buf.range(pd, attr.addr, attr.length)?);
        }
        let (iova, place) = (iova.unwrap_or(attr.addr.addr() as u64), (attr.addr, attr.length));
        // SAFETY: the arguments are those of a call from C.
        unsafe { register(pd, place, iova, attr.access as c_uint, holds.and_dmah(dmah)) }
    })
}

/// ibv_reg_dmabuf_mr(3), for what the processor can map: bytes that a kernel driver keeps to its hardware are refused, as the
/// driver says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the arguments are those of a call from C.
    pointer(|| unsafe { of_file(pd, (offset, length), iova, fd, access, |holds| holds) })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn of_file(
    pd: *mut ibv_pd,
    (offset, length): (u64, usize),
    iova: u64,
    fd: c_int,
    access: c_int,
    and: impl FnOnce(Holds) -> Holds,
) -> Result<*mut ibv_mr, Errno> {
    let owner = object_of!(pd_of(pd))?;
    if access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED) != 0 {
        return Err(INVALID);
    }
    let (memory, at) = Memory::of_file(fd, offset, length)?;
    let start = memory.at(at, length)?;
    let access = Access::from_bits_retain(access as c_uint);
    // SAFETY: the registration holds the mapping, and is dropped after the region.
    let region = unsafe { Region::from_raw(start, length) };
    let made = owner.device().memory().reg_mr(owner.id, region, iova, access)?;
    let place = (null_mut::<c_void>(), length);
    // SAFETY: the caller's promise.
    Ok(unsafe { object(pd, owner, &made, place, and(Holds::memory(&memory))) })
}
