//! Endpoints: ids that are made with their addresses and queue pair, and wait for their events themselves.

use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use libc::c_int;
use uroce_device::cm::PortSpace;
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::return_value::{minus_one, value};
use uroce_verbs_abi::{
    RAI_PASSIVE, RDMA_CM_EVENT_CONNECT_REQUEST, ibv_pd, ibv_qp_init_attr, rdma_addrinfo, rdma_cm_id,
};

use crate::bind::rdma_bind_addr;
use crate::create;
use crate::destroy::rdma_destroy_id;
use crate::event::{keep, recounted};
use crate::id::{id_of, is_inherited};
use crate::migrate::migrate;
use crate::queue_pair::{rdma_create_qp, rdma_destroy_qp};
use crate::resolve::{rdma_resolve_addr, rdma_resolve_route};
use crate::shared_receive::rdma_destroy_srq;
use crate::wait::{done, next_of};
use crate::wanted::Wanted;

/// Nothing here waits that long.
const TIMEOUT_MS: c_int = 2_000;

/// rdma_create_ep(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_create_ep(
    out: *mut *mut rdma_cm_id,
    info: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    minus_one(|| {
        let (out, info) = (not_null(out)?, not_null(info)?);
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            let udp = (*info).ai_port_space == PortSpace::Udp as c_int;
            let space = if udp { PortSpace::Udp } else { PortSpace::Tcp };
            let id = create::create(null_mut(), null_mut(), space)?;
            (*id).qp_type = (*info).ai_qp_type;
            if let Err(errno) = set_up(id, &*info, pd, init) {
                rdma_destroy_ep(id);
                return Err(errno);
            }
            *out = id;
        }
        Ok(())
    })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn set_up(
    id: *mut rdma_cm_id,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        if info.ai_flags & RAI_PASSIVE != 0 {
            done(rdma_bind_addr(id, info.ai_src_addr))?;
            if let Some(init) = init.as_ref() {
                id_of(id)?.state().wanted = Some(Wanted { pd, init: of_type(init, info) });
            }
            return Ok(());
        }
        done(rdma_resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, TIMEOUT_MS))?;
        done(rdma_resolve_route(id, TIMEOUT_MS))?;
        let Some(init) = init.as_mut() else { return Ok(()) };
        *init = of_type(init, info);
        done(rdma_create_qp(id, pd, init))
    }
}

/// The queue pair has the type of the address, whatever the program left in its attributes.
fn of_type(init: &ibv_qp_init_attr, info: &rdma_addrinfo) -> ibv_qp_init_attr {
    ibv_qp_init_attr { qp_type: info.ai_qp_type, ..*init }
}

/// rdma_destroy_ep(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    value((), || {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            if is_inherited(id) {
                return;
            }
            if id_of(id).is_err() {
                return;
            }
            if !(*id).qp.is_null() {
                rdma_destroy_qp(id);
            }
            if !(*id).srq.is_null() {
                rdma_destroy_srq(id);
            }
            rdma_destroy_id(id);
        }
    });
}

/// rdma_get_request(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_get_request(
    listener: *mut rdma_cm_id,
    out: *mut *mut rdma_cm_id,
) -> c_int {
    minus_one(|| {
        let out = not_null(out)?;
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            let inner = id_of(listener)?;
            if !inner.waits.load(Ordering::Relaxed) {
                return Err(INVALID);
            }
            let wanted = inner.state().wanted;
            let event = next_of(listener)?;
            if (*event).event != RDMA_CM_EVENT_CONNECT_REQUEST {
                keep(listener, event);
                return Err(INVALID);
            }
            let id = (*event).id;
            // The listener, and with it its channel, may go first.
            let moved = migrate(id, null_mut());
            keep(id, recounted(event, &id_of(id)?.unacknowledged));
            let ready = moved.and_then(|()| match wanted {
                Some(Wanted { pd, mut init }) => done(rdma_create_qp(id, pd, &raw mut init)),
                None => Ok(()),
            });
            if let Err(errno) = ready {
                // The caller is told that nobody takes its call.
                rdma_destroy_id(id);
                return Err(errno);
            }
            *out = id;
        }
        Ok(())
    })
}
