//! Multicast groups of ids. On RoCE nothing has to be asked for: to join is to attach the queue pair and to
//! know the address.

use std::net::IpAddr;

use libc::{c_int, c_void, sockaddr as c_sockaddr};
use uroce_device::CmEventKind;
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID, NOT_SUPPORTED};
use uroce_ibverbs::object_of;
use uroce_ibverbs::qp::{live_qp, qp_of};
use uroce_ibverbs::return_value::minus_one;
use uroce_verbs_abi::{
    RDMA_CM_JOIN_MC_ATTR_ADDRESS, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, RDMA_MC_JOIN_FLAG_FULLMEMBER,
    RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, rdma_cm_id, rdma_cm_join_mc_attr_ex,
};

use crate::channel::{post, take_back};
use crate::id::{Id, Joined, id_of};
use crate::sockaddr;
use crate::wait::complete;

/// Both must be there.
const BOTH: u32 = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

/// rdma_join_multicast(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_join_multicast(
    id: *mut rdma_cm_id,
    address: *mut c_sockaddr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: null, or an address of the program that is as long as its family says.
    minus_one(|| unsafe {
        join(id, sockaddr::read(address)?.ip(), RDMA_MC_JOIN_FLAG_FULLMEMBER, context)
    })
}

/// rdma_join_multicast_ex(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_join_multicast_ex(
    id: *mut rdma_cm_id,
    attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
) -> c_int {
    minus_one(|| {
        // SAFETY: null, or the program's attributes, with an address that is as long as its family says.
        unsafe {
            let attr = &*not_null(attr)?;
            if attr.comp_mask != BOTH || attr.join_flags > RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER {
                return Err(NOT_SUPPORTED);
            }
            join(id, sockaddr::read(attr.addr)?.ip(), attr.join_flags, context)
        }
    })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn join(
    id: *mut rdma_cm_id,
    group: IpAddr,
    flags: u32,
    context: *mut c_void,
) -> Result<(), Errno> {
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let (inner, qp) = unsafe { (id_of(id)?, (*id).qp) };
    let used = inner.state().used.clone().ok_or(INVALID)?;
    if !group.is_multicast() || group.is_ipv4() != used.address.is_ipv4() {
        return Err(INVALID);
    }
    let attached = !qp.is_null() && flags == RDMA_MC_JOIN_FLAG_FULLMEMBER;
    if attached {
        let qp = object_of!(qp_of(qp))?;
        qp.device().attach_mcast(qp.qpn, group)?;
    }
    inner.state().joined.push(Joined { group, context, attached });
    uroce_ibverbs::log::tell(&format_args!("listening for datagrams to {group}"));
    // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
    unsafe {
        post(id, Some(&used), CmEventKind::MulticastJoined { group })?;
        complete(id)
    }
}

/// rdma_leave_multicast(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_leave_multicast(
    id: *mut rdma_cm_id,
    address: *mut c_sockaddr,
) -> c_int {
    minus_one(|| {
        // SAFETY: null, or an address of the program that is as long as its family says.
        let (inner, group) = unsafe { (id_of(id)?, sockaddr::read(address)?.ip()) };
        let mut state = inner.state();
        let place = state.joined.iter().position(|joined| joined.group == group);
        let joined = state.joined.remove(place.ok_or(Errno(libc::EADDRNOTAVAIL))?);
        drop(state);
        let is_its = |kind: &CmEventKind| *kind == CmEventKind::MulticastJoined { group };
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe {
            take_back(id, is_its);
            leave(id, &joined)
        }
    })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn leave(id: *mut rdma_cm_id, joined: &Joined) -> Result<(), Errno> {
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let qp = unsafe { (*id).qp };
    if !joined.attached || qp.is_null() {
        return Ok(());
    }
    // SAFETY: it is looked up: a program may have destroyed it by `ibv_destroy_qp`, and its groups with it.
    let Ok(qp) = (unsafe { live_qp(qp) }) else { return Ok(()) };
    Ok(qp.device().detach_mcast(qp.qpn, joined.group)?)
}

/// Leaves all groups, before the id goes.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn leave_all(id: *mut rdma_cm_id, inner: &Id) {
    let all = std::mem::take(&mut inner.state().joined);
    for joined in &all {
        // SAFETY: an id that was found. A queue pair that the program has detached itself is not there.
        let _ = unsafe { leave(id, joined) };
    }
}
