//! Memory windows.

use std::sync::Arc;

use libc::c_int;
use uroce_device::memory::{Access, Lkey, MwId, MwType, Rkey};
use uroce_device::transport::{SendData, SendFlags, SendOp, SendWr};

use crate::abi::{
    IBV_MW_TYPE_1, IBV_MW_TYPE_2, ibv_mr, ibv_mw, ibv_mw_bind, ibv_mw_bind_info, ibv_pd, ibv_qp,
};
use crate::errno::{Errno, INVALID};
use crate::mr::mr_of;
use crate::object::Object;
use crate::object_of;
use crate::open_device::OpenDevice;
use crate::pd::pd_of;
use crate::qp::{Qp, qp_of};
use crate::return_value::{pointer, status};
use crate::use_count::Use;

/// What we keep about a memory window.
#[derive(Debug)]
struct Window {
    open_device: Arc<OpenDevice>,
    id: MwId,
    mw_type: MwType,
    /// Its first key. Only the low 8 bits of a key ever change.
    rkey: Rkey,
    /// The parent domain that it belongs to.
    _parent: Option<Use>,
}

impl Window {
    /// The key with these low 8 bits.
    fn variant(&self, rkey: u32) -> Rkey {
        Rkey(self.rkey.0 & !0xff | rkey & 0xff)
    }
}

/// Our part of a window; ENOENT if there is none at that address.
///
/// # Safety
/// The window is not destroyed while the result is in use.
unsafe fn window_of<'a>(mw: *const ibv_mw) -> Result<&'a Window, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_mw, Window>::live(mw) }
}

/// `ibv_alloc_mw`.
pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, type_: c_int) -> *mut ibv_mw {
    pointer(|| {
        let mw_type = match type_ {
            IBV_MW_TYPE_1 => MwType::Type1,
            IBV_MW_TYPE_2 => MwType::Type2B,
            _ => return Err(INVALID),
        };
        let owner = object_of!(pd_of(pd))?;
        let mw = owner.device().memory().alloc_mw(owner.id, mw_type)?;
        // SAFETY: a domain that was found, whose context does not change.
        let context = unsafe { (*pd).context };
        let c = ibv_mw { context, pd, rkey: mw.rkey.0, handle: mw.id.get() as u32, type_ };
        Ok(Object::create(
            c,
            Window {
                open_device: Arc::clone(&owner.open_device),
                id: mw.id,
                mw_type,
                rkey: mw.rkey,
                _parent: owner.hold_parent(),
            },
        ))
    })
}

/// `ibv_dealloc_mw`.
pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    status(|| {
        if Object::<ibv_mw, Window>::is_inherited(mw) {
            return Ok(());
        }
        let window = object_of!(window_of(mw))?;
        window.open_device.device.memory().dealloc_mw(window.id)?;
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { Object::<ibv_mw, Window>::destroy(mw) };
        Ok(())
    })
}

/// `ibv_bind_mw`, for type 1. The window's new key is known when it returns, although the bind is only
/// queued: the next variant of the present key.
pub(crate) unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    status(|| {
        if bind.is_null() || mw.is_null() {
            return Err(INVALID);
        }
        object_of!(window_of(mw))?;
        // SAFETY: neither is null, and the window was found.
        let (bind, rkey) = unsafe { (&*bind, (*mw).rkey) };
        let (queue, rkey) = (object_of!(qp_of(qp))?, rkey.wrapping_add(1));
        // SAFETY: the arguments of this call from C.
        let (op, key) = unsafe { bind_op(queue, MwType::Type1, mw, rkey, &bind.bind_info)? };
        let flags = SendFlags::from_bits_truncate(bind.send_flags) - SendFlags::INLINE;
        let wr = SendWr {
            wr_id: bind.wr_id,
            op,
            flags,
            data: SendData::default(),
            ud: None,
            srqn: None,
        };
        queue.device().post_send(queue.qpn, &[wr]).map_err(|(_, error)| Errno::from(error))?;
        // SAFETY: the object was found, and the program does not write to this field.
        unsafe { (*mw).rkey = key.0 };
        Ok(())
    })
}

/// The bind of a type 2 window that a work request describes, and the key that the window gets by it. Of
/// `rkey` only the low 8 bits count, as with hardware. The caller writes the key to the window once the
/// request is posted.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn posted_bind(
    qp: &Qp,
    mw: *mut ibv_mw,
    rkey: u32,
    info: &ibv_mw_bind_info,
) -> Result<(SendOp, Rkey), Errno> {
    // SAFETY: the caller's promise.
    unsafe { bind_op(qp, MwType::Type2B, mw, rkey, info) }
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn bind_op(
    qp: &Qp,
    mw_type: MwType,
    mw: *mut ibv_mw,
    rkey: u32,
    info: &ibv_mw_bind_info,
) -> Result<(SendOp, Rkey), Errno> {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    let window = unsafe { Object::<ibv_mw, Window>::of(mw) }.ok_or(INVALID)?;
    if window.mw_type != mw_type || !qp.is_on(&window.open_device) {
        return Err(INVALID);
    }
    let new_rkey = window.variant(rkey);
    // A window has no local side; programs set the flag, and kernels do not mind.
    let access = Access::from_bits(info.mw_access_flags).ok_or(INVALID)? - Access::LOCAL_WRITE;
    let mr: *mut ibv_mr = info.mr;
    // A bind of no bytes needs no region.
    let lkey = if mr.is_null() {
        0
    } else {
        window.open_device.check_same(object_of!(mr_of(mr))?.open_device())?;
        // SAFETY: the region was found.
        unsafe { (*mr).lkey }
    };
    let op = SendOp::BindMw {
        mw: window.id,
        new_rkey,
        mr: Lkey(lkey),
        va: info.addr,
        length: info.length,
        access,
    };
    Ok((op, new_rkey))
}
