//! Enhanced connection establishment for programs that manage their queue pairs themselves: the options of their provider travel with
//! REQ and REP.

use libc::{c_int, c_void};
use uroce_device::cm::{Ece, RejReason};
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::INVALID;
use uroce_ibverbs::return_value::call;
use uroce_verbs_abi::{ibv_ece, rdma_cm_id};

use crate::connection::reject_for;
use crate::id::id_of;

/// rdma_set_local_ece(3): what the next `rdma_connect` or `rdma_accept` of this id tells the peer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_set_local_ece(
    id: *mut rdma_cm_id,
    ece: *mut ibv_ece,
) -> c_int {
    call("rdma_set_local_ece", || {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let (inner, has_qp, ece) = unsafe { (id_of(id)?, !(*id).qp.is_null(), *not_null(ece)?) };
        if has_qp || ece.vendor_id == 0 || ece.comp_mask != 0 {
            return Err(INVALID);
        }
        inner.state().local_ece = Ece { vendor_id: ece.vendor_id, options: ece.options };
        Ok(())
    })
}

/// rdma_get_remote_ece(3): what the peer told; zeros before it has.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_get_remote_ece(
    id: *mut rdma_cm_id,
    ece: *mut ibv_ece,
) -> c_int {
    call("rdma_get_remote_ece", || {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let (inner, has_qp, ece) = unsafe { (id_of(id)?, !(*id).qp.is_null(), not_null(ece)?) };
        if has_qp {
            return Err(INVALID);
        }
        let Ece { vendor_id, options } = inner.state().remote_ece;
        // SAFETY: not null, so a struct of the program.
        unsafe { *ece = ibv_ece { vendor_id, options, comp_mask: 0 } };
        Ok(())
    })
}

/// rdma_reject_ece(3): as `rdma_reject`, for the reason that the options do not suit.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_reject_ece(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: the arguments are those of a call from C.
    call("rdma_reject_ece", || unsafe {
        reject_for(RejReason::VENDOR_OPTION_NOT_SUPPORTED, id, data, length)
    })
}
